import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded_trees import write_tree

from pytest_lecturecheck.model.evidence import OomKill, OomScope
from pytest_lecturecheck.probe.oom import (
    OomCounter,
    compare_oom_counters,
    read_group_counter,
    read_oom_counters,
)
from pytest_lecturecheck.units import GIB, MIB

RECORDED = Path(__file__).parents[1] / "cases" / "C10-oom-evidence"
V1_UNLIMITED = "9223372036854771712\n"


def events(oom, oom_kill):
    return f"low 0\nhigh 0\nmax 3\noom {oom}\noom_kill {oom_kill}\noom_group_kill 9\n"


def control(oom_kill):
    return f"oom_kill_disable 0\nunder_oom 0\noom_kill {oom_kill}\n"


def change(root, texts, *, cap_folder=None):
    """Read, write, read again, compare."""
    before = read_oom_counters(root, cap_folder=cap_folder)
    write_tree(root, texts)
    return compare_oom_counters(before, read_oom_counters(root, cap_folder=cap_folder))


def compare_recorded(name):
    before, after = (read_group_counter(RECORDED / name / moment) for moment in ("before", "after"))
    return compare_oom_counters((before,), (after,))


# One group, recorded


def test_v2_counter_that_rose():
    assert compare_recorded("cg_v2") == (
        OomKill(
            scope=OomScope.CONTAINER,
            before=0,
            after=1,
            limit_bytes=512 * MIB,
            where="cgroup v2 memory.events oom_kill",
        ),
    )


def test_v1_counter_that_rose_from_an_old_count():
    assert compare_recorded("cg_v1") == (
        OomKill(
            scope=OomScope.CONTAINER,
            before=4,
            after=5,
            limit_bytes=512 * MIB,
            where="cgroup v1 memory.oom_control oom_kill",
        ),
    )


def test_v2_kill_while_the_groups_own_limit_was_not_reached():
    assert compare_recorded("cg_v2_parent_only") == (
        OomKill(scope=OomScope.OUTER, before=0, after=1, where="cgroup v2 memory.events oom_kill"),
    )


@pytest.mark.parametrize("name", ["cg_v1", "cg_v2", "cg_v2_parent_only"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_old_count_is_no_evidence(name, moment):
    counter = read_group_counter(RECORDED / name / moment)
    assert counter is not None
    assert compare_oom_counters((counter,), (counter,)) == ()


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"memory.events": "low 0\noom 5\noom_group_kill 3\n"},
        {"memory.events": "oom_kill -1\noom_kill x\noom_kill 1 2\n\n"},
        {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"},
    ],
)
def test_a_folder_that_counts_no_kills(tmp_path, texts):
    write_tree(tmp_path, texts)
    assert read_group_counter(tmp_path) is None


# Trees of version 2


@pytest.fixture
def v2(tmp_path):
    group = "sys/fs/cgroup/box/job"
    texts = {"proc/self/cgroup": "0::/box/job\n", "proc/vmstat": "nr_free_pages 5\noom_kill 40\n"}
    for folder, limit in ((group, "max\n"), ("sys/fs/cgroup/box", f"{4 * GIB}\n")):
        texts |= {f"{folder}/memory.events": events(2, 7), f"{folder}/memory.max": limit}
    write_tree(tmp_path, texts)
    return tmp_path


def test_v2_limit_of_an_ancestor(v2):
    kills = change(
        v2,
        {
            "sys/fs/cgroup/box/job/memory.events": events(2, 8),
            "sys/fs/cgroup/box/memory.events": events(3, 8),
            "proc/vmstat": "oom_kill 41\n",
        },
    )
    where = "cgroup v2 /box/job memory.events oom_kill; the limit is that of cgroup v2 /box"
    assert kills == (OomKill(scope=OomScope.CONTAINER, before=7, after=8, limit_bytes=4 * GIB, where=where),)


def test_v2_kill_of_a_sibling_group_is_not_ours(v2):
    assert change(v2, {"sys/fs/cgroup/box/memory.events": events(3, 8), "proc/vmstat": "oom_kill 41\n"}) == ()


def test_v2_kill_in_a_group_below_is_not_ours(v2):
    own = "sys/fs/cgroup/box/job/memory.events"
    write_tree(v2, {f"{own}.local": events(0, 0)})
    assert change(v2, {own: events(3, 8)}) == ()


def test_v2_own_counter_is_used_if_reported(v2):
    own = "sys/fs/cgroup/box/job"
    write_tree(v2, {f"{own}/memory.events.local": events(0, 0), f"{own}/memory.max": f"{GIB}\n"})
    kills = change(v2, {f"{own}/memory.events": events(3, 8), f"{own}/memory.events.local": events(1, 1)})
    where = "cgroup v2 /box/job memory.events.local oom_kill"
    assert kills == (OomKill(scope=OomScope.CONTAINER, before=0, after=1, limit_bytes=GIB, where=where),)


def test_v2_without_any_limit_that_was_reached(v2):
    kills = change(
        v2,
        {
            "sys/fs/cgroup/box/job/memory.events": events(2, 8),
            "sys/fs/cgroup/box/memory.events": events(2, 8),
            "proc/vmstat": "oom_kill 41\n",
        },
    )
    where = "cgroup v2 /box/job memory.events oom_kill"
    assert kills == (OomKill(scope=OomScope.OUTER, before=7, after=8, where=where),)


def test_v2_group_whose_path_is_the_hosts(tmp_path):
    folder = "sys/fs/cgroup"
    write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/docker/0123\n",
            f"{folder}/memory.events": events(0, 0),
            f"{folder}/memory.max": f"{GIB}\n",
        },
    )
    where = "cgroup v2 / memory.events oom_kill"
    assert change(tmp_path, {f"{folder}/memory.events": events(1, 1)}) == (
        OomKill(scope=OomScope.CONTAINER, before=0, after=1, limit_bytes=GIB, where=where),
    )


@pytest.mark.parametrize(
    ("limited", "name"),
    [
        ("/system.slice/slurmstepd.scope/job_42", "job"),
        ("/system.slice/slurmstepd.scope/job_42/step_batch", "step"),
    ],
)
def test_v2_slurm(tmp_path, limited, name):
    task = "/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0"
    chain = [task, *(str(parent) for parent in Path(task).parents)][:-1]
    file = "sys/fs/cgroup{}/memory.events"
    write_tree(tmp_path, {"proc/self/cgroup": f"0::{task}\n"} | {file.format(group): events(0, 0) for group in chain})
    write_tree(tmp_path, {f"sys/fs/cgroup{limited}/memory.max": f"{8 * GIB}\n"})
    is_above = [limited.startswith(group) for group in chain]
    (kill,) = change(
        tmp_path, {file.format(group): events(int(above), 1) for group, above in zip(chain, is_above, strict=True)}
    )
    assert (kill.scope, kill.before, kill.after, kill.limit_bytes) == (OomScope.SCHEDULER, 0, 1, 8 * GIB), name
    assert kill.where == (f"cgroup v2 {task} memory.events oom_kill; the limit is that of cgroup v2 {limited}")


@pytest.mark.parametrize("group", ["/box/job7", "/jobs/step", "/myslurm", "/user.slice/user-1000.slice"])
def test_groups_that_only_sound_like_slurms(tmp_path, group):
    folder = f"sys/fs/cgroup{group}"
    write_tree(tmp_path, {"proc/self/cgroup": f"0::{group}\n", f"{folder}/memory.events": events(0, 0)})
    write_tree(tmp_path, {f"{folder}/memory.max": "4096\n"})
    (kill,) = change(tmp_path, {f"{folder}/memory.events": events(1, 1)})
    assert kill.scope is OomScope.CONTAINER


# Trees of version 1, and both


@pytest.mark.parametrize("hybrid", [True, False])
def test_v1_limit_of_an_ancestor(tmp_path, hybrid):
    text = "5:cpu,cpuacct:/\n4:memory:/a/b\n" + ("0::/x\n" if hybrid else "")
    folder = "sys/fs/cgroup/memory/a"
    write_tree(
        tmp_path,
        {
            "proc/self/cgroup": text,
            "proc/vmstat": "oom_kill 3\n",
            f"{folder}/b/memory.oom_control": control(0),
            f"{folder}/b/memory.failcnt": "5\n",
            f"{folder}/b/memory.limit_in_bytes": V1_UNLIMITED,
            f"{folder}/memory.oom_control": control(0),
            f"{folder}/memory.failcnt": "7\n",
            f"{folder}/memory.limit_in_bytes": f"{2 * GIB}\n",
        },
    )
    if hybrid:
        write_tree(tmp_path, {"sys/fs/cgroup/unified/x/cgroup.procs": "1\n"})
    kills = change(
        tmp_path,
        {
            f"{folder}/b/memory.oom_control": control(1),
            f"{folder}/memory.failcnt": "90\n",
            "proc/vmstat": "oom_kill 4\n",
        },
    )
    where = "cgroup v1 /a/b memory.oom_control oom_kill; the limit is that of cgroup v1 /a"
    assert kills == (OomKill(scope=OomScope.CONTAINER, before=0, after=1, limit_bytes=2 * GIB, where=where),)


def test_v1_limit_on_memory_with_swap(tmp_path):
    folder = "sys/fs/cgroup/memory/slurm/uid_1000/job_7"
    write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/slurm/uid_1000/job_7\n",
            f"{folder}/memory.oom_control": control(4),
            f"{folder}/memory.failcnt": "0\n",
            f"{folder}/memory.memsw.failcnt": "2\n",
            f"{folder}/memory.limit_in_bytes": f"{2 * GIB}\n",
        },
    )
    kills = change(tmp_path, {f"{folder}/memory.oom_control": control(5), f"{folder}/memory.memsw.failcnt": "3\n"})
    where = "cgroup v1 /slurm/uid_1000/job_7 memory.oom_control oom_kill"
    assert kills == (OomKill(scope=OomScope.SCHEDULER, before=4, after=5, limit_bytes=2 * GIB, where=where),)


def test_v1_without_a_limit_is_an_outer_kill(tmp_path):
    folder = "sys/fs/cgroup/memory/a"
    write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/a\n",
            f"{folder}/memory.oom_control": control(0),
            f"{folder}/memory.limit_in_bytes": V1_UNLIMITED,
        },
    )
    kills = change(tmp_path, {f"{folder}/memory.oom_control": control(1)})
    where = "cgroup v1 /a memory.oom_control oom_kill"
    assert kills == (OomKill(scope=OomScope.OUTER, before=0, after=1, where=where),)


def test_v2_in_a_hybrid_tree(tmp_path):
    folder = "sys/fs/cgroup/unified/x"
    write_tree(tmp_path, {"proc/self/cgroup": "3:cpu:/\n0::/x\n", f"{folder}/memory.events": events(0, 0)})
    write_tree(tmp_path, {f"{folder}/memory.max": f"{GIB}\n"})
    where = "cgroup v2 /x memory.events oom_kill"
    assert change(tmp_path, {f"{folder}/memory.events": events(1, 1)}) == (
        OomKill(scope=OomScope.CONTAINER, before=0, after=1, limit_bytes=GIB, where=where),
    )


# The group of a run


@pytest.fixture
def capped(v2):
    folder = v2 / "sys/fs/cgroup/box/job/lecture-1"
    write_tree(folder, {"memory.events": events(0, 0), "memory.max": f"{GIB}\n"})
    return folder


def test_the_cap_of_a_run(v2, capped):
    kills = change(
        v2,
        {
            "sys/fs/cgroup/box/job/lecture-1/memory.events": events(1, 2),
            "sys/fs/cgroup/box/job/memory.events": events(3, 9),
            "sys/fs/cgroup/box/memory.events": events(3, 9),
        },
        cap_folder=capped,
    )
    where = "cgroup v2 /box/job/lecture-1 memory.events oom_kill"
    assert kills == (OomKill(scope=OomScope.CAP, before=0, after=2, limit_bytes=GIB, where=where),)


def test_the_containers_limit_below_the_cap_of_a_run(v2, capped):
    kills = change(
        v2,
        {
            "sys/fs/cgroup/box/job/lecture-1/memory.events": events(0, 1),
            "sys/fs/cgroup/box/job/memory.events": events(2, 8),
            "sys/fs/cgroup/box/memory.events": events(3, 8),
        },
        cap_folder=capped,
    )
    where = "cgroup v2 /box/job/lecture-1 memory.events oom_kill; the limit is that of cgroup v2 /box"
    assert kills == (OomKill(scope=OomScope.CONTAINER, before=0, after=1, limit_bytes=4 * GIB, where=where),)


def test_the_kill_of_another_run_is_not_ours(v2, capped):
    assert change(v2, {"sys/fs/cgroup/box/job/memory.events": events(3, 8)}, cap_folder=capped) == ()


def test_a_removed_group_is_judged_by_the_next_one(v2, capped):
    before = read_oom_counters(v2, cap_folder=capped)
    shutil.rmtree(capped)
    after = read_oom_counters(v2, cap_folder=capped)
    assert compare_oom_counters(before, after) == ()
    write_tree(v2, {"sys/fs/cgroup/box/job/memory.events": events(3, 8)})
    after = read_oom_counters(v2, cap_folder=capped)
    where = "cgroup v2 /box/job memory.events oom_kill; the limit is that of cgroup v2 /box/job/lecture-1"
    assert compare_oom_counters(before, after) == (
        OomKill(scope=OomScope.CAP, before=7, after=8, limit_bytes=GIB, where=where),
    )


def test_a_cap_outside_the_mount_has_its_own_name(tmp_path):
    folder = tmp_path / "elsewhere" / "cap7"
    write_tree(folder, {"memory.events": events(0, 0), "memory.max": "4096\n"})
    root = tmp_path / "root"
    write_tree(root, {"proc/vmstat": "oom_kill 1\n"})
    assert [item.where for item in read_oom_counters(root, cap_folder=folder)] == [
        "cgroup v2 cap7 memory.events",
        "/proc/vmstat",
    ]


# The machine


def test_the_machines_counter_is_used_without_groups(tmp_path):
    write_tree(tmp_path, {"proc/self/cgroup": "0::/\n", "proc/vmstat": "oom_kill 4\n"})
    assert change(tmp_path, {"proc/vmstat": "oom_kill 6\n"}) == (
        OomKill(scope=OomScope.MACHINE, before=4, after=6, where="/proc/vmstat oom_kill"),
    )
    assert change(tmp_path, {"proc/vmstat": "oom_kill 6\n"}) == ()
    assert change(tmp_path, {"proc/vmstat": "oom_kill 1\n"}) == ()


def test_nothing_is_read_from_nothing(tmp_path):
    assert read_oom_counters(tmp_path) == ()
    assert compare_oom_counters((), ()) == ()
    counter = OomCounter(where="a", scope=OomScope.CONTAINER, kill_count=3)
    assert compare_oom_counters((), (counter,)) == ()
    assert compare_oom_counters((counter,), ()) == ()


@pytest.mark.parametrize(
    ("early", "late", "scope"),
    [
        (100, 512, OomScope.CAP),
        (100, 511.5, OomScope.CAP),
        (100, 400, OomScope.OUTER),
        (512, 512, OomScope.OUTER),
        (None, 512, OomScope.CAP),
        (None, None, OomScope.OUTER),
    ],
)
def test_a_group_that_reached_its_limit_counts_as_limiting(early, late, scope):
    """As on Linux 6.18, where memory.failcnt of version 1 stays at 0."""
    before, after = (
        OomCounter(
            where="cgroup v1 /run memory.oom_control",
            scope=OomScope.CAP,
            kill_count=kills,
            limit_hit_count=0,
            limit_bytes=512 * 1024**2,
            peak_bytes=None if peak is None else round(peak * 1024**2),
        )
        for kills, peak in ((0, early), (1, late))
    )
    (kill,) = compare_oom_counters([before], [after])
    assert kill.scope is scope


COUNTS = st.integers(0, 3)
COUNTERS = st.builds(
    OomCounter,
    where=st.just(""),
    scope=st.sampled_from([OomScope.CAP, OomScope.CONTAINER, OomScope.SCHEDULER]),
    kill_count=COUNTS,
    own_kill_count=st.none() | COUNTS,
    limit_hit_count=st.none() | COUNTS,
    limit_bytes=st.none() | st.just(GIB),
)


@given(st.lists(st.tuples(COUNTERS, COUNTERS), max_size=3), st.tuples(COUNTS, COUNTS))
def test_at_most_one_kill_and_only_if_a_counter_rose(pairs, vmstat):
    names = [f"group {number}" for number in range(len(pairs))]
    before, after = (
        [
            *(replace(pair[index], where=name) for name, pair in zip(names, pairs, strict=True)),
            OomCounter(where="/proc/vmstat", scope=OomScope.MACHINE, kill_count=vmstat[index]),
        ]
        for index in (0, 1)
    )
    kills = compare_oom_counters(before, after)
    assert len(kills) <= 1
    assert all(kill.after > kill.before for kill in kills)
    assert compare_oom_counters(after, after) == ()
    assert compare_oom_counters(before, before) == ()


def test_counters_of_this_machine():
    counters = read_oom_counters()
    assert len({item.where for item in counters}) == len(counters)
    assert all(item.kill_count >= 0 for item in counters)
    assert all(early.scope is not OomScope.MACHINE for early, _ in itertools.pairwise(counters))
