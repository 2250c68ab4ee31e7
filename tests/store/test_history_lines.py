"""The history: appended by sessions, merged by git, and read with everything that people do to such a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.made_entries import MACHINE, MIB
from support.made_sessions import THEN, after, before, kept, session_of

from pytest_lecturecheck.diagnosis import Cause, CauseKind
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.manifest import Fact, Manifest
from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.store.history import append_history, line_to_dict, read_history
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.history_lines import history_lines


def named(session, name):
    return replace(session, name=name)


FIRST = history_lines(named(before(), "s1"))
SECOND = history_lines(named(after(), "s2"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lecture-history.jsonl"


def rows(path):
    return path.read_text(encoding="ascii").splitlines()


def test_a_line_holds_what_trends_need():
    line = next(item for item in SECOND if item.lecture == "lectures/growth.md")
    assert (line.session, line.ended, line.platform) == ("s2", "2026-01-12T06:00:00+00:00", "linux-x86_64-cpu")
    assert (line.verdict, line.failed, line.runs, line.mode) == ("over", False, 1, "check")
    assert line.values[Metric.PEAK_FOOTPRINT].value == 977 * MIB
    assert line.values[Metric.PEAK_FOOTPRINT].method is Method.EXACT
    assert (line.heaviest.number, line.heaviest.line) == (1, 12)
    assert (line.machine, line.software.packages["numpy"]) == (MACHINE, "2.2.0")


def test_a_line_holds_what_lies_beneath_equal_versions(path):
    facts = {Fact.LOADED_BLAS.value: "blas 3.11.0 (system)", Fact.PYTHON.value: "CPython 3.12.1"}
    run = kept("a.md", 50)
    run = replace(run, run=replace(run.run, manifest=Manifest(facts=facts, distributions={"numpy": "2.1.0 (pip)"})))
    append_history(path, history_lines(session_of(run)))

    (line,) = read_history(path).lines
    assert line.facts == {"BLAS libraries loaded": "blas 3.11.0 (system)"}
    assert line.as_side.facts == line.facts


def test_repeated_runs_are_one_line_with_the_highest_values():
    runs = [kept("a.md", 50, 9.0), kept("a.md", 70, 4.0, repeat=2), kept("a.md", 60, 5.0, repeat=3)]
    (line,) = history_lines(session_of(*runs))
    assert line.runs == 3
    assert line.values[Metric.PEAK_FOOTPRINT].value == 70 * MIB
    assert line.values[Metric.WALL].value == 9


def test_a_death_has_its_cause_and_no_values():
    run = kept("a.md", 50, kind=VerdictKind.DIED, outcome=Outcome.DIED)
    cause = Cause(kind=CauseKind.OOM_KILLED, headline="x")
    (line,) = history_lines(session_of(replace(run, verdict=replace(run.verdict, failed=True, cause=cause))))
    assert (line.verdict, line.failed, line.cause, dict(line.values)) == ("died", True, cause.kind.value, {})


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.NOTHING_TO_RUN, Outcome.STOPPED])
def test_lectures_that_were_not_run_have_no_line(outcome):
    assert history_lines(session_of(kept("a.md", 50, outcome=outcome))) == ()
    assert history_lines(session_of(kept("a.md", 50, kind=VerdictKind.FAILED_BEFORE))) == ()


def test_two_sessions_are_read_back_in_order(path):
    append_history(path, SECOND)
    append_history(path, FIRST)
    found = read_history(path)
    assert (found.lines, found.faults) == (FIRST + SECOND, ())


def test_an_odd_name_survives(path):
    lines = history_lines(session_of(kept("a \udcff \u202e.md", 50)))
    append_history(path, lines)
    assert read_history(path).lines == lines


def test_copies_of_a_line_count_once(path):
    append_history(path, FIRST)
    append_history(path, FIRST)
    assert len(rows(path)) == 2 * len(FIRST)
    assert read_history(path).lines == FIRST


def test_folders_of_the_machine_can_be_hidden(path):
    software = replace(THEN, blas=("openblas /home/ann/lib.so",))
    append_history(
        path, history_lines(session_of(kept("a.md", 5, software=software))), lambda text: text.replace("/home/ann", "~")
    )
    (row,) = rows(path)
    assert "ann" not in row
    assert "openblas ~/lib.so" in row


def test_a_line_that_was_cut_off_spoils_no_other(path):
    append_history(path, FIRST)
    path.write_bytes(path.read_bytes()[:-20])
    append_history(path, SECOND)
    found = read_history(path)
    assert found.lines == FIRST[:-1] + SECOND
    (fault,) = found.faults
    assert fault.startswith(f"{path} line {len(FIRST)}: not JSON: ")


def test_conflict_markers_are_named_and_both_sides_are_read(path):
    texts = [json.dumps(line_to_dict(line)) for line in FIRST[:2]]
    path.write_text(f"<<<<<<< HEAD\n{texts[0]}\n=======\n{texts[1]}\n>>>>>>> other\n", encoding="ascii")
    found = read_history(path)
    assert found.lines == FIRST[:2]
    assert [fault.split(": ")[0] for fault in found.faults] == [f"{path} line {number}" for number in (1, 3, 5)]
    assert found.faults[0] == (
        f"{path} line 1: merge conflict marker <<<<<<< HEAD; keep the lines of both sides ('merge=union' in "
        ".gitattributes does)"
    )


def test_newer_lines_are_counted_and_the_others_are_read(path):
    append_history(path, FIRST[:1])
    for number in range(3):
        path.write_text(path.read_text() + json.dumps({"schema": 2, "id": str(number)}) + "\n")
    found = read_history(path)
    assert found.lines == FIRST[:1]
    assert found.faults == (
        (
            f"{path} line 2 and 2 more: written by a newer version (schema above 1); "
            "update pytest-lecturecheck to read them"
        ),
    )


def test_keys_and_metrics_of_a_later_version_are_ignored(path):
    plain = line_to_dict(FIRST[0])
    plain["values"]["energy_joules"] = {"value": 3, "method": "exact"}
    plain |= {"new": 1, "machine": {**plain["machine"], "board": "x"}, "software": {**plain["software"], "libc": "y"}}
    path.write_text(json.dumps(plain) + "\n")
    assert read_history(path) == replace(read_history(path), lines=FIRST[:1], faults=())


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"schema": "x"}, "schema 'x' is not understood; expected an object with 'schema': 1"),
        ({"ended": "yesterday"}, "ended: 'yesterday' is not a time in ISO 8601"),
        ({"runs": "3"}, "runs: found str '3'; expected int"),
        ({"cell": 10**30}, "line.cell: found 1e+30; expected a finite number of at most 2^64 in size"),
        (
            {"values": {"wall_seconds": {"value": 1, "method": "guess"}}},
            "values.wall_seconds.method: found 'guess'; expected one of exact, bracket, sampled, agent",
        ),
    ],
)
def test_a_broken_line_says_what_is_wrong(path, change, fault):
    path.write_text(json.dumps({**line_to_dict(FIRST[0]), **change}) + "\n")
    assert read_history(path).faults == (f"{path} line 1: {fault}",)


def test_of_many_faults_the_first_are_listed(path):
    path.write_text("{\n" * 9)
    faults = read_history(path).faults
    assert len(faults) == 6
    assert faults[-1] == f"{path}: 4 more lines cannot be read"


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(RunFileError, match="cannot be read"):
        read_history(tmp_path)


def test_many_writers_at_once_leave_whole_lines(path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append_history(path, history_lines(named(before(), f"s{number}"))), range(24)))
    found = read_history(path)
    assert (len(found.lines), found.faults) == (24 * len(FIRST), ())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
def test_a_full_disk_leaves_no_part_of_a_line(path):
    import resource  # noqa: PLC0415 - not available on Windows

    append_history(path, FIRST)
    old = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(old) + 700, limits[1]))
    try:
        with pytest.raises(OSError, match="large"):
            append_history(path, SECOND)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == old


def test_a_read_only_file_is_refused(path):
    append_history(path, FIRST)
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        append_history(path, SECOND)
    assert read_history(path).lines == FIRST


def git(folder, *arguments):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True, env=environment)


def test_git_merges_the_histories_of_two_branches(path):
    folder = path.parent
    git(folder, "init")
    (folder / ".gitattributes").write_text("*.jsonl merge=union\n")
    append_history(path, history_lines(named(before(), "base")))
    git(folder, "add", ".")
    git(folder, "commit", "-m", "base")
    git(folder, "checkout", "-b", "other")
    append_history(path, FIRST)
    git(folder, "commit", "-am", "other")
    git(folder, "checkout", "main")
    append_history(path, SECOND)
    git(folder, "commit", "-am", "main")
    git(folder, "merge", "other", "-m", "both")
    found = read_history(path)
    assert ({line.session for line in found.lines}, found.faults) == ({"base", "s1", "s2"}, ())
    assert len(found.lines) == 2 * len(FIRST) + len(SECOND)


def test_a_link_to_a_file_of_another_kind_is_not_followed(path):
    other = path.with_name("profile")
    other.write_text("export A=1\n", encoding="utf-8")
    path.symlink_to(other)
    with pytest.raises(OSError, match=r"it is a link to .*profile; expected a link to a file that ends in \.jsonl"):
        append_history(path, FIRST)
    assert other.read_text(encoding="utf-8") == "export A=1\n"
