"""What pytest's terminal shows of a session: the header and the summary."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_lecturecheck.config.options import TARGET_FLAG, Mode
from pytest_lecturecheck.model.settings import GpuNeed
from pytest_lecturecheck.plugin.progress_line import encoding_of
from pytest_lecturecheck.plugin.xdist import has_workers
from pytest_lecturecheck.report.terminal.declared import (
    declared_text,
    render_declared,
    render_declared_room,
    render_target,
)
from pytest_lecturecheck.report.terminal.progress import render_header
from pytest_lecturecheck.session.failure_memory import is_ci

if TYPE_CHECKING:
    from pytest_lecturecheck.model.settings import RunSettings
    from pytest_lecturecheck.plugin.notices import Notices
    from pytest_lecturecheck.plugin.progress_display import ProgressDisplay
    from pytest_lecturecheck.session.cache_filling import CacheFiller
    from pytest_lecturecheck.session.github_actions import GitHub
    from pytest_lecturecheck.session.runtime_context import RuntimeContext

_CI_HEARTBEAT_SECONDS: Final = 60.0
"""Time between two lines about one lecture in the log of a CI service, where the settings name none."""


class TerminalHooks:
    """
    Hooks of the controller that write to the terminal.

    Args:
        config: pytest's configuration.
        context: settings, budgets and results.
        display: shows progress once the session has started.
        notices: what is to be said beside the results.
        github: annotations for GitHub Actions.
        guard: makes printed text harmless to the CI service that reads it.
        filler: fills the book's cache.
    """

    def __init__(  # noqa: PLR0913 - all but two by keyword
        self,
        config: pytest.Config,
        context: RuntimeContext,
        *,
        display: ProgressDisplay,
        notices: Notices,
        github: GitHub,
        guard: Callable[[str], str],
        filler: CacheFiller,
    ) -> None:
        """Hold what the hooks need."""
        self._filler = filler
        self._config = config
        self._context = context
        self._display = display
        self._notices = notices
        self._github = github
        self._guard = guard

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Open the display of progress: only now is it known whether there is a terminal."""
        interval = self._context.settings.heartbeat_seconds
        if interval is None:
            interval = _CI_HEARTBEAT_SECONDS if is_ci(os.environ) else 0.0
        self._display.open(interval)

    def pytest_report_header(self) -> list[str]:
        """Return which budgets hold, on what machine, and what earlier sessions left."""
        context = self._context
        budget_file = context.results.budget_file
        exists = context.settings.mode is Mode.RECORD or budget_file.is_file()
        layers = context.settings.for_all_lectures
        lines = render_header(
            context.results.platform,
            context.machine,
            context.settings.mode.value,
            os.path.relpath(budget_file, context.rootdir) if exists else None,
            declared_text(
                layers.declared_memory_bytes,
                layers.declared_time_seconds,
                layers.declared_core_count,
                layers.declared_disk_bytes,
            ),
        )
        if layers.env_profile is not None:
            lines.append(f"environment profile of kernels: {layers.env_profile}")
        origin = layers.origin("memory_cap_bytes")
        if origin.startswith(TARGET_FLAG) and layers.memory_cap_bytes is not None:
            lines.append(render_target(layers.memory_cap_bytes, origin=origin, hides_gpu=layers.gpu is GpuNeed.CPU))
        if layers.declared_memory_bytes is not None:
            lines += render_declared(layers.declared_memory_bytes, context.machine)
        lines += self._declared_room_lines(layers)
        lines += self._notices.take_new(context.memory.warnings)
        return [self._guard(line) for line in lines]

    def _declared_room_lines(self, layers: RunSettings) -> list[str]:
        cores, disk = layers.declared_core_count, layers.declared_disk_bytes
        free = None
        if disk is not None:
            with contextlib.suppress(OSError):
                free = shutil.disk_usage(self._context.rootdir).free
        return render_declared_room(cores, disk, core_count=self._context.machine.core_count, free_bytes=free)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the summary table, what was recorded, and where the reports are."""
        results = self._context.results
        writer = self._config.get_terminal_writer()
        table = results.summary_lines(
            width=writer.fullwidth,
            colour=writer.hasmarkup,
            verbosity=self._config.get_verbosity(),
            encoding=encoding_of(writer),
        )
        notices = [
            *self._notices.take_new(self._context.memory.warnings),
            *self._context.collection.unused_names(_collected_files(terminalreporter)),
            *self._collection_lines(),
            *self._filler.lines(),
        ]
        lines = [*notices, *([""] if notices and table else []), *table]
        if lines:
            # Unlike section(), this ends the line of progress first, so that no blank line follows the heading.
            terminalreporter.write_sep("=", "lectures")
            for line in lines:
                terminalreporter.write_line(self._guard(line))
        for line in self._github.annotations(results.entries, results.superseded):
            terminalreporter.write_line(line)

    def _collection_lines(self) -> Iterator[str]:
        """Report what was skipped in collection, and which budgets have no lecture."""
        collection, results = self._context.collection, self._context.results
        # With workers it is they who collect: this process has seen no file.
        if not has_workers(self._config):
            yield from (f"--lecture-exclude {text!r} left out nothing" for text in collection.unused_patterns())
            yield from collection.left_out_forms()
            yield from collection.skipped_doctests()
            yield from collection.missing_pages()
        yield from collection.dangling_links()
        if results.entries:
            yield from results.unmatched_budgets()


def _collected_files(terminalreporter: Any) -> set[str]:
    """Return the files of which there is any report; with workers, only reports tell what they collected."""
    reports = (report for found in terminalreporter.stats.values() for report in found)
    return {str(nodeid).split("::")[0] for report in reports if (nodeid := getattr(report, "nodeid", ""))}
