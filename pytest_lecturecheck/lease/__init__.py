"""
Admit lectures to the machine: a ledger of running lectures, shared by all workers and sessions of one user.

Comes in: the budget and settings of a lecture, and the machine. Goes out: a lease, held until the lecture's last
process has ended, or the reason why it waits. Start reading with ``broker.py`` (used by the session). ``admission.py``
decides who may run (pure); ``ledger.py`` and ``ledger_files.py`` keep leases and the queue on disk; ``demand.py``
estimates what a lecture needs; ``ordering.py`` plans the order of a session.
"""
