"""Run lecture notebooks as pytest items and hold each to the memory and time recorded for this platform."""

__version__ = "0.1.0"

__all__ = ["__version__"]
