"""``lecturecheck plan``: how many workers, in which order, and how long it takes, from recorded budgets."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.errors import LectureCheckError, SettingsError, expected_instead
from pytest_lecturecheck.safe_text import one_line

if TYPE_CHECKING:
    from pytest_lecturecheck.commands.planned_jobs import KnownJobs
    from pytest_lecturecheck.lease.fleet_plan import FleetPlan, PlannedJob, PlannedMachine
    from pytest_lecturecheck.model.fleet import MachineType

HELP: Final = "plan workers, order and time of all recorded lectures on this machine, or on others"
DESCRIPTION: Final = """\
Plan the recorded lectures on a machine: how many workers to start (-n), in which order the lectures run, the memory
fraction for each kernel on a GPU, and when the last one ends. The plan never exceeds memory, cores or cards. It is
compared with a bound that no plan can beat. Nothing is run.

  lecturecheck plan                                 this machine, with the budgets of its platform
  lecturecheck plan --on g4dn.2xlarge               a type of machine of [machines] in the settings
  lecturecheck plan --on small --on small --on gpu  three machines together
  lecturecheck plan --platform linux-x86_64-cpu     with the budgets of this platform
  lecturecheck plan --json                          for other programs

A lecture without a recorded time is planned by its kept runs on that platform. One without either is named.
Machines that do not see each other split the lectures with pytest --lecture-shard 2/5. Exit status: 0; 1 if a lecture
does not fit; 2 if something cannot be read."""
_SHOWN: Final = 40
_NAMED: Final = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NAME",
        help="a type of machine of [machines]; repeatable, for several machines (default: this machine)",
    )
    parser.add_argument("--platform", metavar="NAME", help="platform label of the budgets")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--root", type=Path, metavar="DIR", help="pytest's rootdir (default: here)")


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Print the plan.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: settings or budgets cannot be read, or nothing is known of any lecture.
    """
    from pytest_lecturecheck.budget.limits import PlatformBudgets  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.commands.planned_jobs import read_jobs  # noqa: PLC0415 - as above
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.lease.fleet_plan import plan_fleet  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.budget_file.files import load_folder  # noqa: PLC0415 - as above

    root: Path = (options.root or Path.cwd()).resolve()
    machines, label = _machines(options.on, root)
    settings = resolve({}, root, root)
    platforms = load_folder(settings.budget_folder)
    label = options.platform or label
    known = read_jobs(root, settings, platforms.get(label, PlatformBudgets(platform=label)))
    if not known.jobs:
        raise LectureCheckError(_nothing_known(settings.budget_folder.name, label, sorted(platforms), known))
    plan = plan_fleet(known.jobs, machines)
    status = 1 if plan.left_out else 0
    if options.json:
        more = {"from_runs": list(known.by_runs), "not_measured": list(known.unknown)}
        return status, [json.dumps(plan_to_dict(plan, machines) | more, indent=2)]
    return status, [*_lines(plan, machines, label, known), *_remarks(known)]


def _nothing_known(folder: str, label: str, platforms: Sequence[str], known: KnownJobs) -> str:
    others = f"; budgets: {', '.join(platforms)} (choose with --platform)" if platforms else ""
    lectures = f" of {_count(len(known.unknown), 'lecture')} here" if known.unknown else ""
    return (
        f"{folder} has no budgets for {label}, and no kept session has a complete run{lectures} on it{others}. "
        "Run the lectures once on such a machine, and plan again: pytest --lecture-record"
    )


def _remarks(known: KnownJobs) -> list[str]:
    """Return what the plan rests on besides budgets, and what it leaves out."""
    lines = [f"not read: {one_line(text, 500)}" for text in known.skipped]
    if known.by_runs:
        lines.append(f"by kept runs, without a recorded time: {_named(known.by_runs)}")
    if known.unknown:
        lines.append(
            f"not planned, because no complete run is known: {_named(known.unknown)}; run them once with "
            "pytest --lecture-budget, or record them with pytest --lecture-record"
        )
    return lines


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(one_line, names[:_NAMED])) + more


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _machines(names: Sequence[str], root: Path) -> tuple[list[PlannedMachine], str]:
    """Return the machines to plan for, and the platform whose budgets hold on the first one."""
    from pytest_lecturecheck.lease.fleet_plan import PlannedMachine  # noqa: PLC0415 - not for help

    if not names:
        from pytest_lecturecheck.lease.broker import machine_capacity  # noqa: PLC0415 - as above
        from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators  # noqa: PLC0415 - as above
        from pytest_lecturecheck.probe.machine import detect_machine, detect_platform  # noqa: PLC0415 - as above

        found = detect_accelerators()
        machine = detect_machine(accelerators=found.names, driver=found.driver, cuda=found.cuda)
        capacity = machine_capacity(machine, found.devices)
        return [PlannedMachine(name="this machine", capacity=capacity)], detect_platform(found.model)
    from pytest_lecturecheck.config.option_reading import read_settings_file  # noqa: PLC0415 - as above

    _, settings = read_settings_file(root)
    known: Mapping[str, MachineType] = {item.name: item for item in settings.get("machines", ())}
    for name in names:
        if name not in known:
            msg = f"machine {name!r} is not in [machines]; {expected_instead(name, known) if known else 'it is empty'}"
            raise SettingsError(msg)
    return [_machine_of(known[name]) for name in names], known[names[0]].platform


def _machine_of(kind: MachineType) -> PlannedMachine:
    from pytest_lecturecheck.lease.admission import Capacity  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.lease.broker import reserved_bytes  # noqa: PLC0415 - as above
    from pytest_lecturecheck.lease.fleet_plan import PlannedMachine  # noqa: PLC0415 - as above

    if not kind.memory_bytes:
        msg = f"[machines.{kind.name}]: memory is missing; expected for example memory = '32 GB'"
        raise SettingsError(msg)
    if kind.gpu_count and not kind.gpu_bytes:
        msg = f"[machines.{kind.name}]: gpu-memory is missing; expected for example gpu-memory = '16 GB'"
        raise SettingsError(msg)
    capacity = Capacity(
        host_bytes=max(1, kind.memory_bytes - reserved_bytes(kind.memory_bytes)),
        devices=dict.fromkeys(range(kind.gpu_count), kind.gpu_bytes),
        core_count=max(1, kind.core_count),
    )
    return PlannedMachine(name=kind.name, capacity=capacity)


def _lines(plan: FleetPlan, machines: Sequence[PlannedMachine], label: str, known: KnownJobs) -> list[str]:
    from pytest_lecturecheck.units import format_duration, format_size  # noqa: PLC0415 - not for help

    recorded = len(known.jobs) - len(known.by_runs)
    measured = f", and {len(known.by_runs)} with kept runs only" if known.by_runs else ""
    lines = [f"{_count(recorded, 'lecture')} with budgets of {label}{measured}"]
    for number, machine in enumerate(machines):
        size = machine.capacity
        own = [start for start in plan.starts if start.machine == number]
        cards = f", {len(size.devices)} GPU{'' if len(size.devices) == 1 else 's'}" if size.devices else ""
        lines.append(
            f"{machine.name}: {size.core_count} cores, {format_size(size.host_bytes)} for lectures{cards}: "
            f"-n {plan.most_at_once(number)}{_fraction_text(plan, number, size.devices)}, "
            f"ends after {format_duration(max((start.ends_seconds for start in own), default=0.0))}"
        )
        lines += [
            f"  {format_duration(start.seconds):>10}  {one_line(start.job.name)} "
            f"({format_duration(start.job.seconds)}, {format_size(start.job.host_bytes)})"
            for start in own[:_SHOWN]
        ]
        if len(own) > _SHOWN:
            lines.append(f"  and {len(own) - _SHOWN} more")
    lines += [f"does not fit anywhere: {one_line(job.name)} ({_needs(job)})" for job in plan.left_out]
    alone = sum(start.job.seconds for start in plan.starts)
    above = plan.makespan_seconds / plan.lower_bound_seconds - 1 if plan.lower_bound_seconds else 0.0
    lines.append(
        f"all lectures end after {format_duration(plan.makespan_seconds)}; one after another they take "
        f"{format_duration(alone)}, and no plan can take less than {format_duration(plan.lower_bound_seconds)} "
        f"({above * 100:.0f} % above that)"
    )
    return lines


def _needs(job: PlannedJob) -> str:
    """Describe what a lecture needs of a machine at once."""
    from pytest_lecturecheck.units import format_size  # noqa: PLC0415 - not for help

    parts = [format_size(job.host_bytes), _count(job.core_count, "core")]
    parts += [f"{format_size(job.gpu_bytes)} of GPU memory"] if job.gpu_bytes else []
    return ", ".join(parts)


def _fraction_text(plan: FleetPlan, number: int, cards: Mapping[int, int]) -> str:
    """Return the memory fraction for each kernel on a machine with cards, if any lecture uses one."""
    from pytest_lecturecheck.model.device_plan import memory_fraction  # noqa: PLC0415 - not for help

    on_cards = [start for start in plan.starts if start.machine == number and start.card is not None]
    if not on_cards:
        return ""
    at_once = max(sum(o.card == s.card and o.seconds <= s.seconds < o.ends_seconds for o in on_cards) for s in on_cards)
    fraction = memory_fraction(at_once, total_bytes=min(cards.values()))
    return f", XLA_PYTHON_CLIENT_MEM_FRACTION={fraction:.2f}" if fraction else ", no preallocation"


def plan_to_dict(plan: FleetPlan, machines: Sequence[PlannedMachine]) -> dict[str, Any]:
    """Return a plan as plain values."""
    return {
        "schema": 1,
        "makespan_seconds": plan.makespan_seconds,
        "lower_bound_seconds": plan.lower_bound_seconds,
        "machines": [
            {"name": machine.name, "workers": plan.most_at_once(number)} for number, machine in enumerate(machines)
        ],
        "starts": [
            {"lecture": start.job.name, "machine": start.machine, "start_seconds": start.seconds, "card": start.card}
            for start in plan.starts
        ],
        "left_out": [job.name for job in plan.left_out],
    }
