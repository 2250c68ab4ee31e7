"""Run lecture notebooks as pytest items and hold each to the memory and time recorded for this platform."""

from pytest_lecturecheck.reporting import report_figures

__version__ = "0.1.0"

__all__ = ["__version__", "report_figures"]
