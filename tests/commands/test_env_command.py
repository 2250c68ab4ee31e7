"""``lecturecheck env``: what kernels get, in each form."""

import json

import pytest
from support.git_repository import write

from pytest_lecturecheck.commands.main import main

PINNED = """\
---
kernelspec:
  name: python3
  display_name: Python 3
lecturecheck:
  gpu: cpu
---
```{code-cell}
1
```
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    settings = 'env-profile = "own"\n[env]\nOMP_NUM_THREADS = 2\n[env-profiles.own]\nTEXT = """two\nlines"""\n'
    write(tmp_path, {"lecturecheck.toml": settings, "book/pinned.md": PINNED, "book/plain.md": "# Prose\n"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ENV", raising=False)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_the_list_has_variables_and_pinned_lectures(capsys):
    assert main(["env"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        'OMP_NUM_THREADS="2"',
        'TEXT="two\\nlines"',
        (
            "note: only book/pinned.md gets CUDA_VISIBLE_DEVICES=-1, JAX_PLATFORMS=cpu (front matter "
            "lecturecheck.gpu); a build cannot be given that"
        ),
    ]


@pytest.mark.usefixtures("project")
def test_json_has_the_same(capsys):
    assert main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["profile"] == "own"
    assert found["variables"] == {"OMP_NUM_THREADS": "2", "TEXT": "two\nlines"}
    assert [item["lecture"] for item in found["lectures"]] == ["book/pinned.md"]


@pytest.mark.usefixtures("project")
def test_shell_prints_nothing_but_exports(capsys):
    assert main(["env", "--shell"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "export OMP_NUM_THREADS=2\nexport TEXT='two\nlines'\n"
    assert "only book/pinned.md gets" in printed.err


def test_github_appends_to_its_file(project, capsys, monkeypatch):
    target = project / "env"
    target.write_text("A=1\n")
    monkeypatch.setenv("GITHUB_ENV", str(target))
    assert main(["env", "--github"]) == 0
    rows = target.read_text().split("\n")
    assert rows[0] == "A=1"
    assert rows[1].startswith("OMP_NUM_THREADS<<LECTURECHECK_")
    assert capsys.readouterr().out == "set for later steps: OMP_NUM_THREADS, TEXT\n"


@pytest.mark.usefixtures("project")
def test_github_without_its_file_is_refused(capsys):
    assert main(["env", "--github"]) == 2
    assert "--github needs a step of GitHub Actions: GITHUB_ENV is not set" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_an_unknown_profile_is_refused(capsys):
    assert main(["env", "--profile", "nope"]) == 2
    assert "environment profile 'nope' is not known; expected one of jax-ci, own" in capsys.readouterr().err
