"""
Run one lecture in one kernel, or several at the same moment, and record what happened.

In: a :class:`.ports.RunPlan` and the :class:`.ports.Ports` through which a run reads the machine. Out: a
    :class:`~pytest_lecturecheck.model.run.Run`, whatever the lecture does. Start with :mod:`.runner`;
    :mod:`.kernel_starter` starts the kernel, :mod:`.cell_runner` runs one cell, :mod:`.record_builder` collects the
    record.
"""
