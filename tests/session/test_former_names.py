"""Names in the budget file that a lecture or a cohort probably had."""

from __future__ import annotations

import pytest

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.session.results import Results

PLATFORM = "linux-x86_64-cpu"
KEYS = ('"A.md"', '"old/b.md".variants."c=2"', '"c.md".variants."Pair"', '"d.md"')


@pytest.fixture
def results(tmp_path):
    (tmp_path / "lecture-budgets").mkdir()
    tables = "".join(f'[lectures.{key}]\npeak_footprint = {{ limit = "1 GiB" }}\n' for key in KEYS)
    (tmp_path / "lecture-budgets" / f"{PLATFORM}.toml").write_text(
        f'schema = 1\nplatform = "{PLATFORM}"\n{tables}', encoding="utf-8"
    )
    (tmp_path / "c.md").touch()
    (tmp_path / "d.md").touch()
    return Results(tmp_path, resolve({"budget": True}, tmp_path, tmp_path), PLATFORM)


@pytest.mark.parametrize(
    ("lecture", "variant", "former"),
    [
        ("a.md", "", "A.md"),
        ("a.md", "c=2", ""),
        ("b.md", "c=2", "old/b.md [c=2]"),
        ("b.md", "", ""),
        ("c.md", "pair", "c.md [Pair]"),
        ("c.md", "Pair", ""),
        ("d.md", "", ""),
        ("D.md", "", ""),
    ],
)
def test_a_former_name_is_one_without_a_lecture(results, lecture, variant, former):
    assert results.former_name(lecture, variant) == former
