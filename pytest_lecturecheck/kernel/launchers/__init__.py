"""
Decide where kernels run: on this machine, or as job steps of a batch scheduler.

In: a :class:`.port.LaunchRequest`. Out: a command to start here, and later how the kernel ended. :mod:`.port` holds the
protocols; :mod:`.launcher_choice` selects an implementation, of which :mod:`.local_launcher` is the smallest.
"""
