"""Arguments and node ids select exactly their lecture, whatever is in the name."""

import os

import pytest

ODD = [
    "plain.ipynb",
    "with space.ipynb",
    "a[b]-c::d.ipynb",
    "a[b]-c::d::lecture.ipynb",
    "étude.ipynb",
    "sub [dir]/x::y/lecture.ipynb",
    "sub [dir]/other.ipynb",
    "-dash.ipynb",
    "100%.ipynb",
]


def collected(pytester, *args):
    result = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "-q", "-p", "no:cacheprovider", *args)
    return [line for line in result.outlines if "::" in line]


@pytest.fixture
def odd(lecture):
    for name in ODD:
        lecture(name)
    return [f"{name}::lecture" for name in ODD]


def test_a_folder_is_collected_in_order(pytester, odd):
    assert collected(pytester) == sorted(odd)


@pytest.mark.parametrize("number", range(len(ODD)))
def test_a_node_id_and_a_file_select_their_own_lecture(pytester, odd, number):
    node_id = odd[number]
    given = f"./{node_id}" if node_id.startswith("-") else node_id
    assert collected(pytester, given) == [node_id]
    assert collected(pytester, given.removesuffix("::lecture")) == [node_id]


def test_an_absolute_path_selects_its_lecture(pytester, odd):
    assert collected(pytester, str(pytester.path / ODD[2])) == [odd[2]]


def test_odd_names_together_with_others(pytester, odd):
    pytester.makepyfile(test_unit="def test_a(): pass\ndef test_b(): pass")
    chosen = collected(pytester, "test_unit.py::test_b", odd[2], odd[0])
    assert sorted(chosen) == sorted(["test_unit.py::test_b", odd[2], odd[0]])
    assert "test_unit.py::test_a" not in collected(pytester, odd[5])


def test_node_ids_of_tests_beside_odd_names(pytester, odd):
    pytester.makepyfile(
        test_unit="""
        import pytest

        class TestIt:
            @pytest.mark.parametrize("x", [1, 2])
            def test_a(self, x): pass
            def test_ab(self): pass

        def test_a(): pass
        """
    )
    both = [f"test_unit.py::TestIt::test_a[{x}]" for x in (1, 2)]
    assert collected(pytester, odd[2], "test_unit.py::TestIt::test_a") == [odd[2], *both]
    assert collected(pytester, odd[2], both[1]) == [odd[2], both[1]]
    assert collected(pytester, odd[2], "test_unit.py::test_a") == [odd[2], "test_unit.py::test_a"]
    assert len(collected(pytester, odd[2], "test_unit.py")) == 5


def test_a_name_that_no_item_has_selects_nothing(pytester, odd):
    result = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "-q", "a[b]-c::d.ipynb::no-such-item")
    assert not [line for line in result.outlines if line.endswith("::lecture")]
    assert result.ret in {pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR}
    assert odd


def test_a_file_that_is_not_there_is_a_usage_error(pytester, odd):
    result = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "no such [one]::x.ipynb")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert odd


def test_deselect_and_keywords(pytester, odd):
    assert odd[0] not in collected(pytester, "--deselect", odd[0])
    assert collected(pytester, "-k", "space") == ["with space.ipynb::lecture"]


def test_workers_run_what_was_selected(pytester, odd):
    chosen = [odd[2], odd[4]]
    result = pytester.runpytest_subprocess("--lecture-budget", "-n", "2", "-v", *chosen)
    result.assert_outcomes(passed=2)
    passed = {line.split("PASSED ")[1].strip() for line in result.outlines if "PASSED " in line}
    assert passed == set(chosen)


def test_excluded_lectures(pytester, odd):
    remaining = collected(pytester, "--lecture-exclude", "sub*", "--lecture-exclude", "*.ipynb")
    assert (remaining, len(odd)) == ([], len(ODD))
    assert len(collected(pytester, "--lecture-exclude", "sub*")) == len(ODD) - 2


def test_a_page_outside_of_rootdir(pytester, lecture):
    path = lecture("elsewhere/page.ipynb")
    root = pytester.mkdir("root")
    result = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "-q", f"--rootdir={root}", str(path))
    # pytest itself names what lies outside of rootdir by nothing.
    assert "::lecture" in result.outlines
    assert "1 test collected" in result.outlines[-1]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_link_back_to_a_folder_above_is_not_followed(pytester, lecture):
    lecture("a/one.ipynb")
    lecture("other/two.ipynb")
    (pytester.path / "a" / "self").symlink_to(".")
    (pytester.path / "a" / "up").symlink_to("..")
    (pytester.path / "a" / "aside").symlink_to("../other")
    assert collected(pytester) == ["a/aside/two.ipynb::lecture", "a/one.ipynb::lecture", "other/two.ipynb::lecture"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
@pytest.mark.parametrize("options", [(), ("-n1",)])
def test_links_that_lead_nowhere_are_reported_once(pytester, lecture, options):
    lecture("a/one.ipynb")
    for name, target in [
        ("gone.ipynb", "../x/gone.ipynb"),
        ("part", "../away"),
        (".#lock.md", "me@here"),
        ("b.txt", "c"),
    ]:
        (pytester.path / "a" / name).symlink_to(target)
    arguments = ("--lecture-budget", "--collect-only", "-q", "-p", "no:cacheprovider")
    result = pytester.runpytest_inprocess(*arguments, *options)
    line = "2 links lead nowhere, so no lecture is collected there: "
    assert f"{line}'a/gone.ipynb' (to '../x/gone.ipynb'), 'a/part' (to '../away')" in result.stdout.str()
    result = pytester.runpytest_inprocess(*arguments, "--lecture-exclude", "gone.ipynb")
    assert "a link leads nowhere, so no lecture is collected there: 'a/part' (to '../away')" in result.stdout.str()


@pytest.mark.parametrize(("book", "items"), [("myst.yml", []), ("_config.yml", ["part.md::lecture"])])
def test_parts_of_other_pages_are_no_lectures_in_mystmd(pytester, book, items):
    """mystmd executes such a file with the page that includes it; no other book executes it at all."""
    pytester.path.joinpath(book).write_text("title: x\n", encoding="utf-8")
    pytester.path.joinpath("part.md").write_text("```{code-cell}\n1\n```\n", encoding="utf-8")
    pytester.path.joinpath("whole.md").write_text(f"{PAGE}```{{include}} part.md\n```\n", encoding="utf-8")
    assert collected(pytester) == [*items, "whole.md::lecture"]


def test_pages_that_a_book_reads_with_jupytext(pytester, lecture):
    lecture("book/a.ipynb")
    text = "sphinx:\n  config:\n    nb_custom_formats:\n      .md: [jupytext.reads, {fmt: md}]\n"
    (pytester.path / "book" / "_config.yml").write_text(text, encoding="utf-8")
    for name, body in [("b.md", "```python\n1\n```\n"), ("c.md", "words\n"), ("../d.md", "```python\n1\n```\n")]:
        (pytester.path / "book" / name).write_text(body, encoding="utf-8")
    assert collected(pytester) == ["book/a.ipynb::lecture", "book/b.md::lecture"]
    assert collected(pytester, "book/c.md") == []


def pair(pytester, formats="ipynb,md:myst,py:percent"):
    """Write a page and a script as jupytext writes them."""
    kernel = "kernelspec:\n  display_name: P\n  name: python3\n"
    head = f"jupytext:\n  formats: {formats}\n  text_representation:\n    format_name: "
    cell = "\n```{code-cell}\n1\n```\n"
    (pytester.path / "both.md").write_text(f"---\n{head}myst\n{kernel}---\n{cell}", encoding="utf-8")
    script = "".join(f"# {line}\n" for line in f"---\n{head}percent\n{kernel}---".split("\n"))
    (pytester.path / "both.py").write_text(f"{script}\n# %%\n1\n", encoding="utf-8")


def test_of_paired_forms_the_text_is_run(pytester, lecture):
    lecture("both.ipynb")
    lecture("alone.ipynb")
    pair(pytester)
    assert collected(pytester) == ["alone.ipynb::lecture", "both.md::lecture"]
    assert collected(pytester, "both.ipynb", "both.py") == ["both.ipynb::lecture", "both.py::lecture"]
    told = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "-q", "-p", "no:cacheprovider")
    told.stdout.fnmatch_lines(["'both.ipynb' is left out: jupytext keeps it as another form of 'both.md'"])


def test_a_form_whose_source_is_excluded_is_run(pytester, lecture):
    lecture("both.ipynb")
    pair(pytester)
    assert collected(pytester, "--lecture-exclude", "both.md") == ["both.py::lecture"]
    assert collected(pytester, "--lecture-exclude", "both.md", "--lecture-exclude", "both.py") == [
        "both.ipynb::lecture"
    ]


@pytest.mark.parametrize("formats", ["md:myst", "notebooks//ipynb,md:myst", "[ipynb"])
def test_unpaired_files_of_one_name_are_separate_lectures(pytester, lecture, formats):
    lecture("both.ipynb")
    pair(pytester, formats=f"'{formats}'")
    (pytester.path / "both.py").unlink()
    assert collected(pytester) == ["both.ipynb::lecture", "both.md::lecture"]


PAGE = "---\nkernelspec:\n  display_name: P\n  name: python3\n---\n\n```{code-cell}\n1\n```\n"


def test_forms_paired_by_configuration(pytester, lecture):
    lecture("book/notebooks/both.ipynb")
    lecture("book/notebooks/alone.ipynb")
    (pytester.path / "book" / "md").mkdir()
    pytester.path.joinpath("book", "md", "both.md").write_text(PAGE, encoding="utf-8")
    pytester.makefile(".toml", **{"book/jupytext": "formats = 'notebooks///ipynb,md///md:myst'"})
    assert collected(pytester) == ["book/md/both.md::lecture", "book/notebooks/alone.ipynb::lecture"]
    both = ["book/notebooks/alone.ipynb::lecture", "book/notebooks/both.ipynb::lecture"]
    assert collected(pytester, "book/notebooks") == both
    told = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "-q", "-p", "no:cacheprovider")
    told.stdout.fnmatch_lines(
        ["'book/notebooks/both.ipynb' is left out: jupytext keeps it as another form of 'book/md/both.md'"]
    )


def test_forms_paired_across_folders(pytester, lecture):
    lecture("notebooks/both.ipynb", jupytext={"formats": "notebooks//ipynb,md//md:myst"})
    lecture("notebooks/odd.ipynb", jupytext={"formats": "elsewhere//ipynb,/"})
    pytester.mkdir("md").joinpath("both.md").write_text(PAGE, encoding="utf-8")
    assert collected(pytester) == ["md/both.md::lecture", "notebooks/odd.ipynb::lecture"]


@pytest.mark.parametrize("text", ["formats = [", "formats = 3", "formats = 'ipynb,nonsense:x:y'", ""])
def test_an_empty_jupytext_configuration_pairs_nothing(pytester, lecture, text):
    lecture("both.ipynb")
    pytester.path.joinpath("both.md").write_text(PAGE, encoding="utf-8")
    pytester.makefile(".toml", jupytext=text)
    assert collected(pytester) == ["both.ipynb::lecture", "both.md::lecture"]


def test_an_invalid_book_configuration_has_no_traceback(pytester, lecture):
    lecture("a.ipynb")
    (pytester.path / "_config.yml").write_text("execute:\n  timeout: soon\n", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*_config.yml:2: execute.timeout is 'soon'; expected a number of seconds*"])
    result.stdout.no_fnmatch_line("*book.py*")
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_missing_pages_of_a_table_of_contents(pytester, lecture):
    lecture("a.ipynb")
    lecture("v1.2.ipynb")
    (pytester.path / "_config.yml").write_text("only_build_toc_files: true\n", encoding="utf-8")
    toc = "format: jb-book\nroot: a\nchapters:\n- file: v1.2\n- file: gone\n- file: part/away.md\n"
    (pytester.path / "_toc.yml").write_text(toc, encoding="utf-8")
    assert collected(pytester) == ["a.ipynb::lecture", "v1.2.ipynb::lecture"]
    result = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "-q", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["_toc.yml lists 'gone' and 1 more, and there is no such file"])


def test_shards_select_each_lecture_once(pytester, lecture):
    for name in ("a.ipynb", "b.ipynb", "c.ipynb", "d.ipynb", "e.ipynb"):
        lecture(name)
    parts = [collected(pytester, "--lecture-shard", f"{part}/3") for part in (1, 2, 3)]
    assert sorted(item for part in parts for item in part) == collected(pytester)
    assert sorted(map(len, parts)) == [1, 2, 2]


def test_a_shard_that_does_not_exist_is_a_usage_error(pytester):
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-shard", "6/5")
    result.stderr.fnmatch_lines(
        ["ERROR: lecturecheck: --lecture-shard: shard '6/5' is not K/N with 1 <= K <= N; expected for example '2/5'"]
    )
