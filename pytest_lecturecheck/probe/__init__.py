"""Measure: clocks, memory of a process tree, the machine."""
