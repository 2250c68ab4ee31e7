"""``lecturecheck audit``: faults as text and as JSON, with what the book says."""

import json

from support.git_repository import write

from pytest_lecturecheck.commands.main import main

WORKFLOW = """\
on: push
jobs:
  build:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - run: jb build lectures
      - if: failure()
        uses: actions/upload-artifact@v7
"""


def test_faults_have_place_reason_and_cure(tmp_path, capsys):
    config = "execute:\n  timeout: 7200\n"
    write(tmp_path, {".github/workflows/ci.yml": WORKFLOW, "lectures/_config.yml": config})
    assert main(["audit", "--ci", "--root", str(tmp_path)]) == 1
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith(
        ".github/workflows/ci.yml:5: far-timeout: job 'build' is stopped after 30 min 00 s, before"
    )
    assert "(lectures/_config.yml execute.timeout)" in rows[0]
    assert rows[2].startswith(".github/workflows/ci.yml:7: first-build: the first build executes the lectures")
    assert rows[3] == "    mend: jb build lectures -W --keep-going"
    assert rows[-1] == "1 workflow with 1 job: 2 faults"


def test_a_book_that_raises_needs_no_option(tmp_path, capsys):
    config = "sphinx:\n  config:\n    nb_execution_raise_on_error: true\n"
    write(tmp_path, {".github/workflows/ci.yml": WORKFLOW, "lectures/_config.yml": config})
    assert main(["audit", "--ci", "--json", "--root", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "faults": []}


def test_what_to_look_at_has_to_be_said(capsys):
    assert main(["audit"]) == 2
    assert "audit: say what to look at; expected --ci" in capsys.readouterr().err
