"""Planted faults in workflows are found at their line, and good workflows are silent."""

from pathlib import Path

import pytest
from support.git_repository import write

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.repository.workflow_audit import RepositoryTimes, audit_workflows
from pytest_lecturecheck.repository.workflow_file import read_workflow, read_workflows

ROOT = Path(__file__).parents[2]
GOOD = """\
on: push
jobs:
  build:
    runs-on: "runs-on=${{ github.run_id }}/family=g4dn/spot=false"
    timeout-minutes: 60
    env:
      JAX_COMPILATION_CACHE_DIR: ${{ github.workspace }}/.jax-cache
    steps:
      - uses: actions/cache@v5
        with:
          path: .jax-cache
      - run: pip install jax
      - shell: bash -l {0}
        run: |
          set -eo pipefail
          jb build lectures -W --keep-going | tee log
          cp -r _build/html site
      - if: failure()
        uses: actions/upload-artifact@v7
      - uses: peaceiris/actions-gh-pages@v4
"""
BUILD = "          jb build lectures -W --keep-going | tee log\n"


def faults(tmp_path, text, **times):
    write(tmp_path, {"ci.yml": text})
    found = audit_workflows([read_workflow(tmp_path / "ci.yml", "ci.yml")], RepositoryTimes(**times))
    return [(fault.kind, text.split("\n")[fault.line - 1].strip()) for fault in found], found


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_workflow_is_silent(tmp_path):
    assert faults(tmp_path, GOOD, cell_seconds=600.0, cell_origin="_config.yml", whole_seconds=1200.0)[1] == []


@pytest.mark.parametrize(
    ("old", "new", "kind", "line"),
    [
        ("    timeout-minutes: 60\n", "", "no-timeout", "build:"),
        ("/spot=false", "", "spot", 'runs-on: "runs-on=${{ github.run_id }}/family=g4dn"'),
        ("/spot=false", "/spot=true", "spot", 'runs-on: "runs-on=${{ github.run_id }}/family=g4dn/spot=true"'),
        ("      - if: failure()\n        uses", "      - uses", "no-artifacts", None),
        ("          path: .jax-cache", "          path: .other", "no-compile-cache", "- run: pip install jax"),
        ("          set -eo pipefail\n", "", "build-status", "jb build lectures -W --keep-going | tee log"),
        ("set -eo pipefail", "set -e", "build-status", "jb build lectures -W --keep-going | tee log"),
        (" | tee log", " || true", "build-status", "jb build lectures -W --keep-going || true"),
        (" -W --keep-going", "", "first-build", "jb build lectures | tee log"),
        ("lectures -W", "lectures --builder=custom --custom-builder=jupyter -W", "first-build", None),
        ("      - shell:", "      - continue-on-error: true\n        shell:", "build-status", None),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found_at_its_line(tmp_path, old, new, kind, line):
    [(found, shown)], _ = faults(tmp_path, changed(old, new))
    assert found == kind
    assert line in {None, shown}


def test_a_copy_after_the_build_decides_without_errexit(tmp_path):
    text = changed("          set -eo pipefail\n" + BUILD, BUILD.replace(" | tee log", ""))
    _rows, [fault] = faults(tmp_path, text)
    assert fault.why == (
        "a build that fails does not fail the step: `bash -l {0}` goes on after a command that fails, and the last one "
        "decides (`cp -r _build/html site`)"
    )
    assert fault.mend == "set -eo pipefail"


@pytest.mark.parametrize(
    "script",
    [
        "          set +e\n          jb build lectures -W\n          CODE=$?\n          (exit $CODE)\n",
        "          jb build lectures -W && cp a b\n",
        "          if jb build lectures -W; then\n            echo good\n          fi\n",
        "          # jb build lectures | tee log\n          jb build lectures \\\n            -W\n",
    ],
)
def test_a_status_that_is_looked_after_is_no_fault(tmp_path, script):
    start = GOOD.index("          set -eo")
    end = GOOD.index("      - if: failure()")
    assert faults(tmp_path, GOOD[:start] + script + GOOD[end:])[1] == []


def test_the_default_shell_has_no_pipefail_and_bash_has(tmp_path):
    for shell, kinds in (("", ["build-status"]), ("bash", [])):
        text = changed("          set -eo pipefail\n", "").replace("shell: bash -l {0}", f"shell: {shell}")
        assert [kind for kind, _line in faults(tmp_path, text)[0]] == kinds


def test_a_gate_before_the_build_executes_the_lectures(tmp_path):
    builder = changed("lectures -W", "lectures --custom-builder=jupyter -W")
    gate = "      - run: pytest --lecture-budget lectures\n      - shell:"
    assert faults(tmp_path, builder.replace("      - shell:", gate))[1] == []


def test_the_action_of_quantecon_is_a_build(tmp_path):
    text = (
        "on: pull_request\njobs:\n  preview:\n    runs-on: ubuntu-latest\n    steps:\n"
        "      - uses: quantecon/actions/build-lectures@v0\n        with:\n          builder: jupyter\n"
    )
    rows, _found = faults(tmp_path, text)
    line = "- uses: quantecon/actions/build-lectures@v0"
    assert rows == [("no-timeout", "preview:"), ("first-build", line), ("no-artifacts", line)]


@pytest.mark.parametrize(
    ("times", "why"),
    [
        (
            {"whole_seconds": 3500.0},
            "job 'build' is stopped after 1 h 00 min, and the recorded times of the lectures add up to 58 min 20 s",
        ),
        (
            {"cell_seconds": 7200.0, "cell_origin": "_config.yml timeout"},
            (
                "job 'build' is stopped after 1 h 00 min, before a cell that hangs reaches its own limit of 2 h 00 min "
                "(_config.yml timeout), so nothing says which cell it was"
            ),
        ),
    ],
)
def test_a_limit_far_from_the_own_times_is_found(tmp_path, times, why):
    rows, [fault] = faults(tmp_path, GOOD, **times)
    assert rows == [("far-timeout", "timeout-minutes: 60")]
    assert fault.why == why


def test_a_job_that_may_hang_far_longer_than_it_needs(tmp_path):
    rows, [fault] = faults(tmp_path, changed("timeout-minutes: 60", "timeout-minutes: 300"), whole_seconds=600.0)
    assert rows == [("far-timeout", "timeout-minutes: 300")]
    assert fault.mend == "timeout-minutes: 30"


def test_another_limit_of_cells_is_found(tmp_path):
    text = changed("lectures -W", "lectures -D nb_execution_timeout=99999 -W")
    rows, _found = faults(tmp_path, text, cell_seconds=600.0, cell_origin="_config.yml")
    assert [kind for kind, _line in rows] == ["far-timeout"]


def test_the_own_workflows_have_no_fault():
    assert audit_workflows(read_workflows(ROOT), RepositoryTimes()) == []
    examples = [read_workflow(path, path.name) for path in sorted(ROOT.glob("docs/examples/*.yml"))]
    assert len(examples) == 3
    assert audit_workflows(examples, RepositoryTimes()) == []


ALIASES = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize("text", ["a: [", "- a\n", "a: " + "[" * 100 + "]" * 100, ALIASES])
def test_what_is_no_workflow_is_refused(tmp_path, text):
    write(tmp_path, {"ci.yml": text})
    with pytest.raises(SettingsError, match=r"^ci\.yml: "):
        read_workflow(tmp_path / "ci.yml", "ci.yml")


def test_no_workflow_says_what_was_expected(tmp_path):
    with pytest.raises(SettingsError, match=r"no workflow was found; expected \.yml files"):
        read_workflows(tmp_path)
