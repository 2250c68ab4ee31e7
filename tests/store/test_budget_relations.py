"""Relations of values in budget files: kept as a person wrote them, faults with line and key."""

from dataclasses import replace

import pytest

from pytest_lecturecheck.errors import BudgetFileError
from pytest_lecturecheck.store.budget_file.files import load_budgets, save_budgets

TEXT = """schema = 1
platform = "p"

[lectures."a.md"]
runs = 1
wall = "2 min"
relations = [
  "gpu_live <= 1.10*reported.planned",  # as planned
]
"""
KEPT = TEXT.partition("runs = 1")[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "p.toml"


def test_relations_are_kept_as_written(path):
    path.write_text(TEXT, encoding="utf-8", newline="\n")
    budgets = load_budgets(path)
    (entry,) = budgets.lectures.values()
    (relation,) = entry.relations
    assert (relation.lower.name, relation.upper.factor, relation.upper.reported_name) == ("gpu_live", 1.1, "planned")
    save_budgets(path, replace(budgets, lectures={("a.md", ""): replace(entry, run_count=2)}))
    assert path.read_text(encoding="utf-8").endswith(KEPT)
    save_budgets(path, replace(budgets, lectures={("b.md", ""): replace(entry, lecture="b.md")}))
    assert '"gpu_live <= 1.10*reported.planned"' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ('"gpu_live <= wall"', "found 'gpu_live <= wall'; expected a list of relations"),
        ('["gpu_live <= wall"]', "gpu_live and wall cannot be compared"),
        ("[1]", "found 1; expected text in quotes"),
    ],
)
def test_faults_have_line_and_key(path, value, fault):
    path.write_text(TEXT.partition("relations")[0] + f"relations = {value}\n", encoding="utf-8")
    with pytest.raises(BudgetFileError, match=r'line 7: lectures\."a\.md"\.relations: ') as caught:
        load_budgets(path)
    assert fault in str(caught.value)
