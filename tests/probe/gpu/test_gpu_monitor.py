import json

from support.card_benches import CASES, T4, Bench, marked, reading, recorded

from pytest_lecturecheck.model.device import Device, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.probe.gpu._readings import Failure
from pytest_lecturecheck.probe.gpu.monitor import GpuMonitor
from pytest_lecturecheck.units import MIB

SECOND = Device(index=1, name="Tesla T4", uuid="GPU-1", total_bytes=15360 * MIB)
LOST = Failure(reason="the GPU is lost (it has fallen off the bus)")


def pids_of(case):
    lectures = json.loads((CASES / case / "events.json").read_text("utf-8"))["lectures"]
    return {name: facts["pid"] for name, facts in lectures.items()}


def used(probe_readings):
    return probe_readings[Metric.GPU_USED]


def mib(value):
    return None if value is None else value // MIB


def test_a_race_for_the_card():
    pids = pids_of("E01-preallocation-race")
    bench = Bench(facts={pid: marked(name, name) for name, pid in pids.items()})
    probes, seen = {}, {}
    for now in recorded("E01-preallocation-race"):
        if now.seconds == 5.0:
            probes |= {name: bench.monitor.open_probe(pid, name) for name, pid in pids.items()}
        bench.at(now.seconds, now)
        seen[now.seconds] = probes["second.md"].snapshot() if probes else ()
    (at_death,) = seen[45.0]
    assert at_death.holders == (
        DeviceHolder(
            pid=101,
            used_bytes=11305 * MIB,
            kind=HolderKind.RUNNING_LECTURE,
            lecture="first.md",
            was_there_first=True,
        ),
    )
    assert (at_death.before_bytes, at_death.peak_used_bytes) == (3 * MIB, 14731 * MIB)
    assert (at_death.used.value, at_death.others_peak_bytes) == (3422 * MIB, 11305 * MIB)
    assert at_death.is_shared
    assert [(point.seconds, mib(point.used_bytes), mib(point.run_bytes)) for point in at_death.timeline] == [
        # The second look is that of the third lecture's probe.
        (0.0, 3, 0),
        (0.0, 3, 0),
        (5.0, 11309, 0),
        (10.0, 14731, 3422),
        (45.0, 14731, 3422),
    ]
    (first,) = probes["first.md"].snapshot()
    assert [(holder.pid, holder.was_there_first) for holder in first.holders] == [(102, False)]
    readings, (third,) = probes["third.md"].close()
    assert used(readings).value == 0
    assert [holder.pid for holder in third.holders] == [101, 102]


def test_a_leftover_of_an_earlier_lecture():
    moments = recorded("E04-leftover-holder")
    bench = Bench(facts={201: marked("slow", "slow.md"), 202: marked("next", "next.md")})
    bench.at(0.0, moments[0])
    slow = bench.monitor.open_probe(201, "slow")
    bench.at(5.0, moments[1])
    bench.seconds = 20.0
    bench.monitor.note_killed("slow")
    bench.processes.known[201] = marked("slow", "slow.md", is_there=False)
    readings, (left,) = slow.close()
    assert used(readings).value == 5000 * MIB
    assert left.after_bytes == 5003 * MIB
    assert left.leftovers == (
        DeviceHolder(pid=201, used_bytes=5000 * MIB, kind=HolderKind.ENDED_LECTURE, lecture="slow.md"),
    )
    assert sum(bench.waits) >= 1.0

    bench.at(21.0, moments[2])
    probe = bench.monitor.open_probe(202, "next")
    holder = DeviceHolder(
        pid=201,
        used_bytes=5000 * MIB,
        kind=HolderKind.ENDED_LECTURE,
        lecture="slow.md",
        was_there_first=True,
        ended_seconds=1.0,
        was_killed=True,
    )
    (before,) = probe.snapshot()
    assert before.holders == (holder,)
    assert before.before_bytes == 5003 * MIB
    bench.at(30.0, moments[3])
    (at_death,) = probe.snapshot()
    assert at_death.holders == (holder,)
    assert at_death.used.value == 10000 * MIB


def test_memory_freed_shortly_after_the_end_is_no_leftover():
    bench = Bench(facts={41: marked("t", "a.md")})
    probe = bench.monitor.open_probe(41, "t")
    bench.at(1.0, reading(503, {41: 500}))
    bench.at(2.0, reading(503))

    def free():
        bench.cards.now[0] = reading(3)

    bench.on_wait = free
    _, (use,) = probe.close()
    assert bench.waits == [0.05]
    assert (use.before_bytes, use.after_bytes, use.leftovers) == (3 * MIB, 3 * MIB, ())
    assert bench.wanting_count == 0


def test_closing_does_not_wait_if_nothing_was_held():
    bench = Bench()
    probe = bench.monitor.open_probe(41, "t")
    bench.at(1.0, reading(9003, {7: 9000}))
    probe.close()
    assert bench.waits == []


def test_closing_twice_gives_the_same_and_reads_once():
    bench = Bench()
    probe = bench.monitor.open_probe(41, "t")
    first = probe.close()
    asked = len(bench.cards.asked)
    assert probe.close() == first
    assert probe.snapshot() == first[1]
    assert (len(bench.cards.asked), bench.wanting_count) == (asked, 0)


def test_cells_report_the_card_where_they_held_most():
    bench = Bench(T4, SECOND)
    probe = bench.monitor.open_probe(41, "t")
    probe.begin_cell()
    bench.at(1.0, reading(803, {41: 800}), position=1)
    bench.at(1.1, reading(103, {41: 100}), position=1)
    first = probe.end_cell()
    probe.begin_cell()
    bench.at(2.0, reading(203, {41: 200}))
    second = probe.end_cell()
    assert [used(item).value for item in (first, second)] == [800 * MIB, 200 * MIB]
    readings, uses = probe.close()
    assert used(readings).value == 800 * MIB
    assert [(use.device, use.used.value) for use in uses] == [(T4, 200 * MIB), (SECOND, 800 * MIB)]


def test_the_end_of_a_cell_is_read_unless_recent():
    bench = Bench()
    probe = bench.monitor.open_probe(41, "t")
    probe.begin_cell()
    bench.seconds, bench.cards.now[0] = 1.0, reading(503, {41: 500})
    assert used(probe.end_cell()).value == 500 * MIB
    looks = len(bench.cards.asked)
    probe.begin_cell()
    bench.seconds = 1.01
    assert used(probe.end_cell()).value == 500 * MIB
    assert len(bench.cards.asked) == looks


def test_a_cell_of_another_namespace_is_bounded():
    bench = Bench(same_namespace=False)
    bench.cards.now[0] = reading(500, {990001: 497})
    probe = bench.monitor.open_probe(37, "t")
    probe.begin_cell()
    bench.at(1.0, reading(4500, {990001: 497, 990777: 4000}))
    found = used(probe.end_cell())
    assert (found.value, found.method, found.high) == (0, Method.BRACKET, 4000 * MIB)
    (use,) = probe.snapshot()
    assert use.is_shared
    assert [(holder.pid, holder.kind) for holder in use.holders] == [(990001, HolderKind.FOREIGN)]


def test_a_lost_card_keeps_its_readings():
    bench = Bench(T4, SECOND)
    probe = bench.monitor.open_probe(41, "t")
    bench.at(1.0, reading(503, {41: 500}))
    bench.at(2.0, LOST)
    bench.cards.asked.clear()
    bench.at(3.0, LOST)
    assert bench.cards.asked == [1]
    probe.begin_cell()
    assert used(probe.end_cell()) == Unavailable(metric=Metric.GPU_USED, reason=LOST.reason)
    readings, (lost, _) = probe.close()
    assert used(readings).value == 500 * MIB
    assert lost.used.source == f"NVML, the run's processes, until: {LOST.reason}"
    assert (lost.before_bytes, lost.after_bytes) == (3 * MIB, None)
    again = bench.monitor.open_probe(42, "u")
    assert bench.cards.asked[-2:] == [0, 1]
    assert again.snapshot()[0].used == Unavailable(metric=Metric.GPU_USED, reason=LOST.reason)


def test_a_card_that_comes_back_is_read_again():
    bench = Bench()
    bench.cards.now[0] = Failure(reason="the card did not answer in time", is_lasting=False)
    probe = bench.monitor.open_probe(41, "t")
    assert probe.snapshot() == (
        DeviceUse(
            device=T4,
            used=Unavailable(metric=Metric.GPU_USED, reason="the card did not answer in time"),
            fault="the card did not answer in time",
        ),
    )
    bench.at(1.0, reading(3))
    bench.at(2.0, reading(203, {41: 200}))
    assert used(probe.close()[0]).value == 200 * MIB


def test_a_hanging_card_delays_nobody():
    bench = Bench()
    bench.is_answering = False
    probe = bench.monitor.open_probe(41, "t")
    probe.begin_cell()
    unread = Unavailable(metric=Metric.GPU_USED, reason="the device was not read")
    assert used(probe.end_cell()) == unread
    assert probe.close() == ({Metric.GPU_USED: unread}, (DeviceUse(device=T4),))


def test_summary_of_a_run():
    bench = Bench()
    probe = bench.monitor.open_probe(41, "t")
    bench.at(0.1, reading(103, {41: 100}, utilisation=0.5))
    bench.at(0.2, reading(103, {41: 100}, utilisation=0.25))
    (use,) = probe.snapshot()
    assert use.used == Measurement(
        metric=Metric.GPU_USED,
        value=100 * MIB,
        method=Method.SAMPLED,
        interval_seconds=0.1,
        source="NVML, the run's processes",
    )
    assert (use.peak_utilisation_fraction, use.interval_seconds, use.is_shared) == (0.5, 0.1, False)


def test_only_visible_cards_are_read():
    bench = Bench(T4, SECOND, environ={"CUDA_VISIBLE_DEVICES": "1"})
    probe = bench.monitor.open_probe(41, "t")
    assert bench.cards.asked == [1]
    assert [use.device for use in probe.snapshot()] == [SECOND]


def test_the_kernels_own_environment_decides_visible_cards():
    facts = {41: marked("t"), 42: marked("u")}
    facts[41].environ["CUDA_VISIBLE_DEVICES"] = ""
    bench = Bench(T4, SECOND, facts=facts, environ={"CUDA_VISIBLE_DEVICES": "1"})
    assert bench.monitor.open_probe(41, "t") is None
    assert bench.wanting_count == 0
    assert [use.device for use in bench.monitor.open_probe(42, "u").snapshot()] == [T4, SECOND]


def test_no_card_no_probe():
    monitor = GpuMonitor(Failure(reason="no NVIDIA GPU"), Bench().processes, has_card=False)
    assert monitor.open_probe(41, "t") is None
    assert (monitor.devices, monitor.driver, monitor.cuda, monitor.reason) == ((), None, None, "no NVIDIA GPU")
    monitor.sample()
    monitor.close()


def test_a_card_that_cannot_be_opened_has_a_reason():
    monitor = GpuMonitor(Failure(reason="no permission to read the card"), Bench().processes)
    probe = monitor.open_probe(41, "t")
    probe.begin_cell()
    unread = {Metric.GPU_USED: Unavailable(metric=Metric.GPU_USED, reason="no permission to read the card")}
    assert (probe.end_cell(), probe.snapshot(), probe.close()) == (unread, (), (unread, ()))


def test_zero_of_one_card_does_not_hide_an_unread_card():
    bench = Bench(T4, SECOND)
    bench.cards.now[1] = LOST
    assert used(bench.monitor.open_probe(41, "t").close()[0]) == Unavailable(metric=Metric.GPU_USED, reason=LOST.reason)


def test_closing_the_monitor_closes_the_library_once():
    bench = Bench()
    probe = bench.monitor.open_probe(41, "t")
    bench.monitor.close()
    bench.monitor.close()
    assert bench.cards.is_closed
    bench.monitor.sample()
    assert used(probe.close()[0]).value == 0


def test_holders_by_what_they_are():
    bench = Bench(
        facts={
            1: marked("other session", "b.md"),
            2: marked("dead session", "c.md", is_orphan=True),
            3: marked("gone", "d.md", is_there=False),
            4: marked("mine"),
        }
    )
    bench.cards.now[0] = reading(900, {1: 10, 2: 20, 3: 30, 4: 40, 5: None, 6: 0})
    probe = bench.monitor.open_probe(41, "mine")
    (use,) = probe.snapshot()
    assert [(holder.pid, holder.used_bytes, holder.kind, holder.lecture) for holder in use.holders] == [
        (4, 40 * MIB, HolderKind.FOREIGN, ""),
        (3, 30 * MIB, HolderKind.ENDED_LECTURE, "d.md"),
        (2, 20 * MIB, HolderKind.ENDED_LECTURE, "c.md"),
        (1, 10 * MIB, HolderKind.RUNNING_LECTURE, "b.md"),
        (5, None, HolderKind.FOREIGN, ""),
    ]
    assert all(holder.was_there_first for holder in use.holders)
    assert use.others_peak_bytes is None
