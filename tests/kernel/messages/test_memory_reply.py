"""What the kernel and the reader of a record report of memory is checked before it is kept."""

import pytest

from pytest_lecturecheck.kernel.messages.memory_reply import clean_levels, merge_processes, read_error
from pytest_lecturecheck.model.memory_profile import MemoryLevels, PartKind


def place(path, line):
    return f"code cell 1, line {line}", f"source of {path}", line


def line(size, file="helper.py", number=3, **more):
    return {"file": file, "line": number, "name": "make", "size": size, "count": 1, "source": "x", **more}


@pytest.mark.parametrize("payload", [None, [], {}, {"parts": 3, "types": [1], "level_bytes": "x"}])
def test_malformed_levels_are_empty(payload):
    assert clean_levels(payload) == MemoryLevels()


def test_parts_of_unknown_kinds_are_dropped():
    parts = [{"kind": "array", "size_bytes": 5, "name": "a\x1b"}, {"kind": "none", "size_bytes": 5}]
    (part,) = clean_levels({"parts": parts}).parts
    assert (part.kind, part.name, part.size_bytes) == (PartKind.ARRAY, "a", 5)


def test_processes_are_merged_by_line():
    processes = [
        {"peak": 100, "lines": [line(60), line(40, is_cell=True)]},
        {"error": "x"},
        {"peak": 50, "lines": [line(50)]},
    ]
    profile = merge_processes({"processes": processes}, place)
    assert (profile.peak_bytes, profile.process_count) == (150, 2)
    assert [(item.place, item.size_bytes, item.cell_line) for item in profile.lines] == [
        ("helper.py:3 in make", 110, None),
        ("code cell 1, line 3", 40, 3),
    ]


@pytest.mark.parametrize("payload", [None, {}, {"processes": [{"error": "cut"}]}, {"processes": [{"peak": -1}]}])
def test_no_record_is_no_profile(payload):
    assert merge_processes(payload, place) is None


def test_the_reason_of_an_unreadable_record_is_kept():
    assert read_error({"processes": [{"error": "cut\x00off"}]}) == "cut off"
