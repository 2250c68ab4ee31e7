"""The page in a real browser: what is drawn, what a keyboard does, what a hostile lecture cannot do."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from support.headless import Browser, find_browser
from support.hostile import MARKUP, hostile_entry
from support.made_entries import session
from support.made_html import at_once, page_of, pictured, with_timeline

AXE = Path(__file__).parent / "axe" / "axe.min.js"
OPEN_ALL = "document.querySelectorAll('details').forEach(item => item.open = true)"
SETTLE = "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 50))"


def set_field(name, event):
    """Give a function of JavaScript that fills in a field of the page as a reader would."""
    field = f"document.getElementById('{name}')"
    return f"(value => {{ {field}.value = value; {field}.dispatchEvent(new Event('{event}')); }})"


pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def running():
    program = find_browser()
    if program is None:
        # Whoever has made sure of a browser says so: there its absence is a fault of the machine.
        if os.environ.get("LECTURECHECK_NEEDS_BROWSER"):
            pytest.fail("no Chromium was found; install the package chromium")
        pytest.skip("no Chromium on this machine")
    browser = Browser(program)
    yield browser
    browser.close()


@pytest.fixture
def visit(running, tmp_path):
    """Opens a page of entries, every lecture shown where that is wanted."""

    def open_page(entries, *, width=1280, dark=False, opened=True):
        path = tmp_path / "report.html"
        path.write_text(page_of(entries), encoding="utf-8", newline="\n")
        running.show(width=width, dark=dark)
        running.open(path.as_uri())
        for _ in range(2 if opened else 0):
            running.evaluate(OPEN_ALL)
            running.evaluate(SETTLE)
        return running

    return open_page


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_page_passes_accessibility_checks(visit, width, dark):
    browser = visit([*pictured(), at_once(7, ends=(2,)), *session()[5:8]], width=width, dark=dark)
    browser.evaluate(AXE.read_text(encoding="utf-8") + "; 1")
    found = browser.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(result => result.violations.map("
        "item => [item.id, item.nodes.map(node => node.failureSummary + node.html)]))"
    )
    assert found == []
    assert browser.messages == []


@pytest.mark.parametrize("width", [1280, 390])
def test_page_never_scrolls_sideways(visit, width):
    browser = visit([*pictured(), hostile_entry("x" * 300)], width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_page_is_laid_out(visit, tmp_path, dark):
    browser = visit(pictured(), dark=dark, opened=False)
    picture = tmp_path / "picture.png"
    browser.picture(picture)
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1280, 900)
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 24, 28)" if dark else "rgb(251, 250, 247)")


def test_charts_are_drawn_when_a_lecture_is_opened(visit):
    browser = visit(pictured(), opened=False)
    assert browser.evaluate("document.querySelectorAll('canvas, .cells table').length") == 0
    browser.evaluate("document.querySelector('details.lecture').open = true")
    browser.evaluate(SETTLE)
    assert browser.evaluate("document.querySelectorAll('canvas').length") == 1
    browser.evaluate(OPEN_ALL)
    browser.evaluate(SETTLE)
    assert browser.evaluate("document.querySelectorAll('canvas').length") == 6
    painted = browser.evaluate(
        "Array.from(document.querySelectorAll('canvas')).map(canvas => canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data.some(value => value > 0))"
    )
    assert painted == [True] * 6


def test_page_loads_nothing_and_logs_nothing(visit):
    browser = visit([*pictured(), *session()])
    assert [address.rpartition("/")[2] for address in browser.requests] == ["report.html"]
    assert browser.messages == []


def test_hostile_lectures_run_no_code(visit):
    hostile = hostile_entry(f"{MARKUP}<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>")
    browser = visit([hostile, with_timeline(hostile, 20)])
    assert browser.evaluate("window.owned === undefined && document.images.length === 0")
    assert browser.evaluate("document.scripts.length") == 4
    assert [address.rpartition("/")[2] for address in browser.requests] == ["report.html"]
    # And what could be smuggled in all the same would be stopped by the policy.
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = 2'}))"
    )
    browser.evaluate(
        "document.body.insertAdjacentHTML('beforeend', "
        '\'<img src="http://127.0.0.1:9/x" onerror="window.owned = 3">\')'
    )
    for _ in range(200):
        browser.evaluate(SETTLE)
        if any("Content Security Policy" in message for message in browser.messages):
            break
    assert browser.evaluate("window.owned === undefined")
    assert any("Content Security Policy" in message for message in browser.messages)


def test_timelines_zoom_by_keyboard_and_mouse(visit):
    browser = visit(pictured()[3:4])
    browser.evaluate("document.querySelector('.plot').focus()")
    assert browser.evaluate("document.querySelector('.readout').textContent") == ""
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    assert browser.evaluate("document.querySelector('.readout').textContent").startswith("0.0")
    whole = "document.querySelector('.zoom button:last-child').disabled"
    assert browser.evaluate(whole) is True
    browser.key("+")
    assert browser.evaluate(whole) is False
    browser.key("0")
    assert browser.evaluate(whole) is True
    x, y, width, height = browser.evaluate(
        "(box => [box.x, box.y, box.width, box.height])((document.querySelector('.u-over').scrollIntoView(), "
        "document.querySelector('.u-over').getBoundingClientRect()))"
    )
    browser.drag((x + width * 0.3, y + height / 2), (x + width * 0.6, y + height / 2))
    browser.evaluate(SETTLE)
    assert browser.evaluate(whole) is False
    assert "code cell 2, line 30: footprint" in browser.evaluate("document.querySelector('.readout').textContent")


def test_concurrent_kernels_share_a_chart(visit):
    browser = visit([at_once(3, ends=(2,))])
    assert browser.evaluate("document.querySelectorAll('canvas').length") == 1
    browser.evaluate("document.querySelector('.plot').focus()")
    for _ in range(20):
        browser.key("ArrowRight")
    read = browser.evaluate("document.querySelector('.readout').textContent")
    assert ", code cell 2, line 30: total " in read
    assert [part.rpartition(" ")[0].rpartition(" ")[0] for part in read.partition(": ")[2].split(", ")] == [
        "total",
        "kernel 1",
        "kernel 2 (died)",
        "kernel 3",
    ]
    colours = browser.evaluate(
        "Array.from(document.querySelectorAll('.key line')).map(item => item.getAttribute('stroke'))"
    )
    assert len(set(colours)) == 4
    assert "" not in colours


def test_charts_have_tables_and_switchable_lines(visit):
    browser = visit(pictured()[3:4])
    rows = browser.evaluate(
        "Array.from(document.querySelectorAll('.as-table tr'))"
        ".map(row => Array.from(row.cells).map(item => item.textContent))"
    )
    assert rows[0] == ["time", "code cell", "footprint", "RSS of the kernel", "swapped out"]
    assert rows[1] == ["0 s", "1", "50 MiB", "50 MiB", "0 B"]
    assert len(rows) == 61
    keys = "Array.from(document.querySelectorAll('.key')).map(item => item.textContent.trim())"
    assert browser.evaluate(keys) == [
        "footprint",
        "RSS of the kernel",
        "swapped out",
        "peak of the cell",
        "limit1.39 GiB",
        "cap2 GiB",
    ]
    browser.evaluate("document.querySelector('.key').click()")
    assert browser.evaluate("document.querySelector('.key').getAttribute('aria-pressed')") == "false"


def test_lectures_can_be_filtered_found_and_sorted(visit):
    browser = visit(session(), opened=False)
    shown = (
        "Array.from(document.querySelectorAll('details.lecture')).filter(item => !item.hidden)"
        ".map(item => item.querySelector('.name').textContent)"
    )
    assert len(browser.evaluate(shown)) == 18
    browser.evaluate("document.querySelector('.chip[data-kind=\"died bad\"]').click()")
    assert browser.evaluate(shown) == ["lectures/gpu/abort.ipynb [gpu-f32]"]
    assert browser.evaluate("document.getElementById('shown').textContent") == "1 of 18 shown"
    browser.evaluate("document.querySelector('.chip').click()")
    browser.evaluate(f"{set_field('find', 'input')}('TIME_')")
    assert len(browser.evaluate(shown)) == 6
    browser.evaluate(f"{set_field('find', 'input')}('')")
    browser.evaluate(f"{set_field('order', 'change')}('2')")
    assert browser.evaluate(shown)[0] == "lectures/programming/kesten_processes_in_depth.md"
    browser.evaluate(f"{set_field('order', 'change')}('name')")
    assert browser.evaluate(shown) == sorted(browser.evaluate(shown))


def test_links_open_lectures_and_themes_switch(visit):
    browser = visit(session(), opened=False)
    browser.evaluate("document.querySelector('.ranking a').click()")
    browser.evaluate(SETTLE)
    assert browser.evaluate("document.querySelector('details[open]').id") == "lecture-2"
    theme = "[document.getElementById('theme').textContent, document.documentElement.dataset.theme || '']"
    assert browser.evaluate(theme) == ["Theme: automatic", ""]
    browser.evaluate("document.getElementById('theme').click(); document.getElementById('theme').click()")
    assert browser.evaluate(theme) == ["Theme: dark", "dark"]
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    browser.evaluate("document.getElementById('theme').click()")
