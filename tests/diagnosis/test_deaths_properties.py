"""Whatever comes with a death, the cause can be printed and claims no more than was counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.made_records import changed, made_evidence
from support.roomy_evidence import CRASH, DIED, POOL, ROOMY, ROOMY_LINES, check

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import OomKill, OomScope
from pytest_lecturecheck.safe_text import one_line

TEXTS = st.sampled_from(
    ["", *CRASH, "Fatal Python error: \x1b[31mx", '  File "\x1b]0;x\x07", line 2 in \u202ex', "random.py", DIED, POOL]
) | st.text(max_size=20)

SIZES = st.none() | st.integers(0, 2**50)


@given(
    st.builds(
        made_evidence,
        cell_number=st.none() | st.integers(1, 9),
        line=st.none() | st.integers(1, 99),
        source=TEXTS,
        error=st.none() | st.builds(CellError, name=st.sampled_from(["BrokenProcessPool", "MemoryError"]), value=TEXTS),
        exit_code=st.none() | st.sampled_from([0, 1, 137]),
        signal=st.none() | st.sampled_from([6, 9, 11]),
        ready=st.booleans(),
        stderr_tail=st.lists(TEXTS, max_size=4).map(tuple),
        timeout_seconds=st.none() | st.floats(0, 1e6),
        timeout_kind=st.sampled_from(["cell", "lecture", "startup"]),
        stopped_by_interrupt=st.none() | st.booleans(),
        wall_seconds=st.none() | st.floats(0, 1e6),
        cpu_seconds=st.none() | st.floats(0, 1e6),
        peak_footprint_bytes=SIZES,
        limit_memory_bytes=SIZES,
        cap_bytes=SIZES,
        cap_method=TEXTS,
        stopped_at_cap=st.booleans(),
        oom_kills=st.lists(
            st.builds(
                OomKill,
                scope=st.sampled_from(OomScope),
                before=st.integers(0, 2),
                after=st.integers(0, 2),
                limit_bytes=SIZES,
                where=TEXTS,
            ),
            max_size=2,
        ).map(tuple),
        kernel_log=st.lists(TEXTS, max_size=2).map(tuple),
        load_average=st.none() | st.floats(0, 1e3),
        core_count=st.none() | st.integers(0, 99),
        shadowing_files=st.lists(TEXTS, max_size=2).map(tuple),
    )
)
def test_whatever_was_observed_gives_printable_lines_and_no_kill_without_a_record(evidence):
    cause = diagnose(evidence)
    for text in (cause.headline, *cause.evidence, *cause.advice):
        assert one_line(text) == text
        assert text.strip() == text
        assert text
    if cause.kind is CauseKind.OOM_KILLED:
        assert evidence.memory.kernel_log or any(kill.after > kill.before for kill in evidence.memory.oom_kills)


COMPLAINT = "Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED"


def test_what_a_native_allocator_said_while_the_cell_ran_is_the_reason():
    aborted = changed(ROOMY, signal=6, stderr_tail=("a word of an earlier cell", COMPLAINT), stderr_earlier_count=1)
    check(
        aborted,
        CauseKind.NATIVE_OUT_OF_MEMORY,
        (
            "kernel aborted (SIGABRT) in code cell 2, line 9; the native allocator was out of memory, asked 2.68 GB "
            "(2.5 GiB)"
        ),
    )


def test_an_earlier_complaint_is_reported_but_is_not_the_reason():
    aborted = changed(ROOMY, signal=6, stderr_tail=(COMPLAINT, "a word of this cell"), stderr_earlier_count=1)
    check(
        aborted,
        CauseKind.NATIVE_CRASH,
        "kernel aborted (SIGABRT) in code cell 2, line 9",
        lines=(
            (
                "before this cell began the native allocator was out of memory, asked 2.68 GB (2.5 GiB); whether that "
                "is the reason is not known"
            ),
            *ROOMY_LINES,
            f"stderr: {COMPLAINT}",
            "stderr: a word of this cell",
        ),
    )
