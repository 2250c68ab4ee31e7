"""A session that collected no lecture does not pass, and says what it looked for."""

import pytest

TEST = "def test_one():\n    assert True\n"


@pytest.fixture
def prose(pytester):
    pytester.makepyfile(test_unit=TEST)
    (pytester.path / "intro.md").write_text("# Prose\n")
    (pytester.path / "out.md").write_text("# Prose\n")
    return pytester


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_no_lecture_beside_tests_fails(prose, workers):
    start = prose.runpytest_subprocess if workers else prose.runpytest_inprocess
    result = start("--lecture-budget", "--lecture-exclude", "out.md", *workers)
    assert result.ret == 1
    text = result.stdout.str()
    assert (
        "no lecture was collected, so nothing was checked. Looked in '.' for notebooks (.ipynb), MyST pages with a "
        "header and code-cells (.md) and jupytext scripts (.py); found for example 'intro.md': it has no notebook "
        "header (kernelspec, jupytext, or file_format: mystnb) and no {code-cell}; 'out.md': --lecture-exclude leaves "
        "it out"
    ) in text


def test_nothing_at_all_keeps_the_status_of_pytest(pytester):
    result = pytester.runpytest_inprocess("--lecture-budget")
    assert result.ret == 5
    assert "no file there ends in" in result.stdout.str()


@pytest.mark.parametrize("chosen", [("test_unit.py",), ("-k", "test_one"), ("--collect-only",)])
def test_a_narrow_choice_passes(prose, chosen):
    result = prose.runpytest_inprocess("--lecture-budget", *chosen)
    assert result.ret == 0
    assert "no lecture was collected" not in result.stdout.str()


def test_documents_that_are_run_on_request_say_so(pytester):
    (pytester.path / "page.qmd").write_text("---\njupyter: python3\n---\n")
    text = pytester.runpytest_inprocess("--lecture-budget").stdout.str()
    assert "'page.qmd': files that end in .qmd are read only if named, or with --lecture-suffix .qmd" in text


@pytest.mark.parametrize(("tests", "workers"), [(False, ()), (True, ("-n", "1"))])
def test_a_part_without_lectures_passes(pytester, tests, workers):
    if tests:
        pytester.makepyfile(test_unit=TEST)
    (pytester.path / "a.md").write_text("---\nkernelspec: {name: python3}\n---\n\n```{code-cell}\n1\n```\n")
    start = pytester.runpytest_subprocess if workers else pytester.runpytest_inprocess
    result = start("--lecture-budget", "--lecture-shard", "2/2", *workers)
    assert result.ret == 0
    assert "part 2 of 2 has nothing to run: the only lecture is in other parts" in result.stdout.str()


def test_a_part_of_nothing_does_not_pass(pytester):
    assert pytester.runpytest_inprocess("--lecture-budget", "--lecture-shard", "2/2").ret == 5
