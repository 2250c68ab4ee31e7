"""Where the records of a lecture's cells are written."""

from types import SimpleNamespace

from pytest_lecturecheck.session.trace_plan import own_lecture_folder, plan_memory, plan_tracing

CELLS = frozenset({2})


def test_each_variant_and_run_has_a_folder_of_its_own(tmp_path):
    lecture = SimpleNamespace(name="lectures/a.md")
    found = {
        plan(tmp_path, lecture, repeat, CELLS, variant).folder
        for plan in (plan_memory, plan_tracing)
        for repeat in (1, 2)
        for variant in ("", "size=1", "size=10")
    }
    assert len(found) == 12


def test_a_folder_is_named_after_lecture_and_variant(tmp_path):
    folder = own_lecture_folder(tmp_path, "memory", "lectures/a.md", "size=1,<b>")
    assert folder.parent == tmp_path / ".lecturecheck" / "memory"
    assert folder.name.startswith("lectures_a.md-size_1_b-")
