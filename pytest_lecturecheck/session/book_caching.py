"""
The book's cache in the process that runs lectures: is a lecture there, and what may enter after its run.

Only the controller writes to a cache. Outputs reach it through a file, whose path is sent with the test report.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_lecturecheck import __version__
from pytest_lecturecheck.book_cache.eligibility import (
    HARMLESS_VARIABLES,
    align_messages,
    explain_run,
    unexpected_errors,
)
from pytest_lecturecheck.book_cache.mystmd_cache import executed_cells
from pytest_lecturecheck.book_cache.port import BookCacheError
from pytest_lecturecheck.book_cache.stamp import Stamp, StampedEnvironment, describe_differences, read_stamp
from pytest_lecturecheck.config.options import Mode
from pytest_lecturecheck.kernel.agent.core import MEMORY_VARIABLES
from pytest_lecturecheck.kernel.process.installed_packages import find_packages
from pytest_lecturecheck.lecture.book.pages import BookEngine
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.session.book_targets import CacheTarget, CacheTargets, find_targets
from pytest_lecturecheck.session.lecture_reader import PreparedLecture
from pytest_lecturecheck.session.runtime_context import RuntimeContext

_NOT_ENTERED: Final = "not put into the book's cache: {}"
_STAMPED_METRICS: Final = (Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS, Metric.WALL, Metric.CPU)


class BookCaching:
    """
    Looks lectures up in the book's cache, and prepares what enters it.

    Args:
        context: what the runners of this process work with.
    """

    def __init__(self, context: RuntimeContext) -> None:
        """Look nothing up yet."""
        self._context = context
        self._request = context.settings.book_cache
        self._targets: dict[str, CacheTargets] = {}
        self._refusals: dict[str, str] = {}
        self._files: dict[str, Path] = {}

    @property
    def is_on(self) -> bool:
        """Return True if the book's cache is to be filled."""
        return self._request is not None

    # -- before the run -----------------------------------------------------------------------------------------------

    def why_cached(self, prepared: PreparedLecture) -> str:
        """
        Return what to say instead of running a lecture that all caches of its book have; empty if it is to be run.

        Recording measures every lecture.
        """
        settings = self._context.settings
        if self._request is None or settings.mode is Mode.RECORD or settings.measures_cached:
            return ""
        if prepared.variant.name:
            return ""
        name = prepared.lecture.name
        try:
            origins = [self._cached_by(prepared, target) for target in self._find(prepared).targets]
        except BookCacheError as exc:
            self._refusals[name] = str(exc)
            return ""
        return f"cached, not measured: {', '.join(origins)}" if origins and all(origins) else ""

    def _cached_by(self, prepared: PreparedLecture, target: CacheTarget) -> str:
        """Return who made the entry of a lecture; empty if there is none that can be taken."""
        key, cache, name = target.key(), target.cache, prepared.lecture.name
        entry = cache.find(key)
        if entry is None:
            return ""
        cells = _entry_cells(target)
        if entry.cell_count != len(cells):
            counts = f"{entry.cell_count} there and {len(cells)} here"
            self._refusals[name] = (
                f"its entry in {cache.engine}'s cache has another number of code cells ({counts}), so it was run again"
            )
            return ""
        if errors := unexpected_errors(entry.error_cells, cells):
            self._refusals[name] = f"its entry in {cache.engine}'s cache shows an error in code cell {errors[0]}"
            return ""
        stamp = read_stamp(cache.folder, key)
        if stamp is None or stamp.digest != entry.digest:
            return f"in {cache.engine}'s cache by a build"
        packages = find_packages(self._kernel_name(prepared))
        variables = {**os.environ, **self._context.kernel_variables(prepared.settings)}
        here = self._environment(packages.python if packages is not None else "", variables, {})
        difference = describe_differences(
            stamp.environment, here, lambda module: packages.version(module) if packages is not None else None
        )
        if difference:
            made = f"made in another environment on {stamp.made[:10]} ({difference})"
            self._refusals[name] = f"its entry in {cache.engine}'s cache was {made}, so it was run again"
            return ""
        return f"in {cache.engine}'s cache since {stamp.made[:10]}"

    # -- after the run ------------------------------------------------------------------------------------------------

    def note(self, prepared: PreparedLecture, run: Run, executed: ExecutedLecture | None) -> Run:
        """
        Keep what a run showed for the controller; return the run with findings about what stays out and why.

        Args:
            prepared: the lecture.
            run: its record.
            executed: its outputs, or ``None`` if it did not run to its end.
        """
        if self._request is None:
            return run
        if prepared.variant.name:
            return _with_findings(run, [_NOT_ENTERED.format("only the lecture as it is enters, and this is a variant")])
        name = prepared.lecture.name
        self._drop(name)
        messages = [text] if (text := self._refusals.get(name)) else []
        if executed is not None and run.outcome is Outcome.COMPLETED:
            found = self._find(prepared)
            obstacles = list(found.obstacles)
            entries = []
            for target in found.targets:
                obstacle = explain_run(
                    target.view,
                    prepared.lecture,
                    run,
                    executed,
                    ran_in_temp=bool(prepared.settings.run_in_temp),
                    inherited=os.environ,
                )
                if obstacle:
                    obstacles.append(obstacle)
                    continue
                try:
                    entries.append(self._entry(prepared, target, run, executed))
                except BookCacheError as exc:
                    obstacles.append(str(exc))
            if entries:
                self._files[name] = _write(entries)
            messages += [_NOT_ENTERED.format(text) for text in dict.fromkeys(obstacles)]
        return _with_findings(run, messages)

    def _entry(
        self, prepared: PreparedLecture, target: CacheTarget, run: Run, executed: ExecutedLecture
    ) -> dict[str, object]:
        packages, software = find_packages(self._kernel_name(prepared)), run.software
        known: dict[str, str] = {}
        if packages is not None and software is not None:
            looked_up = {name: packages.version(name) for name in software.packages}
            known = {name: version for name, version in looked_up.items() if version is not None}
        variables = software.variables if software is not None else {}
        stamp = Stamp(
            digest="",
            lecture=prepared.lecture.name,
            made=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            version=__version__,
            environment=self._environment(software.python if software is not None else "", variables, known),
            values=_values(run),
        )
        aligned = align_messages(target.view.lecture, prepared.lecture, executed.messages)
        executed = replace(executed, messages=aligned)
        return {
            "engine": target.cache.engine,
            "folder": str(target.cache.folder),
            "key": target.key(),
            "source": str(prepared.lecture.path),
            "seconds": executed.seconds,
            "stamp": stamp.to_plain(),
            "body": target.cache.body(target.view.lecture, target.kernel_name, executed),
        }

    def take(self, lecture: str) -> str:
        """Return the path of the file with what enters the cache, once; empty if nothing does."""
        self._targets.pop(lecture, None)
        self._refusals.pop(lecture, None)
        path = self._files.pop(lecture, None)
        return "" if path is None else str(path)

    def close(self) -> None:
        """Remove files that nobody took; safe to call twice."""
        for name in list(self._files):
            self._drop(name)

    def _drop(self, lecture: str) -> None:
        if (path := self._files.pop(lecture, None)) is not None:
            path.unlink(missing_ok=True)

    def _find(self, prepared: PreparedLecture) -> CacheTargets:
        name = prepared.lecture.name
        if name not in self._targets:
            assert self._request is not None  # noqa: S101 - callers ask first
            self._targets[name] = find_targets(self._context, prepared, self._request)
        return self._targets[name]

    @staticmethod
    def _kernel_name(prepared: PreparedLecture) -> str | None:
        return prepared.settings.kernel_name or prepared.lecture.kernel_name

    def _environment(
        self, python: str, variables: Mapping[str, str], packages: Mapping[str, str]
    ) -> StampedEnvironment:
        context = self._context
        return StampedEnvironment(
            platform=context.results.platform,
            system=f"{platform.system()} {platform.machine()}",
            accelerators=context.machine.accelerators,
            python=python,
            packages=packages,
            variables={
                name: variables[name]
                for name in MEMORY_VARIABLES
                if name in variables and name not in HARMLESS_VARIABLES
            },
        )


def _with_findings(run: Run, messages: Iterable[str]) -> Run:
    findings = tuple(Finding(kind=FindingKind.BOOK_CACHE, message=text) for text in messages)
    return replace(run, findings=(*run.findings, *findings))


def _entry_cells(target: CacheTarget) -> list[Cell]:
    if target.cache.engine == BookEngine.MYSTMD:
        return list(executed_cells(target.view.lecture))
    return list(target.view.lecture.cells)


def _values(run: Run) -> dict[str, float]:
    measured = {metric.value: run.measured(metric) for metric in _STAMPED_METRICS}
    values = {name: float(item.value) for name, item in measured.items() if item is not None}
    return values | {name: float(item.value) for name, item in run.reported_values.items()}


def _write(entries: list[dict[str, object]]) -> Path:
    """Write what enters the cache to a private file."""
    descriptor, name = tempfile.mkstemp(prefix="lc-executed-", suffix=".json")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(entries, file)
    return Path(name)
