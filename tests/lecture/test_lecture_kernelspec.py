from __future__ import annotations

import pytest
from support.made_pages import code, notebook, page

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats.kernelspec import language_of_kernel
from pytest_lecturecheck.lecture.reading import read_lecture

CELL = "```{code-cell}\n1\n```\n"
TABLE = "; expected a table with the name of a kernel under 'name'"
NAME = "; expected the name of a kernel under 'kernelspec'"


@pytest.mark.parametrize(
    ("spec", "line", "fault"),
    [
        (
            "kernelspec: python3\n",
            3,
            "kernelspec is 'python3'; expected a table with the name of a kernel under 'name'",
        ),
        (
            "kernelspec: julia-1.10\n",
            3,
            "kernelspec is 'julia-1.10'; expected a table with the name of a kernel under 'name'",
        ),
        (
            "kernelspec: [python3]\n",
            3,
            "kernelspec is ['python3']; expected a table with the name of a kernel under 'name'",
        ),
        ("kernelspec:\n  name: 3\n", 4, "kernelspec.name is 3; expected the name of a kernel"),
        ("kernelspec:\n  name: [a]\n", 4, "kernelspec.name is ['a']; expected the name of a kernel"),
        ("kernelspec:\n  name: a\n  language: 3\n", 5, "kernelspec.language is 3; expected the name of a language"),
        (
            "kernelspec:\n  language: julia\n",
            3,
            "kernelspec has no 'name' (it has language); expected the name of a kernel",
        ),
        ("language_info:\n  name: julia\n", 4, f"language_info.name is 'julia' but no kernelspec is named{NAME}"),
    ],
)
def test_kernelspec_of_the_wrong_kind_is_refused(tmp_path, spec, line, fault):
    """To ignore it would run the lecture in Python and record a budget for it."""
    path = page(tmp_path, CELL, header=f"---\nfile_format: mystnb\n{spec}---\n")
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name="a.md")
    assert str(caught.value) == f"a.md:{line}: front matter {fault}"


@pytest.mark.parametrize("spec", [{"display_name": "Python 3 (ipykernel)"}, {"language": "python"}])
def test_a_python_kernelspec_without_a_name_is_the_default_kernel(tmp_path, spec):
    lecture = read_lecture(notebook(tmp_path, code("1"), metadata={"kernelspec": spec}), name="a.ipynb")
    assert lecture.kernel_name is None
    assert [finding.message for finding in lecture.findings] == [
        "no kernelspec is named; the default Python kernel is used"
    ]


def test_a_script_with_a_python_kernelspec_without_a_name_is_read(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        "# ---\n# jupyter:\n#   kernelspec:\n#     display_name: Python 3\n# ---\n\n# %%\n1\n", encoding="utf-8"
    )
    lecture = read_lecture(path, name="a.py")
    assert (lecture.kernel_name, [cell.line for cell in lecture.cells]) == (None, [8])


def test_kernel_of_our_own_table_needs_no_kernelspec(tmp_path):
    metadata = {"language_info": {"name": "julia"}, "lecturecheck": {"kernel": "julia-1.10"}}
    lecture = read_lecture(notebook(tmp_path, code("1"), metadata=metadata), name="a.ipynb")
    assert lecture.settings.kernel_name == "julia-1.10"


@pytest.mark.parametrize(
    ("name", "language"), [("python3", "python"), ("ir", "r"), ("iruby", ""), ("Julia-1.10", "julia"), ("my-env", "")]
)
def test_languages_of_usual_kernels(name, language):
    assert language_of_kernel(name) == language


def test_kernelspec_of_a_notebook_is_checked_too(tmp_path):
    path = notebook(tmp_path, code("1"), metadata={"kernelspec": "python3"})
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name="a.ipynb")
    assert str(caught.value) == (
        "a.ipynb:14: notebook metadata kernelspec is 'python3'; expected a table with the name of a kernel under 'name'"
    )


def test_kernelspec_of_a_script_is_checked_too(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("# ---\n# jupyter:\n#   kernelspec: python3\n# ---\n\n# %%\n1\n", encoding="utf-8")
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name="a.py")
    assert (caught.value.line, caught.value.reason) == (
        3,
        "front matter kernelspec is 'python3'; expected a table with the name of a kernel under 'name'",
    )


@pytest.mark.parametrize(
    ("metadata", "kernel"),
    [
        ({}, (None, "")),
        ({"kernelspec": None}, (None, "")),
        ({"kernelspec": {"name": " "}}, (None, "")),
        ({"language_info": {"name": "python"}}, (None, "python")),
        ({"kernelspec": {"name": "python"}}, ("python", "")),
        ({"kernelspec": {"name": "ir", "language": "R"}}, ("ir", "R")),
        ({"kernelspec": {"name": "ir"}, "language_info": {"name": "R"}}, ("ir", "R")),
    ],
)
def test_kernel_and_language(tmp_path, metadata, kernel):
    lecture = read_lecture(notebook(tmp_path, code("1"), metadata=metadata), name="a.ipynb")
    assert (lecture.kernel_name, lecture.language) == kernel
