"""Values for the cell tagged ``parameters``, in every format."""

import json
import re

import pytest

from pytest_lecturecheck.errors import LectureReadError, SettingsError
from pytest_lecturecheck.lecture.parameters import convert_value, read_parameters, with_parameters
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.variant import Variant

CODE = 'size = 10 ** 6\nsampler: str = "vectorized"\nfast = False\ntol = 1e-3\nother = make()'
MYST = (
    f"---\nkernelspec:\n  name: python3\n---\n\n```{{code-cell}}\n:tags: [parameters]\n\n{CODE}\n```\n\n"
    "```{code-cell}\n1 / 0\n```\n"
)
PERCENT = f'# %% tags=["parameters"]\n{CODE}\n\n# %%\n1 / 0\n'


def notebook():
    cells = [
        {"cell_type": "code", "source": source, "metadata": {"tags": tags}, "outputs": [], "execution_count": None}
        for source, tags in ((CODE, ["parameters"]), ("1 / 0", []))
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=1)


@pytest.fixture
def read(tmp_path):
    def read(text, name="a.md"):
        (tmp_path / name).write_text(text)
        return read_lecture(tmp_path / name, name=name)

    return read


def variant(**parameters):
    return Variant(parameters=parameters, origins=dict.fromkeys(parameters, "axis x"))


@pytest.mark.parametrize(("name", "text"), [("a.md", MYST), ("a.py", PERCENT), ("a.ipynb", notebook())])
def test_values_are_appended_and_no_line_moves(read, name, text):
    plain = read(text, name)
    changed = with_parameters(plain, variant(size="2e3", sampler="sequential", fast="true", tol=1))
    added = "\nsize = 2000\nsampler = 'sequential'\nfast = True\ntol = 1.0"
    assert changed.cells[0].source == plain.cells[0].source + added
    assert changed.document.cells[changed.cells[0].index].source == changed.cells[0].source
    assert [cell.line for cell in changed.cells] == [cell.line for cell in plain.cells]
    assert "2000" not in plain.document.cells[plain.cells[0].index].source


def test_defaults_state_the_types(read):
    found = read_parameters(read(MYST))
    kinds = {name: item.kind for name, item in found.items()}
    assert kinds == {"size": int, "sampler": str, "fast": bool, "tol": float, "other": None}
    assert found["fast"].line == 11


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"sise": 1},
            (
                "a.md:9: axis x sets 'sise', which is not a parameter of this lecture; did you mean size? "
                "expected one of size, sampler, fast, tol, other"
            ),
        ),
        ({"size": "big"}, "a.md:9: axis x sets 'size' to 'big', which is not a number, as the default is"),
        ({"size": 1.5}, "a.md:9: axis x sets 'size' to 1.5, which is not a whole number, as the default is"),
        ({"fast": 1}, "a.md:11: axis x sets 'fast' to 1, which is neither true nor false, as the default is"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(read, parameters, message):
    with pytest.raises(LectureReadError, match=f"^{re.escape(message)}$"):
        with_parameters(read(MYST), variant(**parameters))


def test_a_lecture_without_parameters_is_told_what_to_add(read):
    text = MYST.replace(":tags: [parameters]\n", "")
    with pytest.raises(LectureReadError, match="has no cell tagged parameters; add one that assigns 'size'"):
        with_parameters(read(text), variant(size=1))


def test_what_is_only_offered_may_be_missing(read):
    lecture = read(MYST)
    assert with_parameters(lecture, Variant(offered={"device": "cpu"})) is lecture
    assert with_parameters(lecture, Variant(offered={"sampler": "x"})).cells[0].source.endswith("sampler = 'x'")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("9007199254740993", int, 9007199254740993),
        ("1e3", int, 1000),
        (3, float, 3.0),
        (3, str, "3"),
        ([1, 2], tuple, (1, 2)),
        ("x", None, "x"),
        (True, str, "true"),
    ],
)
def test_values_are_converted(value, kind, expected):
    found = convert_value(value, kind)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(("value", "kind"), [("nan", float), (True, int), ([1], str), (1, dict), ("inf", float)])
def test_values_of_other_kinds_are_refused(value, kind):
    with pytest.raises(SettingsError):
        convert_value(value, kind)


@pytest.mark.parametrize(
    ("default", "kind"),
    [
        ("int(1e6)", int),
        ("-(10 ** 6)", int),
        ("float(3)", float),
        ("int('x')", None),
        ("int(2.5e3 * 4)", int),
        ("str(9 ** 9 ** 9)", None),
        ("int(float('1e400'))", None),
        ("-'a'", None),
        ("int()", None),
    ],
)
def test_calculated_defaults_state_their_type(read, default, kind):
    assert read_parameters(read(MYST.replace("10 ** 6", default)))["size"].kind is kind


def test_a_named_variant_is_turned_off_by_variants(read):
    plain = read(MYST.replace(":tags: [parameters]\n", ""))
    small = Variant(name="small", parameters={"size": 1}, origins={"size": "[variant.small]"})
    with pytest.raises(LectureReadError, match=r"or set variants: \[\] under lecturecheck: in its front matter$"):
        with_parameters(plain, small)


def test_a_cell_of_magics_needs_no_offered_values(read):
    lecture = read(MYST.replace("size = 10 ** 6", "%env X=1"))
    assert with_parameters(lecture, Variant(offered={"device": "cpu"})) is lecture


def test_arithmetic_of_defaults_is_bounded(read):
    lecture = read(MYST.replace("10 ** 6", "9 ** 9 ** 9"))
    assert read_parameters(lecture)["size"].kind is None


def test_a_parameters_cell_of_magics_is_explained(read):
    lecture = read(MYST.replace("size = 10 ** 6", "%env X=1"))
    with pytest.raises(LectureReadError, match=r"^a\.md:9: the cell tagged parameters is not plain Python"):
        with_parameters(lecture, variant(size=1))
