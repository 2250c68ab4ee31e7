"""
Talk to a kernel: send cells, read what comes back, and check all of it.

In: a started :class:`~pytest_lecturecheck.kernel.process.launch.Kernel` and a notebook. Out: replies, outputs within
bounds, reported values, stacks and crash records. A lecture can forge any message, so every field is checked here.
Start with :mod:`.client`; :mod:`.wire` reads the sockets, :mod:`.agent_reply` checks the agent's payload.
"""
