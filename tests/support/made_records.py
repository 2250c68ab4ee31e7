"""
Runs and evidence, made from flat keywords.

The keywords are the keys of a stored record (``signal=9``, ``cap_bytes=GIB``). The nested values they belong to are
made here, so that a test states only what it is about.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.store.record_layout import RECORD_LAYOUTS


def made_evidence(**keys):
    return changed(Evidence(), **keys)


def made_run(**keys):
    own = {key: keys.pop(key) for key in ("lecture", "platform", "outcome")}
    return changed(Run(**own), **keys)


def changed(record, **keys):
    """Return a run, or the evidence of one, with some of its keys changed."""
    layout = RECORD_LAYOUTS[type(record)]
    for key, value in keys.items():
        group, *inner = layout[key]
        new = replace(getattr(record, group), **{inner[0]: value}) if inner else value
        record = replace(record, **{group: new})
    return record
