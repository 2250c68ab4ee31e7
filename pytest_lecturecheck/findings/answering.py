"""Make the document: one section for each of the seven questions, the other findings, and the priors. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.findings.cost_questions import gpu_hours_section, instance_section
from pytest_lecturecheck.findings.document import Document, KeyValue, Section, Table
from pytest_lecturecheck.findings.measured import measure
from pytest_lecturecheck.findings.running_questions import (
    concurrency_section,
    environment_section,
    failure_section,
    gap_section,
    scaling_section,
)
from pytest_lecturecheck.findings.speed_questions import break_even_section, float64_section, sampler_section
from pytest_lecturecheck.findings.spread import number_text
from pytest_lecturecheck.findings.storage import storage_section
from pytest_lecturecheck.model.fleet import MachineType, Prior
from pytest_lecturecheck.verdict.kept_session import KeptSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """
    What findings need besides runs.

    Attributes:
        machines: types of machines with their prices.
        priors: what was expected.
        builds_per_year: how often the lectures are built.
        acceptance: efficiency over several GPUs that is to be reached (0..1).
    """

    machines: tuple[MachineType, ...] = ()
    priors: tuple[Prior, ...] = ()
    builds_per_year: int = 365
    acceptance: float = 0.8


def answer_questions(sessions: Sequence[KeptSession], assumptions: Assumptions) -> Document:
    """
    Return the findings of kept sessions, of any number of machines.

    Args:
        sessions: the sessions.
        assumptions: prices, priors and cadence.
    """
    measured = measure(sessions)
    answered = [
        float64_section(measured),
        break_even_section(measured),
        concurrency_section(measured),
        sampler_section(measured),
        environment_section(measured),
        instance_section(measured, assumptions.machines),
        failure_section(measured),
    ]
    scaling, scaling_values = scaling_section(measured, assumptions.acceptance)
    values = [value for _, found in answered for value in found] + scaling_values
    others = [
        gap_section(measured),
        storage_section(measured),
        scaling,
        gpu_hours_section(measured, assumptions.machines, assumptions.builds_per_year),
    ]
    if assumptions.priors:
        others.append(_prior_section(assumptions.priors, values))
    return Document(
        questions=tuple(section for section, _ in answered),
        others=tuple(others),
        machines=tuple(_machine_lines(sessions)),
        values=tuple(values),
    )


def _prior_section(priors: Sequence[Prior], values: Sequence[KeyValue]) -> Section:
    """Return each prior beside the measured value, as confirmed, refuted or undecided."""
    by_key = {value.key: value for value in values}
    rows, counts = [], {"confirmed": 0, "refuted": 0, "undecided": 0, "not measured": 0}
    for prior in priors:
        found = by_key.get(prior.of)
        if found is None:
            verdict = "not measured"
            near = get_close_matches(prior.of, by_key, n=1)
            text = f"no value has this name{f'; is it {near[0]!r}?' if near else ''}"
        else:
            verdict = judge_prior(prior, found)
            few = "" if found.is_enough else ", too few runs to conclude"
            text = f"{number_text(found.value)} ({number_text(found.low)} to {number_text(found.high)}){few}"
        counts[verdict] += 1
        rows.append((prior.name, prior.of, f"{number_text(prior.low)} to {number_text(prior.high)}", text, verdict))
    table = Table(
        name="priors",
        title="What was expected, and what was measured",
        columns=("prior", "value", "expected", "measured (interval)", "verdict"),
        rows=tuple(rows),
    )
    answer = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return Section(title="Priors", answer=f"{answer}.", basis=f"{len(priors)} priors of the settings", tables=(table,))


def judge_prior(prior: Prior, found: KeyValue) -> str:
    """
    Return "confirmed" if the whole interval is as expected, "refuted" if no part of it is, else "undecided".

    A value of too few runs decides nothing.
    """
    if not found.is_enough:
        return "undecided"
    if found.high < prior.low or found.low > prior.high:
        return "refuted"
    return "confirmed" if prior.low <= found.low and found.high <= prior.high else "undecided"


def _machine_lines(sessions: Sequence[KeptSession]) -> list[str]:
    """Return a line for each machine and software that ran complete lectures."""
    lines: dict[str, None] = {}
    for session in sessions:
        for kept in session.runs:
            run = kept.run.members[0] if kept.run.members else kept.run
            if not kept.is_complete or run.machine is None:
                continue
            software = run.software
            wanted = ("jax", "jaxlib", "numpyro", "numpy")
            versions = [
                f"{name} {software.packages[name]}" for name in wanted if software and name in software.packages
            ]
            python = [software.interpreter] if software and software.interpreter else []
            cards = [card.text for card in run.machine.cards] + [link.text for link in run.machine.card_links]
            lines[f"{session.platform}: {run.machine.text}; {', '.join([*cards, *python, *versions])}"] = None
    return _longest(list(lines))


def _longest(lines: Sequence[str]) -> list[str]:
    """Leave out a line that another one begins with: a lecture that imports less names fewer versions."""
    return [line for line in lines if not any(other != line and other.startswith(line) for other in lines)]
