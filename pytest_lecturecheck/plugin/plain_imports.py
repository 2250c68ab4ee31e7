"""Import modules of this package without pytest's rewriting of assertions, and without looking for garbage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_REWRITING = "_pytest.assertion.rewrite"


@contextmanager
def plain_imports() -> Iterator[None]:
    """
    Import as Python does: pytest's hook looks at each module and reads those of plugins from files of its own.

    pytest rewrites assertions for what tests call. Here it would take a fifth of the start of a session. Looking for
    garbage takes a tenth of it: imports make many objects that stay.
    """
    collects = gc.isenabled()
    gc.disable()
    finders = [finder for finder in sys.meta_path if type(finder).__module__ == _REWRITING]
    for finder in finders:
        sys.meta_path.remove(finder)
    try:
        yield
    finally:
        if collects:
            _tenure()
            gc.enable()
        # First again, where pytest has put it.
        sys.meta_path[:0] = [finder for finder in finders if finder not in sys.meta_path]


def _tenure() -> None:
    """
    Make the new objects old ones without looking at them: nearly all of them stay.

    Otherwise the next allocation begins a look at all of them. Garbage among them is found when all are looked at.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
