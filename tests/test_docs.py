"""The documentation: links lead somewhere, and reference pages are complete."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

import pytest_lecturecheck
from pytest_lecturecheck.config.option_table import OPTIONS
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.verdict import VerdictKind

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob(".github/*.md"),
        *ROOT.glob("benchmarks/*.md"),
    ]
)


def inline_tokens(page):
    """Yield the token that opens each block of text of a page, and its inline token."""
    parent, column = None, 0
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type == "inline":
            yield parent, token
            continue
        parent = token
        column = {"tr_open": -1, "td_open": column + 1}.get(token.type, column)
        token.meta["column"] = column


def targets(page):
    """Yield the target of each link and image of a page; code is not searched."""
    for _, inline in inline_tokens(page):
        for token in inline.children:
            target = token.attrGet("href") or token.attrGet("src")
            if target is not None:
                yield str(target)


def anchors(page):
    """Return the anchors that GitHub gives the headings of a page."""
    seen = Counter()
    found = set()
    for parent, inline in inline_tokens(page):
        if parent.type != "heading_open":
            continue
        text = "".join(token.content for token in inline.children if token.type in {"text", "code_inline"})
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def first_column(page):
    """Return the first code of each row's first cell, of all tables of a page."""
    rows = (token for parent, token in inline_tokens(page) if parent.type == "td_open" and parent.meta["column"] == 0)
    codes = (next((child.content for child in row.children if child.type == "code_inline"), None) for row in rows)
    return [code for code in codes if code is not None]


def broken_links(page):
    """Yield the relative links of a page that lead nowhere."""
    for target in targets(page):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        linked = (page.parent / unquote(parts.path)) if parts.path else page
        if not linked.exists() or (
            parts.fragment and (linked.suffix != ".md" or parts.fragment not in anchors(linked))
        ):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_and_anchors_resolve(page):
    assert list(broken_links(page)) == []


def test_broken_links_are_found(tmp_path):
    """The checker itself: a wrong path and a wrong anchor are found, code and other hosts are not looked at."""
    page = tmp_path / "a.md"
    page.write_text(
        "# One `x`: two\n\n# Same\n\n# Same\n\n"
        "[1](#one-x-two) [2](#same-1) [3](a.md#same) [4](https://example.org/no.md) `[5](code.md)`\n\n"
        "[6](b.md) [7](a.md#same-2) ![8](no.png)\n",
        encoding="utf-8",
    )

    assert list(broken_links(page)) == ["b.md", "a.md#same-2", "no.png"]


def test_pages_named_in_the_code_exist():
    package = Path(pytest_lecturecheck.__file__).parent
    named = {
        name
        for file in package.rglob("*.py")
        for name in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }

    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_options_page_lists_every_option_once(pytestconfig):
    listed = first_column(ROOT / "docs" / "reference" / "options.md")
    names = [re.match(r"(?:--lecture-)?([a-z-]+)", code)[1] for code in listed]
    flags = {name for code, name in zip(listed, names, strict=True) if code.startswith("--lecture-")}
    prefix = "lecture_"
    parsed = {
        name.removeprefix(prefix).replace("_", "-") for name in vars(pytestconfig.option) if name.startswith(prefix)
    }

    assert sorted(names) == sorted(option.name for option in OPTIONS)
    assert flags == parsed


def test_verdicts_page_lists_every_verdict_once():
    assert sorted(first_column(ROOT / "docs" / "reference" / "verdicts.md")) == sorted(VerdictKind)


def test_findings_page_lists_every_kind_once():
    """Nothing in the package makes the two kinds that are left out."""
    listed = first_column(ROOT / "docs" / "reference" / "findings.md")

    assert sorted({*listed, "no header", "warning"}) == sorted({*FindingKind, "no header", "warning"})
    assert len(listed) == len(set(listed))


def test_metrics_page_names_every_metric():
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")

    assert sorted(re.findall(r"`(\w+_(?:bytes|seconds|count))`", text)) == sorted(Metric)


def test_index_lists_every_page_once():
    index = ROOT / "docs" / "index.md"
    linked = [(index.parent / urlsplit(target).path).resolve() for target in targets(index)]
    pages = [page for page in PAGES if page.is_relative_to(index.parent) and page != index]
    assert sorted(path for path in linked if path.suffix == ".md") == sorted(page.resolve() for page in pages)


def test_readme_has_at_most_120_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
