"""``lecturecheck readme``: write paragraphs for a README and for a replication report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import RUN_HELP, add_root
from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.model.run import Run
    from pytest_lecturecheck.report.entry import Entry
    from pytest_lecturecheck.report.replication_sections import PlatformResult
    from pytest_lecturecheck.verdict.kept_session import KeptSession

HELP: Final = "write paragraphs on memory, time and storage for a README"
DESCRIPTION: Final = """\
Print Markdown to paste into a package's README, under "Memory, Runtime, Storage Requirements" (the headings are those
of the Social Science Data Editors' template), and into a replication report. No README is read or changed. Everything
is measured. Upper bounds are rounded up ("up to"), and lower bounds are rounded down ("at least"). The table has a sign
for each, and explains it.

  lecturecheck readme                          the latest run of each notebook, from all kept sessions of this platform
  lecturecheck readme last                     the last session only
  lecturecheck readme last~1 > needs.md
  lecturecheck readme --with windows.json --with mac.json    also what JSON reports of other machines say
  lecturecheck readme --to report/             write all of it as files for an editor

A run that died under a memory cap below the peak of an earlier complete run, as tries of lecturecheck fit do, is left
out. Under an enforced declared memory it counts.

Runs of several platforms, kept here or given by --with, are set side by side for each notebook. --to DIR writes
readme-section.md, replication-report.md, letter-to-authors.txt, runtime-info.txt (each run with its environment), and
ro-crate-metadata.json (the runs as Process Run Crate 0.5). Write into the package's own folder (--to .) to have the
notebooks described as files of the crate."""
_CAP_FACTOR: Final = 1.1
"""A cap just above the peak may be too small as well: a memory group also counts files and page tables."""
_SECTION: Final = "readme-section.md"
_REPORT: Final = "replication-report.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: the latest run of each notebook)")
    parser.add_argument(
        "--with",
        dest="others",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="JSON report of another machine; repeatable",
    )
    parser.add_argument("--to", type=Path, metavar="DIR", help="write files into this folder instead")
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Write the paragraphs.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: the session cannot be read, or ran nothing.
    """
    from pytest_lecturecheck.commands.session_lookup import entries_of, root_of, session_of, sessions_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.readme_paragraph import render_readme  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.session_history import read_session  # noqa: PLC0415 - as above

    others = [_undisturbed(read_session(path)) for path in options.others]
    if options.run is None:
        kept = [_undisturbed(session) for session in sessions_of(options)]
        sessions = _latest(kept, root_of(options))
        others = [*kept, *others]
    else:
        sessions = [_undisturbed(session_of(options, options.run))]
    if not sessions:
        msg = "the kept sessions hold no run of a whole notebook; run the package with --lecture-budget first"
        raise LectureCheckError(msg)
    session = sessions[-1]
    entries = [entry for item in sessions for entry in entries_of(item)]
    if not any(entry.run.cells and any(cell.status.has_run for cell in entry.run.cells) for entry in entries):
        msg = f"{session.title} ran no cell, so there is nothing to report; choose another session"
        raise LectureCheckError(msg)
    text = render_readme(
        entries,
        platform=session.platform,
        ended=session.ended,
        began=sessions[0].ended,
        version=session.version,
        platforms=[
            _result(session.platform, sessions),
            *_results_elsewhere(others, session.platform, root_of(options)),
        ],
    )
    if options.to is not None:
        return 0, _write(options.to, _files(text, entries, session, root_of(options), options.to))
    return 0, text.rstrip("\n").split("\n")


def _files(text: str, entries: Sequence[Entry], session: KeptSession, root: Path, folder: Path) -> dict[str, str]:
    """Return the text of each file for an editor, by name."""
    from pytest_lecturecheck.report import author_letter, runtime_info  # noqa: PLC0415 - only with --to
    from pytest_lecturecheck.report.exports import run_crate  # noqa: PLC0415 - as above
    from pytest_lecturecheck.report.readme_paragraph import render_report_sections  # noqa: PLC0415 - as above

    report = render_report_sections(entries)
    about = {
        _SECTION: "memory, runtime and storage of the package, for its README",
        _REPORT: "sections of a replication report that follow from the runs",
        author_letter.FILE_NAME: "text for asking the authors",
        runtime_info.FILE_NAME: "each run with its times, memory and environment",
    }
    crate = run_crate.CrateFolder(files=about, path_of=lambda name: _path_in(folder, root / name))
    return {
        _SECTION: text.removesuffix(report).rstrip("\n") + "\n",
        _REPORT: report,
        author_letter.FILE_NAME: author_letter.render_author_letter(entries),
        runtime_info.FILE_NAME: runtime_info.render_runtime_info(entries, version=session.version),
        run_crate.FILE_NAME: run_crate.render_run_crate(entries, crate, ended=session.ended, version=session.version),
    }


def _path_in(folder: Path, path: Path) -> str:
    """Return the path of a file relative to a folder, or an empty string if it is not a file below it."""
    inside = path.resolve()
    return inside.relative_to(folder.resolve()).as_posix() if _is_file_below(folder, inside) else ""


def _is_file_below(folder: Path, path: Path) -> bool:
    return path.is_file() and path.is_relative_to(folder.resolve())


def _write(folder: Path, files: dict[str, str]) -> list[str]:
    """
    Write the files; return their paths.

    Raises:
        LectureCheckError: the folder cannot be written.
    """
    from pytest_lecturecheck.store.atomic import write_text_atomically  # noqa: PLC0415 - only with --to

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_text_atomically(folder / name, text)
    except OSError as exc:
        msg = f"--to {folder}: cannot be written: {exc.strerror or exc}"
        raise LectureCheckError(msg) from exc
    return [str(folder / name) for name in files]


def _undisturbed(session: KeptSession) -> KeptSession:
    """Leave out runs of a part, and runs that a trace or a capture disturbed: their values are not the notebook's."""
    return replace(session, runs=tuple(kept for kept in session.runs if kept.run.is_comparable))


def _results_elsewhere(sessions: Sequence[KeptSession], here: str, root: Path) -> list[PlatformResult]:
    """Return the latest runs of each notebook on each other platform."""
    by_platform: dict[str, list[KeptSession]] = {}
    for session in sorted(sessions, key=lambda item: item.ended.timestamp() if item.ended is not None else 0.0):
        by_platform.setdefault(session.platform, []).append(session)
    by_platform.pop(here, None)
    return [_result(platform, _latest(found, root)) for platform, found in sorted(by_platform.items())]


def _result(platform: str, sessions: Sequence[KeptSession]) -> PlatformResult:
    from pytest_lecturecheck.commands.session_lookup import entries_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.replication_sections import PlatformResult  # noqa: PLC0415 - as above

    entries = [entry for session in sessions for entry in entries_of(session)]
    return PlatformResult(platform=platform, entries=entries, ended=sessions[-1].ended if sessions else None)


def _latest(sessions: Sequence[KeptSession], root: Path) -> list[KeptSession]:
    """
    Keep of each notebook its runs in the latest session that ran it, so that one re-recorded notebook is no package.

    Sessions of other platforms are left out, and so are notebooks that are gone.
    """
    from pytest_lecturecheck.model.metric import Metric  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.model.run import Outcome  # noqa: PLC0415 - as above

    last = sessions[-1]
    alike = [session for session in sessions if session.platform == last.platform]
    named = _named_programs(root)
    latest: dict[tuple[str, str], str] = {}
    peaks: dict[tuple[str, str], float] = {}
    for session in alike:
        for run in (kept.run for kept in session.runs):
            subject = run.lecture, run.variant
            if _was_capped_below(run, peaks.get(subject)):
                continue
            peak = run.measured(Metric.PEAK_FOOTPRINT)
            if run.outcome is Outcome.COMPLETED and peak is not None:
                peaks[subject] = peak.value
            # What the last session names is there; a notebook that was skipped has been measured before, or never.
            is_there = session is last or (root / run.lecture).is_file() or run.lecture in named
            if is_there and (run.cell_run_count or subject not in latest):
                latest[subject] = session.name
    chosen = []
    for session in alike:
        found = ((kept, latest.get((kept.run.lecture, kept.run.variant))) for kept in session.runs)
        chosen.append(replace(session, runs=tuple(kept for kept, name in found if name == session.name)))
    return [session for session in chosen if session.runs]


def _named_programs(root: Path) -> frozenset[str]:
    """Return the names of the table ``[programs]``, which need not be files."""
    from pytest_lecturecheck.config.option_reading import read_settings_file  # noqa: PLC0415 - not for help

    _, in_file = read_settings_file(root)
    return frozenset(program.name for program in in_file.get("programs", ()))


def _was_capped_below(run: Run, known_peak: float | None) -> bool:
    """Return True for a run that died under a cap below its notebook's known peak, as tries of ``fit`` do."""
    from pytest_lecturecheck.model.run import Outcome  # noqa: PLC0415 - not for help

    cap, evidence = run.conditions.cap_bytes, run.evidence
    if known_peak is None or cap is None or evidence is None or run.outcome is not Outcome.DIED:
        return False
    # A declared cap is what is to be reported. A cap just above the footprint may be too small as well.
    return evidence.memory.declared_bytes != cap and cap <= _CAP_FACTOR * known_peak
