"""Whatever the evidence holds, a cause comes out that can be printed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.made_records import made_evidence
from support.roomy_evidence import NUMPY_HUGE

from pytest_lecturecheck.diagnosis import diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.safe_text import one_line

SIZES = st.none() | st.integers(0, 2**50)

TEXTS = (
    st.sampled_from(["", NUMPY_HUGE, "splu", "RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.", "\x1b[0m\n"])
    | st.text()
)


@given(
    st.builds(
        made_evidence,
        cell_number=st.none() | st.integers(1, 9),
        line=st.none() | st.integers(1, 99),
        source=TEXTS,
        error=st.none()
        | st.builds(
            CellError,
            name=st.sampled_from(["MemoryError", "JaxRuntimeError", "SystemExit", "OutOfMemoryError"]) | st.text(),
            value=TEXTS,
            traceback=st.lists(TEXTS, max_size=3).map(tuple),
        ),
        exit_code=st.none() | st.integers(-(2**31), 2**32),
        signal=st.none() | st.integers(1, 64),
        ready=st.booleans(),
        stderr_tail=st.lists(TEXTS, max_size=3).map(tuple),
        timeout_seconds=st.none() | st.floats(0, 1e6),
        timeout_kind=st.sampled_from(["cell", "lecture", "startup", ""]),
        stopped_by_interrupt=st.none() | st.booleans(),
        wall_seconds=st.none() | st.floats(0, 1e6),
        cpu_seconds=st.none() | st.floats(0, 1e6),
        major_faults_count=SIZES,
        peak_footprint_bytes=SIZES,
        last_footprint_bytes=SIZES,
        last_footprint_age_seconds=st.none() | st.floats(0, 9),
        available_memory_bytes=SIZES,
        limit_memory_bytes=SIZES,
        limit_source=TEXTS,
        swap_bytes=SIZES,
    )
)
def test_whatever_was_observed_gives_one_printable_line(evidence):
    cause = diagnose(evidence)
    for text in (cause.headline, *cause.evidence, *cause.advice):
        assert one_line(text) == text
        assert text.strip() == text
        assert text
