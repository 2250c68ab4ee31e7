"""
Ends for want of GPU memory that others held: a race for the card, a leftover, another program.

Only where devices were read; without them the weaker rules speak, which know no more than the error's text.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.crash_places import crash_lines
from pytest_lecturecheck.diagnosis.gpu.advice import advise_on_leftovers, advise_on_race, advise_on_tenant
from pytest_lecturecheck.diagnosis.gpu.allocator_settings import set_fraction
from pytest_lecturecheck.diagnosis.gpu.ends import DeviceEnd, end_text, read_end
from pytest_lecturecheck.diagnosis.gpu.gpu_wording import (
    device_label,
    device_lines,
    holder_text,
    lecture_name,
    mebibytes,
    of_card,
    which_device,
)
from pytest_lecturecheck.diagnosis.gpu.holders import (
    HeldMemory,
    find_holding,
    is_default_share,
    is_set_share,
    others_of,
    run_bytes,
    share,
)
from pytest_lecturecheck.diagnosis.wording import all_lines, error_text
from pytest_lecturecheck.model.device import DeviceHolder, HolderKind
from pytest_lecturecheck.model.evidence import Evidence


def find_held_memory(evidence: Evidence) -> Cause | None:
    """Recognise memory that others held: by a preallocation, left over from a lecture that has ended, or foreign."""
    end = read_end(evidence)
    holding = find_holding(evidence, end) if end is not None else None
    if end is None or holding is None:
        return None
    if holding.is_race:
        kind, headline = CauseKind.PREALLOCATION_RACE, _race_text(evidence, end, holding)
    elif holding.kind is HolderKind.ENDED_LECTURE:
        kind, headline = CauseKind.LEFTOVER_HOLDER, _leftover_text(evidence, end, holding)
    elif holding.holders:
        kind, headline = CauseKind.OTHER_TENANT, _tenant_text(evidence, end, holding)
    else:
        kind, headline = CauseKind.DEVICE_OUT_OF_MEMORY, _nobody_text(evidence, end, holding)
    lines = (*_first_lines(evidence, end, holding), *device_lines(evidence, (holding.use,)), *all_lines(evidence))
    return Cause(kind=kind, headline=headline, evidence=lines, advice=tuple(_advice(evidence, end, holding)))


def _race_text(evidence: Evidence, end: DeviceEnd, holding: HeldMemory) -> str:
    holder, use = holding.holders[0], holding.use
    when = "when it started" if holder.was_there_first else "while it ran"
    already = "already " if holder.was_there_first else ""
    part = f"{share(holding.held_bytes, use) or 0:.0%}".replace("%", " %")
    if is_set_share(holding.held_bytes, use, evidence):
        part += ", the share that the kernels are set to reserve"
    elif _is_usual_share(evidence, holding):
        part += ", JAX's default share"
    return (
        f"GPU preallocation race: {when}, {_as_subject(holder)} {already}held "
        f"{of_card(holding.held_bytes, use)}{which_device(evidence, use)} ({part}); {_got(evidence, end, holding)}"
    )


def _leftover_text(evidence: Evidence, end: DeviceEnd, holding: HeldMemory) -> str:
    first, *others = holding.holders
    known = first.used_bytes is not None
    most = "" if known else "up to "
    rest = "" if not others else " and 1 other process" if len(others) == 1 else f" and {len(others)} other processes"
    return (
        f"leftover holder of GPU memory: {most}{mebibytes(holding.held_bytes)}{which_device(evidence, holding.use)} "
        f"are still held by {holder_text(first)}{rest}; {_got(evidence, end, holding, with_card=True)}"
    )


def _tenant_text(evidence: Evidence, end: DeviceEnd, holding: HeldMemory) -> str:
    first, *others = holding.holders
    rest = "" if not others else " and 1 other process" if len(others) == 1 else f" and {len(others)} other processes"
    where = which_device(evidence, holding.use)
    if first.used_bytes is None:
        held = (
            f"{of_card(holding.held_bytes, holding.use)}{where} were in use before this run, when "
            f"{_as_subject(first)}{rest} held an unknown part of it"
        )
    else:
        held = f"{_as_subject(first)}{rest} held {of_card(holding.held_bytes, holding.use)}{where}"
    return f"GPU memory held by another program: {held}; {_got(evidence, end, holding)}"


def _nobody_text(evidence: Evidence, end: DeviceEnd, holding: HeldMemory) -> str:
    return (
        f"out of GPU memory: {of_card(holding.held_bytes, holding.use)} of {device_label(holding.use)} were in use "
        f"before this run, by whom is not known; {_got(evidence, end, holding)}"
    )


def _as_subject(holder: DeviceHolder) -> str:
    return f"{text}," if "," in (text := holder_text(holder)) else text


def _got(evidence: Evidence, end: DeviceEnd, holding: HeldMemory, *, with_card: bool = False) -> str:
    """Return what this run got of the card, and how it ended."""
    ended, got = end_text(evidence, end), run_bytes(holding.use)
    if got is None:
        return f"{lecture_name(evidence)} {ended}"
    size = of_card(got, holding.use) if with_card else mebibytes(got)
    return f"{lecture_name(evidence)} got {size} and {ended}"


def _first_lines(evidence: Evidence, end: DeviceEnd, holding: HeldMemory) -> Iterator[str]:
    """Yield the last lines of stderr, or that there were none, and what a holder's size does not show."""
    if evidence.error is not None:
        yield error_text(evidence.error)
    else:
        yield from crash_lines(evidence)
        if not end.speaks_of_memory:
            yield "its last words do not speak of memory; that it lacked some is concluded from the full card"
    if not holding.is_race:
        return
    who = holder_text(holding.holders[0])
    if _is_usual_share(evidence, holding):
        yield f"{who}: its share is what a JAX process reserves, whatever it needs"
    else:
        yield f"{who}: whether its share was in use or only reserved is not known"


def _is_usual_share(evidence: Evidence, holding: HeldMemory) -> bool:
    held, use = holding.held_bytes, holding.use
    return is_set_share(held, use, evidence) or (
        set_fraction(evidence.conditions.environment) is None and is_default_share(held, use)
    )


def _advice(evidence: Evidence, end: DeviceEnd, holding: HeldMemory) -> Iterator[str]:
    """Advise on the cause, and then on leftovers that are there beside it."""
    leftovers = others_of(holding.use, HolderKind.ENDED_LECTURE)
    if holding.kind is HolderKind.ENDED_LECTURE:
        yield from advise_on_leftovers(holding.holders)
        return
    if holding.kind is HolderKind.RUNNING_LECTURE:
        yield from advise_on_race(evidence, end, holding.use)
    else:
        yield from advise_on_tenant(evidence, holding.holders, is_jax=holding.is_race)
    if leftovers:
        yield from advise_on_leftovers(leftovers)
