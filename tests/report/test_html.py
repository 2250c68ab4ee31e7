from __future__ import annotations

import base64
import hashlib
import json
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.hostile import HOSTILE, MARKUP, UNSAFE, hostile_entry
from support.made_entries import GIB, MACHINE, MIB, died, failed, over, quiet_ones, session, within
from support.made_html import on_gpu, page_of, pictured, structure_of, timeline, with_timeline
from support.made_records import changed

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.metric import Metric, Unavailable
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.timeline import thin
from pytest_lecturecheck.report.html import render_html
from pytest_lecturecheck.report.html.charts import lecture_data, points_for
from pytest_lecturecheck.report.html.detail import detail_of
from pytest_lecturecheck.report.html.page import data_block

GOLDEN = Path(__file__).parent / "golden" / "page.html"


class Page(HTMLParser):
    """The page as a browser reads it: elements with their attributes, and the content of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.blocks, self.text = [], [], []
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in {"script", "style"}:
            self._inside = (tag, dict(attributes).get("type"))
            self.blocks.append([*self._inside, ""])

    def handle_endtag(self, tag):
        if tag in {"script", "style"}:
            self._inside = None

    def handle_data(self, data):
        if self._inside is None:
            self.text.append(data)
        else:
            self.blocks[-1][2] += data

    def content(self, tag, kind=None):
        return [text for name, found, text in self.blocks if (name, found) == (tag, kind)]

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_page_is_as_expected():
    assert structure_of(pictured()) == GOLDEN.read_text(encoding="utf-8")


def test_policy_allows_only_the_blocks_of_the_page():
    page = Page(page_of(session()))
    (policy,) = (meta["content"] for meta in page.named("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    directives = dict(part.split(" ", 1) for part in policy.split("; "))
    hashes = {
        tag: [
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in page.content(tag)
        ]
        for tag in ("script", "style")
    }
    assert [len(found) for found in hashes.values()] == [2, 1]
    assert directives == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "connect-src": "'none'",
        "form-action": "'none'",
        "frame-src": "'none'",
        "img-src": "'none'",
        "object-src": "'none'",
        "script-src": " ".join(hashes["script"]),
        "style-src": hashes["style"][0],
    }


def test_page_refers_to_nothing_external():
    page = Page(page_of([*session(), on_gpu()]))
    for _, attributes in page.elements:
        assert not {"src", "srcset", "action", "data", "poster", "style"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    assert "url(" not in "".join(page.content("style"))
    assert "@import" not in "".join(page.content("style"))


def test_scripts_turn_no_text_into_markup_or_code():
    own = Page(page_of([])).content("script")[1]
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
        "src",
    ):
        assert word not in own
    vendored = Page(page_of([])).content("script")[0]
    for word in ("innerHTML =", "innerHTML=", "eval(", "new Function", "fetch(", "XMLHttpRequest", "import("):
        assert word not in vendored
    assert "Copyright (c) 2022 Leon Sorokin" in vendored


@pytest.mark.parametrize("hostile", [MARKUP, HOSTILE, "]]>\x00\ud800</script>", "`${alert(1)}`</style>"])
def test_hostile_text_stays_text(hostile):
    friendly, page = Page(page_of([hostile_entry("x")])), Page(page_of([hostile_entry(hostile)]))
    assert [tag for tag, _ in page.elements if tag not in {"section", "h4", "span", "li"}] == [
        tag for tag, _ in friendly.elements if tag not in {"section", "h4", "span", "li"}
    ]
    assert page.content("script") == friendly.content("script")
    assert not UNSAFE.search("".join(page.text).replace("\n", ""))
    (data,) = page.content("script", "application/json")
    assert not set("<>&\u2028\u2029") & set(data)
    json.loads(data)
    assert "{{ 7 * 7 }}" in "".join(page.text) or "7 * 7" not in hostile


@settings(max_examples=examples(60))
@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_no_text_escapes_its_data_block(text):
    block = data_block({"name": text})
    assert block.isascii()
    assert not set("<>&") & set(block)
    assert json.loads(block) == {"name": text}


def test_data_rejects_nan_and_infinity():
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        data_block([float("nan")])


def test_failures_come_first_with_anchors_for_all():
    entries = [within(), failed(), *quiet_ones(), over()]
    page = Page(page_of(entries))
    lectures = [found for found in page.named("details") if found.get("class") == "lecture"]
    assert [found["id"] for found in lectures][:3] == ["lecture-2", f"lecture-{len(entries)}", "lecture-1"]
    assert sorted(found["id"] for found in lectures) == sorted(f"lecture-{at + 1}" for at in range(len(entries)))
    links = {found["href"] for found in page.named("a")} - {"#lectures"}
    assert links
    assert links <= {f"#{found['id']}" for found in lectures}
    chips = [found["data-kind"] for found in page.named("button") if found.get("class", "").startswith("chip")]
    assert set(chips[1:]) == {found["data-kind"] for found in lectures}


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([], "No lecture was run"),
        ([within()], "The lecture did not fail"),
        ([within(), *quiet_ones()], "Nothing failed"),
        ([within(), died()], "1 of 2 lectures failed"),
        ([died()], "1 of 1 lecture failed"),
    ],
)
def test_outcome_is_one_sentence(entries, sentence):
    text = page_of(entries)
    assert f"<title>Lecture check: {sentence}</title>" in text
    assert f">{sentence}</p>" in text


def test_start_time_is_shown():
    entries = [
        replace(within(), run=changed(within().run, started=f"2026-11-29T1{hour}:30:05+00:00")) for hour in (9, 8)
    ]
    assert '<time datetime="2026-11-29T18:30:05+00:00">2026-11-29 18:30 UTC</time>' in page_of(entries)


def test_page_without_machine_still_renders():
    assert '<p class="machine"></p>' in render_html([replace(within(), run=replace(within().run, machine=None))])


@pytest.mark.parametrize(
    ("peak", "limit", "shape"),
    [
        (50, 100, [("fill within", 375), ("mark", 750)]),
        (100, 100, [("fill within", 750), ("mark", 750)]),
        (120, 100, [("fill over", 900), ("fill within", 750), ("mark", 750)]),
        (500, 100, [("fill over", 1000), ("fill within", 200), ("mark", 200)]),
    ],
)
def test_bars_show_peak_and_limit(peak, limit, shape):
    entry = over()
    (item, *_) = entry.verdict.comparisons
    measured = replace(item.measured, value=peak * MIB)
    verdict = replace(entry.verdict, comparisons=(replace(item, limit=limit * MIB, measured=measured),))
    run = replace(entry.run, readings={item.metric: measured})
    page = Page(page_of([replace(entry, run=run, verdict=verdict)]))
    found = [item for item in page.named("rect") if item["class"] != "track"]
    assert [(item["class"], int(item["x"] if item["class"] == "mark" else item["width"])) for item in found] == shape


def readings_shown(system, *metrics):
    readings = {metric: Unavailable(metric=metric, reason="not counted") for metric in metrics}
    run = replace(within().run, machine=replace(MACHINE, system=system), readings=readings)
    return [name for name, *_ in detail_of(replace(within(), run=run)).measurements]


def test_values_that_a_system_never_counts_are_left_out():
    metrics = (Metric.PEAK_COMPRESSED, Metric.PEAK_SWAP, Metric.CPU)
    assert readings_shown("Linux 6.18", *metrics) == ["peak swap", "CPU time"]
    assert readings_shown("macOS 15.1", *metrics) == ["peak compressed memory", "CPU time"]
    assert readings_shown("Windows 11", *metrics) == ["CPU time"]
    assert readings_shown("FreeBSD 14.1", *metrics) == ["peak compressed memory", "peak swap", "CPU time"]


@pytest.mark.parametrize(
    ("packages", "blas", "text"),
    [
        ({"numpy": "2.1.0"}, ("openblas 0.3.27, 4 threads",), "openblas 0.3.27, 4 threads"),
        ({"numpy": "2.1.0"}, (), "unknown (install threadpoolctl in the kernel's environment)"),
        ({"polars": "1.0"}, (), None),
    ],
)
def test_blas_is_among_the_facts(packages, blas, text):
    software = Software(python="3.12.1", packages=packages, blas=blas)
    facts = dict(detail_of(replace(within(), run=replace(within().run, software=software))).facts)
    assert facts.get("BLAS and threads") == text


# -- data of the charts -----------------------------------------------------------------------------------------------


def undelta(deltas, unit):
    value, values = 0, []
    for delta in deltas:
        value += delta or 0
        values.append(None if delta is None else value * unit)
    return values


def test_packed_timelines_unpack_unchanged():
    entry = with_timeline(within(), 300)
    (chart,) = lecture_data(entry)["charts"]
    times = [round(sample.seconds * 1000) for sample in entry.run.timeline]
    assert undelta(chart["time"], 1) == times
    assert [item["name"] for item in chart["series"]] == ["footprint", "RSS of the kernel", "swapped out"]
    for series, values in zip(
        chart["series"],
        zip(*((item.footprint_bytes, item.rss_bytes, item.swap_bytes) for item in entry.run.timeline), strict=True),
        strict=True,
    ):
        assert undelta(series["values"], series["unit"]) == pytest.approx(list(values), abs=series["unit"])
        assert series["unit"] <= max(values) / 4096
    assert chart["lines"] == [
        {"name": "limit", "key": "limit", "bytes": 1420 * MIB},
        {"name": "cap", "key": "cap", "bytes": 2 * GIB},
    ]
    assert chart["levels"] == [
        {"name": "peak of the cell", "key": "peak", "values": [95 * MIB, 1188 * MIB, 1240 * MIB]}
    ]
    assert chart["summary"] == ("Memory of lectures/jax_intro.md over 7.47 s; peak footprint 1.21 GiB in code cell 3")


def test_single_kernels_have_one_memory_line():
    entry = with_timeline(within(), 10)
    alone = tuple(replace(item, rss_bytes=item.footprint_bytes - MIB // 2, swap_bytes=0) for item in entry.run.timeline)
    (chart,) = lecture_data(replace(entry, run=replace(entry.run, timeline=alone)))["charts"]
    assert [item["key"] for item in chart["series"]] == ["footprint"]


def test_missing_samples_leave_gaps():
    entry = with_timeline(within(), 4)
    missing = tuple(
        replace(item, footprint_bytes=None, rss_bytes=None if number == 1 else item.rss_bytes)
        for number, item in enumerate(entry.run.timeline)
    )
    (chart,) = lecture_data(replace(entry, run=replace(entry.run, timeline=missing)))["charts"]
    (rss, _) = chart["series"]
    assert (rss["key"], [value is None for value in rss["values"]]) == ("rss", [False, True, False, False])
    shown = undelta(rss["values"], rss["unit"])
    assert shown[2] == pytest.approx(missing[2].rss_bytes, abs=rss["unit"])


def test_each_gpu_has_a_chart():
    memory, device = lecture_data(on_gpu())["charts"]
    assert memory["title"] == "Memory over time"
    assert device["title"] == "GPU 0 (Tesla T4) over time"
    assert [item["key"] for item in device["series"]] == ["device", "run"]
    assert device["levels"] == [
        {"name": "pool of the allocator", "key": "pool", "values": [3 * GIB] * 3},
        {"name": "live in the allocator", "key": "live", "values": [0, GIB, 2 * GIB]},
    ]
    assert device["lines"] == [{"name": "device memory", "key": "cap", "bytes": 15 * GIB}]


def test_allocators_are_assigned_to_their_gpus():
    entry = on_gpu()
    (first,) = entry.run.devices
    second = replace(first, device=replace(first.device, index=1))
    charts = lecture_data(replace(entry, run=replace(entry.run, devices=(first, second))))["charts"]
    assert [[level["key"] for level in chart["levels"]] for chart in charts[1:]] == [["pool", "live"], []]


def test_cells_have_bars():
    cells = lecture_data(on_gpu())["cells"]
    assert (cells["has_compile"], cells["has_gpu"]) == (True, False)
    assert [row["memory_bar"] for row in cells["rows"]] == [[44, 32], [77, 881], [958, 42]]
    assert [row["time_bar"] for row in cells["rows"]] == [[83, 57], [83, 450], [83, 917]]
    rows = lecture_data(failed())["cells"]["rows"]
    assert [row["focus"] for row in rows[:4]] == [False, False, True, False]
    assert (rows[2]["status"], rows[2]["tone"]) == (CellStatus.FAILED.value, "bad")
    assert (rows[3]["status"], rows[3]["tone"], rows[3]["peak"]) == ("not run", "dim", "-")


def test_bands_mark_the_cell_of_the_verdict():
    bands = lecture_data(with_timeline(over(), 41))["bands"]
    assert bands == [
        [1, "12", 0, 225, False],
        [2, "30", 250, 475, False],
        [3, "88", 500, 725, True],
        [4, "112", 750, 975, False],
    ]
    assert lecture_data(over())["bands"] == []


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(8, 40))
def test_thinning_keeps_ends_and_extremes(levels, most):
    kept = thin(levels, most, lambda level: level)
    assert len(kept) <= max(most, 4)
    if levels:
        assert (kept[0], kept[-1], max(kept), min(kept)) == (levels[0], levels[-1], max(levels), min(levels))


@pytest.mark.parametrize(("lectures", "points"), [(0, 2000), (1, 2000), (200, 2000), (500, 1000), (100_000, 200)])
def test_points_per_lecture_are_bounded(lectures, points):
    assert points_for(lectures) == points


def test_pages_of_200_lectures_stay_under_10_megabytes():
    entry = with_timeline(over(), 2000)
    entries = [replace(entry, run=replace(entry.run, lecture=f"lectures/number_{number}.md")) for number in range(200)]
    assert len(entry.run.timeline) == 2000
    assert len(page_of(entries).encode()) < 10_000_000


def test_times_are_whole_milliseconds():
    assert [sample.seconds for sample in timeline(3)] == [0.0, 0.025, 0.05]


if __name__ == "__main__":
    GOLDEN.write_text(structure_of(pictured()), encoding="utf-8")
    sys.stdout.write(f"{GOLDEN} written; {MACHINE.text}\n")
