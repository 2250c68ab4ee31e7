"""
Read the machine: the memory, time and GPUs of a run's processes, and the machine itself.

Comes in: a process id and the token that marks the processes of a run. Goes out: ``Measurement | Unavailable`` for each
metric (:mod:`pytest_lecturecheck.model.metric`), never a made-up zero. Start reading with
:func:`pytest_lecturecheck.probe.memory.open_memory_probe`; ``memory/_linux.py`` reads a cell's peak on Linux,
``gpu/monitor.py`` reads the GPUs, ``machine.py`` describes the machine, ``oom.py`` finds kills for lack of memory.
"""
