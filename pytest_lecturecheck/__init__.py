"""Run lecture notebooks as pytest items and hold each to the memory and time recorded for this platform."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_lecturecheck.lecture_api import report_figures

__version__ = "0.1.0"

__all__ = ["__version__", "report_figures"]


def __getattr__(name: str) -> Any:
    """Load what lectures call when it is asked for: a pytest that has the plugin installed pays nothing for it."""
    if name != "report_figures":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from pytest_lecturecheck import lecture_api as reporting  # noqa: PLC0415 - see above

    return reporting.report_figures
