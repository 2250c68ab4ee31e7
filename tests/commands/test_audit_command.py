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


LECTURE = """---
kernelspec:
  name: python3
---

```{{code-cell}}
{code}
```
"""


def test_lectures_are_placed_from_their_source_where_nothing_ran(tmp_path, capsys):
    lectures = {
        "a.md": LECTURE.format(code="import numpy"),
        "b.md": LECTURE.format(code="import jax  # 50_000_000 in the original"),
        "c.md": LECTURE.format(code="import jax\nn = 50_000_000"),
        "plain.md": "# No lecture\n",
    }
    write(tmp_path, lectures)
    assert main(["audit", "--json", "--root", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)["lectures"]
    assert [(item["lecture"], item["placement"], item["from"], item["front_matter"]) for item in found] == [
        ("a.md", "pin to the CPU", "source", "gpu: cpu"),
        ("b.md", "undecided", "source", ""),
        ("c.md", "a GPU helps", "source", "gpu: required"),
    ]
    assert found[0]["targets"] == {"binder": None, "colab-free": None, "codespaces": None, "laptop-16": None}


def test_an_audit_without_lectures_says_where_to_call_it(tmp_path, capsys):
    assert main(["audit", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "no lecture was found here; call it from the top of the repository, or name that with --root"
    ]


def test_the_audit_of_lectures_can_be_read(tmp_path, capsys):
    write(tmp_path, {"a.md": LECTURE.format(code="import numpy")})
    assert main(["audit", "--root", str(tmp_path)]) == 0
    readers = ", ".join(f"{name} not measured" for name in ("binder", "colab-free", "codespaces", "laptop-16"))
    assert capsys.readouterr().out.splitlines() == [
        "a.md: pin to the CPU (from its source: it imports nothing that could use a GPU)",
        "    front matter, below lecturecheck: gpu: cpu",
        f"    peak not measured; readers: {readers}",
        "1 lecture: 1 pin to the CPU",
        "binder, 2 GB (1.86 GiB): 1 not measured (a.md)",
        "colab-free, 12.7 GB (11.8 GiB): 1 not measured (a.md)",
        "codespaces, 8 GB (7.45 GiB): 1 not measured (a.md)",
        "laptop-16, 16 GB (14.9 GiB): 1 not measured (a.md)",
    ]
