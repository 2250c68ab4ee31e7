"""The memory cap of a run, enforced by a memory group or the watchdog."""

from __future__ import annotations

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.evidence import OomScope
from pytest_lecturecheck.model.run import Outcome

CAP = 200_000_000
# Far over the cap, and then it waits for its end: what it takes does not depend on when the watchdog looks.
GREEDY = "held = bytearray(b'1') * 600_000_000\nimport time\ntime.sleep(600)"


# Root of a container may often write to the groups above its own, and so leave that.
FLIGHT = """
import contextlib, os, pathlib
for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
    _, names, place = line.split(":", 2)
    if "/lecturecheck-" in place:
        group = pathlib.Path("/sys/fs/cgroup", *(["memory"] if names else []), place.strip("/"))
        with contextlib.suppress(OSError):
            group.parent.joinpath("cgroup.procs").write_text(str(os.getpid()))
            print("left")
"""


def test_the_cap_holds_after_leaving_the_group(bench):
    run = bench.measure(FLIGHT, GREEDY, memory_cap_bytes=CAP)
    assert run.outcome is Outcome.DIED
    has_left = (run.cells[0].output_extract or "").strip() == "left"
    kind = CauseKind.STOPPED_AT_CAP if has_left or run.conditions.cap_method == "watchdog" else CauseKind.OOM_KILLED
    assert diagnose(run.evidence).kind is kind


def test_a_lecture_at_its_cap_is_stopped(bench):
    run = bench.measure("x = 1", GREEDY, memory_cap_bytes=CAP)
    assert run.outcome is Outcome.DIED
    assert run.conditions.cap_bytes == CAP
    cause = diagnose(run.evidence)
    if run.conditions.cap_method == "watchdog":
        assert cause.kind is CauseKind.STOPPED_AT_CAP
        assert cause.headline.startswith("stopped at the memory cap in code cell 2")
    else:
        assert [kill.scope for kill in run.evidence.memory.oom_kills] == [OomScope.CAP]
        assert cause.headline == (
            "kernel was killed by the OOM killer in code cell 2: the memory cap of this run, 191 MiB, was reached"
        )
    (advice,) = cause.advice
    assert advice == (
        "have the cell need less memory, or give it more: memory-cap in its front matter where that is set, else "
        "--lecture-memory-cap SIZE"
    )
