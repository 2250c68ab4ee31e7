"""
Explain ends for want of GPU memory: who held the card, whose pool was full, and what the driver reported.

Evidence with device readings comes in; a cause goes out, or nothing where the GPU is not the reason. Start with
:mod:`pytest_lecturecheck.diagnosis.gpu.taken_by_others` and :mod:`pytest_lecturecheck.diagnosis.gpu.own_pool`.
"""
