"""
Code that runs inside the kernel; its source is sent there as text.

In: IPython's shell. Out: a payload in the metadata of each execute reply, and a crash record on disk. The modules
    import the standard library only, and of this package each other at most, which is then sent along. Start with
    :mod:`.core`.
"""
