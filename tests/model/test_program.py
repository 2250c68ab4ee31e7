"""The table ``[programs]`` of the settings file."""

import pytest

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.program import ProgramSpec, parse_programs


def test_programs_keep_their_order_and_words():
    assert parse_programs({"b": "Rscript 'my main.R' -x", "a": ["make", "all"]}) == (
        ProgramSpec(name="b", argv=("Rscript", "my main.R", "-x")),
        ProgramSpec(name="a", argv=("make", "all")),
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("make", "is not a table"),
        ({"a": ""}, "[programs] a: found ''"),
        ({"a": "sh -c 'x"}, "cannot be split into words"),
        ({"a": [1]}, "[programs] a: found [1]"),
        ({"a::b": "make"}, "expected a name of at most 100 characters"),
    ],
)
def test_programs_that_cannot_be_used_are_named(table, said):
    with pytest.raises(SettingsError) as caught:
        parse_programs(table)

    assert said in str(caught.value)
