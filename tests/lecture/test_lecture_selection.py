from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.made_pages import CASES, HEADER, page

from pytest_lecturecheck.lecture.selection import (
    Folders,
    contains_at_ends,
    explain_folder,
    is_candidate,
    is_copy_name,
)


def _items(folder: Path, **choice) -> list[str]:
    folders = Folders()
    found = (
        path
        for path in folder.rglob("*")
        if path.is_file() and is_candidate(path, **choice) and not folders.why_excluded(path, below=folder)
    )
    return sorted(path.relative_to(folder).as_posix() for path in found)


@pytest.mark.parametrize(
    ("case", "items"),
    [
        ("A10-built-copies", ["lecture.ipynb"]),
        ("A13-percent-scripts", ["lecture_percent.py"]),
        ("A16-case-and-ext", ["UP.IPYNB"]),
        ("B01-code-cells-without-header", ["headless.md"]),
        ("B05-display-only-blocks", ["shown.md"]),
    ],
)
def test_files_collected_in_a_folder(case, items):
    assert _items(CASES / case) == items


def test_configured_suffixes_are_collected():
    assert _items(CASES / "A16-case-and-ext", extra_suffixes=frozenset({".RMD", ".qmd"})) == [
        "UP.IPYNB",
        "lecture.Rmd",
        "slides.qmd",
    ]


@pytest.mark.parametrize("name", ["lecture.Rmd", "slides.qmd"])
def test_named_rmd_and_qmd_are_collected(name):
    assert is_candidate(CASES / "A16-case-and-ext" / name, explicit=True)


def test_notebook_is_recognised_by_name(tmp_path):
    assert is_candidate(tmp_path / "does-not-exist.ipynb")


@pytest.mark.parametrize("name", ["a.nbconvert.ipynb", "a-checkpoint.ipynb"])
def test_copies_are_collected_only_if_named(tmp_path, name):
    assert is_copy_name(name)
    assert not is_candidate(tmp_path / name)
    assert is_candidate(tmp_path / name, explicit=True)


def test_named_folder_of_copies_is_searched():
    build = CASES / "A10-built-copies" / "_build"
    assert Folders().why_excluded(build / "jupyter_execute" / "lecture.ipynb", below=build / "jupyter_execute") == ""


@pytest.mark.parametrize(
    ("folder", "mark", "reason"),
    [
        ("_build", None, "_build holds the output of a book build"),
        ("_site", None, "_site holds the output of a site build"),
        ("jupyter_execute", None, "jupyter_execute holds executed copies of a book build"),
        ("node_modules", None, "node_modules holds installed packages"),
        ("site-packages", None, "site-packages holds installed packages"),
        (".tox", None, ".tox is a hidden folder"),
        (".ipynb_checkpoints", None, ".ipynb_checkpoints is a hidden folder"),
        ("py311", "pyvenv.cfg", "py311 is an environment (it has pyvenv.cfg)"),
        ("lectures-env", "conda-meta/history", "lectures-env is an environment (it has conda-meta)"),
        ("build", None, ""),
        ("lectures", None, ""),
    ],
)
def test_excluded_folders(tmp_path, folder, mark, reason):
    place = tmp_path / folder
    place.mkdir()
    if mark is not None:
        (place / mark).parent.mkdir(exist_ok=True)
        (place / mark).touch()
    assert explain_folder(place) == reason


def test_subfolder_of_excluded_folder_is_excluded(tmp_path):
    path = tmp_path / "_build" / "a" / "b" / "x.ipynb"
    assert Folders().why_excluded(path, below=tmp_path) == "_build holds the output of a book build"


EXAMPLE_IN_A_LONGER_FENCE = """\
# How to write lectures

````
```{code-cell} python
1 / 0
```
````
"""


@pytest.mark.parametrize(
    ("text", "is_item"),
    [
        ("---\nfile_format: mystnb\n---\n", True),
        ("---\nkernelspec:\n  name: python3\n---\n", True),
        (HEADER, True),
        (HEADER.replace("\n", "\r\n"), True),
        ("\ufeff" + HEADER, True),
        (HEADER.replace("myst", "markdown") + "```{code-cell}\n1\n```\n", False),
        ("---\ntitle: words\n---\n# Title\n", False),
        ("```{code-cell}\n1\n```\n", True),
        ("````{note}\n```{code-cell}\n1\n```\n````\n", True),
        (EXAMPLE_IN_A_LONGER_FENCE, False),
        (EXAMPLE_IN_A_LONGER_FENCE.replace("````\n```{", "````md\n```{"), False),
        ("````{code-block} md\n```{code-cell}\n1\n```\n````\n", False),
        ("````{note}\nwords\n````\n\n```\n```{code-cell}\n```\n", False),
        ("Write `{code-cell}` to run code.\n", False),
        ("% ```{code-cell}\n% ```\n", False),
        ("    ```{code-cell}\n    1\n    ```\n", False),
    ],
)
def test_which_markdown_pages_are_items(tmp_path, text, is_item):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8", newline="")
    assert is_candidate(path) is is_item


def test_utf_16_page_is_collected(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(HEADER, encoding="utf-16")
    assert is_candidate(path)


def test_unreadable_page_is_collected_only_if_named(tmp_path):
    assert not is_candidate(tmp_path / "gone.md")
    assert is_candidate(tmp_path / "gone.md", explicit=True)


def test_percent_script_without_header_must_be_named_or_configured(tmp_path):
    script = tmp_path / "cells.py"
    script.write_text("import os\n# %%\nos.getcwd()\n", encoding="utf-8")
    assert not is_candidate(script)
    assert is_candidate(script, explicit=True)
    assert is_candidate(script, extra_suffixes=frozenset({".py"}))


def test_named_plain_script_is_not_collected():
    assert not is_candidate(CASES / "A13-percent-scripts" / "plain_script.py", explicit=True)


@pytest.mark.parametrize("format_name", ["percent", "light", "sphinx", "hydrogen"])
def test_scripts_with_a_header_are_items(tmp_path, format_name):
    script = tmp_path / "test_lecture.py"
    header = (
        f"# ---\n# jupyter:\n#   jupytext:\n#     text_representation:\n#       format_name: {format_name}\n# ---\n"
    )
    script.write_text(header, encoding="utf-8")
    assert is_candidate(script)


def test_header_inside_a_program_is_no_header(tmp_path):
    header = "# ---\n# jupyter:\n#   jupytext:\n#     text_representation:\n#       format_name: percent\n# ---\n"
    program = tmp_path / "program.py"
    program.write_text(f'TEXT = """\n{header}"""\n', encoding="utf-8")
    assert not is_candidate(program)
    program.write_text(f"# Licence\n\n{header}", encoding="utf-8")
    assert is_candidate(program)


def test_collection_loads_no_library_of_a_format(tmp_path):
    page(tmp_path, "```{code-cell}\n1\n```\n")
    shutil.copy(CASES / "A13-percent-scripts" / "lecture_percent.py", tmp_path)
    program = (
        "import sys; from pathlib import Path; from pytest_lecturecheck.lecture.selection import is_candidate\n"
        "import pytest_lecturecheck.lecture.reading, pytest_lecturecheck.lecture.book.configuration\n"
        "assert all(is_candidate(path) for path in Path(sys.argv[1]).iterdir())\n"
        "print(sorted({'nbformat', 'jupytext', 'yaml', 'markdown_it', 'nbclient'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [(0, 0, True), (16_000, 90_000, True), (90_000, 16_000, True), (17_000, 17_000, False)],
)
def test_word_is_found_at_both_ends_of_file(tmp_path, before, after, found):
    path = tmp_path / "page.md"
    path.write_bytes(b"x" * before + b"concurrency" + b"x" * after)
    assert contains_at_ends(path, b"concurrency") is found
    assert not contains_at_ends(path, b"exclusive")


def test_no_word_is_found_in_unreadable_file(tmp_path):
    assert not contains_at_ends(tmp_path / "gone.md", b"concurrency")
