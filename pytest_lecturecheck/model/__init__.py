"""
Frozen values that all rooms share: lecture, run, cell, evidence, metric, device, platform, settings.

Values and arithmetic only: no file, no process and no clock is read here. Probes and kernels fill these values;
verdicts, causes, stores and reports read them. Start with :mod:`pytest_lecturecheck.model.run`.
"""
