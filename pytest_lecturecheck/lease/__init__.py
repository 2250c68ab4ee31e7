"""The machine's ledger of running lectures, shared by all workers and sessions of one user."""
