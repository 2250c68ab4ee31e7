"""
Read the GPUs: memory in use, the processes that hold it, and the share of a run. The only user of NVML.

Start reading with ``monitor.py`` (one reader for all runs of this process) and ``_track.py`` (one device in one run).
``_attribution.py`` decides what belongs to the run, ``_holders.py`` who else held memory. ``_nvml.py`` alone imports
pynvml, and only on a machine that has a GPU (``_presence.py``).
"""
