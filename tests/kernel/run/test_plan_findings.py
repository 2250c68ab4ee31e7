"""What the compiler plans, and what is said of a plan that does not fit."""

import pytest
from support.made_entries import GIB, MACHINE, cell, replace

from pytest_lecturecheck.kernel.agent import device_libraries
from pytest_lecturecheck.kernel.messages.agent_device_reply import clean_compilation
from pytest_lecturecheck.kernel.messages.crash_record import CrashRecord
from pytest_lecturecheck.kernel.run.plan_findings import excess_text, plan_findings
from pytest_lecturecheck.kernel.run.plan_watch import PlanWatch
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes, Device, DeviceUse, MemoryPlan
from pytest_lecturecheck.model.lecture import Cell

SIZES = {"argument_bytes": 1, "output_bytes": 8, "alias_bytes": 2, "temporary_bytes": 16, "code_bytes": 32}


def findings(total, platform="cpu", devices=()):
    plan = MemoryPlan(program="jit_f", platform=platform, temporary_bytes=total)
    compiled = replace(cell(2, 12, 100, 10), compilation=CompileTimes(seconds=1.0, plan=plan))
    return [item.message for item in plan_findings([compiled], MACHINE, devices)]


def card(size):
    return DeviceUse(device=Device(index=0, name="card", total_bytes=size))


def test_a_plan_of_more_than_the_machine_has_is_a_finding():
    room = MACHINE.usable_memory_bytes
    assert findings(room) == []
    (message,) = findings(room + GIB)
    assert message.startswith("the compiled program jit_f asks for ")
    assert f"{MACHINE.usable_memory_source} of this machine is " in message


def test_a_plan_for_a_card_is_compared_with_the_card():
    assert findings(11 * GIB, "gpu", [card(12 * GIB)]) == []
    assert findings(13 * GIB, "gpu", [card(12 * GIB)]) == [
        "the compiled program jit_f asks for 13 GiB (13 GiB of temporaries), and the memory of the card is 12 GiB"
    ]
    assert findings(13 * GIB, "gpu") == []


def test_a_plan_for_a_card_is_compared_with_what_jax_may_take():
    usage = AllocatorUsage(library="JAX", device="cuda:0", live_bytes=0, limit_bytes=9 * GIB)
    plan = MemoryPlan(program="jit_f", platform="gpu", temporary_bytes=10 * GIB)
    message = excess_text(plan, MACHINE, [12 * GIB], [usage])
    assert message.endswith(", and the memory that JAX may take of the card is 9 GiB")
    assert excess_text(plan, MACHINE, [12 * GIB]) == ""


class Session:
    """A kernel whose agent has written down the plan of a program."""

    request_count = 3

    def __init__(self, plan, request=3):
        compiled = CompileTimes(seconds=1.0, plan=plan)
        self.record = CrashRecord(request=request, compilation=compiled)

    def crash_record(self):
        return self.record


def test_a_plan_that_cannot_fit_is_said_while_the_cell_runs():
    room = MACHINE.usable_memory_bytes
    running = Cell(index=1, number=2, source="f(x)", line=12)
    large = MemoryPlan(program="jit_f", platform="cpu", temporary_bytes=room + GIB)
    assert (
        PlanWatch(MACHINE)
        .look(Session(large), running)
        .startswith("code cell 2, line 12: the compiled program jit_f asks for ")
    )
    small = MemoryPlan(program="jit_f", platform="cpu", temporary_bytes=room)
    for session, cell_now in (
        (Session(small), running),
        (Session(large, request=2), running),
        (Session(large), None),
        (None, running),
    ):
        assert PlanWatch(MACHINE).look(session, cell_now) == ""


def test_results_in_the_memory_of_arguments_count_once():
    assert MemoryPlan(program="f", **SIZES).total_bytes == 1 + 6 + 16 + 32


@pytest.mark.parametrize("fault", [{"code_bytes": -1}, {"output_bytes": "8"}, {"alias_bytes": None}])
def test_a_plan_with_an_impossible_size_is_dropped(fault):
    payload = {"seconds": 1.0, "plan": {"program": "f", "platform": "cpu", **SIZES}}
    assert clean_compilation(payload).plan == MemoryPlan(program="f", platform="cpu", **SIZES)
    assert clean_compilation({"seconds": 1.0, "plan": {**payload["plan"], **fault}}).plan is None


class Program:
    def __init__(self, name, temporary):
        self.fingerprint, self.name, self.temporary = name.encode(), name, temporary

    def get_compiled_memory_stats(self):
        names = ("argument_size_in_bytes", "output_size_in_bytes", "alias_size_in_bytes")
        stats = dict.fromkeys(names, 0) | {"generated_code_size_in_bytes": 1}
        return type("Stats", (), {**stats, "temp_size_in_bytes": self.temporary})

    def hlo_modules(self):
        return [self]


class Client:
    platform = "cpu"

    def __init__(self, *programs):
        self.programs = programs

    def live_executables(self):
        return list(self.programs)


def test_the_largest_new_program_is_kept(monkeypatch):
    bridge = type("Bridge", (), {"_backends": {"cpu": Client(Program("jit_a", 5), Program("jit_b", 9))}})
    monkeypatch.setitem(device_libraries.sys.modules, "jax._src.xla_bridge", bridge)
    seen = set()
    found = device_libraries.largest_plan(seen)
    assert (found["program"], found["total_bytes"], found["temporary_bytes"]) == ("jit_b", 10, 9)
    assert device_libraries.largest_plan(seen) is None
