"""
Start, limit and end the processes of a run.

In: a kernelspec, a launcher and a memory limit. Out: a :class:`.launch.Kernel`, and later the processes that had to be
killed. Start with :mod:`.launch` and :mod:`.teardown`; :mod:`.cap`, :mod:`.cgroup` and :mod:`.scope` limit memory.
"""
