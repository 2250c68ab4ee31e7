"""What a cohort leaves out of what a session asks for."""

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.model.profile import ProfileKind, TraceRequest
from pytest_lecturecheck.model.repetition import RepeatRequest
from pytest_lecturecheck.session.cohort_runner import left_out_findings


def found(tmp_path, given):
    return [(item.kind, item.message) for item in left_out_findings(resolve(given, tmp_path, tmp_path))]


def test_profiles_and_repetitions_are_left_out_and_said(tmp_path):
    given = {"profile": TraceRequest(kind=ProfileKind.LEVELS), "repeat-cells": RepeatRequest(count=5)}
    profiled = (
        "no cell was profiled: lectures that run at the same time would be charged for the profiler of another; run "
        "the lecture by itself, without --lecture-concurrency"
    )
    repeated = "no cell was run again: that is done to lectures that run by themselves, without --lecture-concurrency"
    assert found(tmp_path, given) == [("profile", profiled), ("leak", repeated)]


def test_nothing_asked_for_is_nothing_left_out(tmp_path):
    assert found(tmp_path, {}) == []
