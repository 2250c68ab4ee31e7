"""
Render runs as the metadata file of an RO-Crate, in the profile Process Run Crate 0.5 of Workflow Run RO-Crate.

See https://w3id.org/ro/wfrun/process/0.5 and https://w3id.org/ro/crate/1.1. Each run is an action. Its instrument is
the notebook or program, and its results are the measured values. A file is a data entity only if it lies in the folder
of the crate.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final
from urllib.parse import quote

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.manifest import Fact
from pytest_lecturecheck.model.metric import Metric, Unit
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import method_text
from pytest_lecturecheck.safe_text import one_line

FILE_NAME: Final = "ro-crate-metadata.json"
_PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
_CONTEXT: Final = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
_DONE: Final = "http://schema.org/CompletedActionStatus"
_FAILED: Final = "http://schema.org/FailedActionStatus"
_NOT_RUN: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN})
_RESULTS: Final = (Metric.PEAK_FOOTPRINT, Metric.WALL, Metric.CPU, Metric.DISK_WRITTEN)
_FROM_INDEX: Final = ("(pip)", "(uv)")
_FORMATS: Final[Mapping[str, str]] = {
    ".ipynb": "application/x-ipynb+json",
    ".json": "application/json",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".py": "text/x-python",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateFolder:
    """
    The folder in which the metadata file will lie.

    Attributes:
        files: other files in it that describe the runs, with one sentence about each.
        path_of: returns the path of a lecture relative to the folder, or an empty string if it lies elsewhere.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    path_of: Callable[[str], str] = lambda _name: ""


def render_run_crate(entries: Sequence[Entry], folder: CrateFolder, *, ended: dt.datetime | None, version: str) -> str:
    """
    Render the metadata file.

    Args:
        entries: the runs.
        folder: where the file will lie.
        ended: when the last session ended, or ``None`` if that is not known.
        version: version of this package that measured, or an empty string.
    """
    made = [entry for entry in entries if entry.run.outcome not in _NOT_RUN]
    graph = _Graph(folder)
    actions = [graph.add_action(number, entry) for number, entry in enumerate(made, start=1)]
    for name, about in folder.files.items():
        graph.add_file(name, {"description": about})
    tool = f"pytest-lecturecheck {version}".strip()
    root = {
        "@id": "./",
        "@type": "Dataset",
        "conformsTo": {"@id": _PROFILE},
        "name": "Runs of a replication package",
        "description": f"Each notebook and program was run and measured with {tool}.",
        # RO-Crate 1.1 requires a date; the present one would make two calls differ.
        "datePublished": f"{(ended or dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).astimezone(dt.UTC):%Y-%m-%d}",
        "license": "The licence of the replication package applies; it was not read.",
        "hasPart": _references(graph.files),
        "mentions": _references(actions),
    }
    descriptor = {
        "@id": FILE_NAME,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    profile = {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    document = {"@context": _CONTEXT, "@graph": [descriptor, root, profile, *graph.entities.values()]}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


class _Graph:
    """Collects the entities, each once."""

    def __init__(self, folder: CrateFolder) -> None:
        self._folder = folder
        self.entities: dict[str, dict[str, Any]] = {}
        self.files: list[str] = []

    def _add(self, identity: str, kind: object, rows: Mapping[str, object]) -> str:
        entity = {"@id": identity, "@type": kind, **{key: value for key, value in rows.items() if value}}
        self.entities.setdefault(identity, entity)
        return identity

    def add_file(self, path: str, rows: Mapping[str, object], kinds: Sequence[str] = ()) -> str:
        identity = quote(path)
        ending = f".{path.rpartition('.')[2].lower()}"
        if identity not in self.files:
            self.files.append(identity)
        about = {"name": one_line(path), "encodingFormat": _FORMATS.get(ending, "text/plain"), **rows}
        return self._add(identity, ["File", *kinds] if kinds else "File", about)

    def add_action(self, number: int, entry: Entry) -> str:
        run = entry.run
        failed = run.outcome is not Outcome.COMPLETED
        count = run.cell_run_count
        what = "a program" if run.is_program else f"{count} of {len(run.cells)} code cells"
        started, ended = _times(entry)
        rows = {
            "name": f"Run of {entry.name}",
            "description": one_line(f"{what}, on {run.platform}; {entry.verdict.kind.value}: {entry.headline}"),
            "instrument": {"@id": self._add_instrument(entry)},
            "startTime": started,
            "endTime": ended,
            "actionStatus": _FAILED if failed else _DONE,
            "error": entry.headline if failed else "",
            "environment": _references(self._add_variables(number, entry)),
            "result": _references(self._add_results(number, entry)),
        }
        return self._add(f"#run-{number}", "CreateAction" if rows["result"] else "ActivateAction", rows)

    def _add_instrument(self, entry: Entry) -> str:
        run, software = entry.run, entry.run.software
        rows: dict[str, object] = {"name": one_line(run.lecture)}
        if software is not None:
            known = run.manifest.distributions if run.manifest is not None else {}
            rows["softwareRequirements"] = _references(self._add_packages(software, known))
        elif run.manifest is not None and (text := one_line(run.manifest.fact(Fact.PROGRAM))):
            rows["softwareRequirements"] = {"@id": self._add(f"#{quote(text)}", "SoftwareApplication", {"name": text})}
        path = self._folder.path_of(run.lecture)
        if path:
            return self.add_file(path, rows, ["SoftwareSourceCode"])
        return self._add(f"#{quote(one_line(run.lecture), safe='/')}", "SoftwareSourceCode", rows)

    def _add_packages(self, software: Software, known: Mapping[str, str]) -> Iterator[str]:
        if software.interpreter:
            name, _, version = software.interpreter.rpartition(" ")
            rows = {"name": name, "url": "https://www.python.org/", "softwareVersion": version}
            yield self._add(f"#{quote(f'{name}-{version}')}", "SoftwareApplication", rows)
        for imported, version in sorted(software.packages.items()):
            name = one_line(software.distributions.get(imported, imported))
            page = f"https://pypi.org/project/{quote(name, safe='')}/"
            label = quote(one_line(version), safe="")
            # A package from a folder or from conda may be another one than that of this name on the index.
            is_on_index = known.get(_folded(name), "").endswith(_FROM_INDEX)
            rows = {"name": name, "url": page if is_on_index else "", "softwareVersion": one_line(version)}
            identity = f"{page}{label}/" if is_on_index else f"#{quote(name, safe='')}-{label}"
            yield self._add(identity, "SoftwareApplication", rows)

    def _add_variables(self, number: int, entry: Entry) -> Iterator[str]:
        software = entry.run.software
        found = {**(software.variables if software is not None else {}), **entry.run.conditions.environment}
        for name, value in sorted(found.items()):
            rows = {"name": one_line(name), "value": one_line(value)}
            yield self._add(f"#run-{number}-{quote(one_line(name), safe='')}", "PropertyValue", rows)

    def _add_results(self, number: int, entry: Entry) -> Iterator[str]:
        for metric in _RESULTS:
            found = entry.run.measured(metric)
            if found is None:
                continue
            rows = {
                "name": metric.label,
                "value": str(round(found.value) if metric.unit is Unit.BYTES else round(found.value, 3)),
                "unitText": "bytes" if metric.unit is Unit.BYTES else "seconds",
                "description": one_line(method_text(found)),
            }
            yield self._add(f"#run-{number}-{metric.value}", "PropertyValue", rows)


def _references(identities: Iterable[str]) -> object:
    """Return references to entities; RO-Crate 1.1 asks for a single one without a list around it."""
    found = [{"@id": identity} for identity in identities]
    return found[0] if len(found) == 1 else found


def _folded(name: str) -> str:
    return name.replace("_", "-").replace(".", "-").lower()


def _times(entry: Entry) -> tuple[str, str]:
    """Return when a run began and ended in ISO 8601, or empty strings."""
    try:
        started = dt.datetime.fromisoformat(entry.run.launch.started)
    except ValueError:
        return "", ""
    ended = started + dt.timedelta(seconds=entry.seconds or entry.wall_seconds)
    return started.isoformat(timespec="seconds"), ended.isoformat(timespec="seconds")
