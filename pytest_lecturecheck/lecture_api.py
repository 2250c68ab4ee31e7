"""
The call by which a lecture reports values, for environments that have this package.

It is loaded inside lectures' kernels: nothing but the standard library, and nothing of pytest.
"""

from __future__ import annotations

import contextlib
import math
import operator
import sys
from collections.abc import Mapping
from typing import Any, Final

from pytest_lecturecheck.model.reported_value import DISPLAY_ID, MIME_TYPE, MOST_WHOLE

_SHOWN_CHARS: Final = 100


def report_figures(**figures: object) -> None:
    """
    Report named values of a lecture to pytest-lecturecheck; do nothing if it does not run the lecture.

    Nothing is printed or stored in the notebook, and no value makes this fail: one that cannot be used is a finding of
    the session that runs the lecture.

    Args:
        figures: name to value, or to a mapping with the keys ``value``, ``unit`` (text) and ``better`` (``"higher"`` or
            ``"lower"``). A value is anything that ``float`` takes. Of several reports of one name the last one counts.
    """
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return
    payload = {name: _plain(value) for name, value in figures.items()}
    shell.display_pub.publish(data={MIME_TYPE: payload}, metadata={}, transient={"display_id": DISPLAY_ID}, update=True)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _number(item) if key == "value" else str(item) for key, item in value.items()}
    return _number(value)


def _number(value: Any) -> float | str:
    """Return a number that JSON can hold, or a text that says what was there instead."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        # Whole numbers of any library.
        if not isinstance(value, bool) and abs(whole := operator.index(value)) <= MOST_WHOLE:
            return whole
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return repr(value)[:_SHOWN_CHARS]
    return number if math.isfinite(number) and not isinstance(value, str | bool) else repr(value)[:_SHOWN_CHARS]
