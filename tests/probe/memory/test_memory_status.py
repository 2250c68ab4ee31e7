import pytest

from pytest_lecturecheck.probe.memory._procfiles import StatusFile

MEMORY = """\
VmPeak:\t   90000 kB
VmHWM:\t   2000 kB
VmRSS:\t   1000 kB
RssAnon:\t    600 kB
RssFile:\t    400 kB
RssShmem:\t      0 kB
VmSwap:\t      8 kB
CoreDumping:\t0
"""
HEAD = "Name:\tpython\nState:\tS (sleeping)\nPid:\t7\n"
TAIL = "Threads:\t1\nSigQ:\t0/7\nnonvoluntary_ctxt_switches:\t3\n"


@pytest.fixture
def status(tmp_path):
    path = tmp_path / "status"
    path.write_text(HEAD + MEMORY + TAIL)
    file = StatusFile(str(path))
    yield file, path.write_text
    file.close()


@pytest.mark.parametrize(
    ("old", "new", "attribute", "value"),
    [
        ("VmHWM:\t   2000", "VmHWM:\t   2004", "high_watermark_bytes", 2004 * 1024),
        ("VmRSS:\t   1000", "VmRSS:\t   1004", "rss_bytes", 1004 * 1024),
        ("RssFile:\t    400", "RssFile:\t    404", "file_bytes", 404 * 1024),
        ("VmSwap:\t      8", "VmSwap:\t     12", "swap_bytes", 12 * 1024),
        ("Threads:\t1", "Threads:\t13", "thread_count", 13),
    ],
)
@pytest.mark.parametrize("order", [(HEAD, MEMORY, TAIL), (HEAD, TAIL, MEMORY)])
def test_a_status_is_parsed_again_when_it_changes(status, order, old, new, attribute, value):
    file, write = status
    text = "".join(order)
    write(text)
    before = file.read_status()
    write(text.replace(old, new))
    after = file.read_status()
    assert getattr(before, attribute) != getattr(after, attribute) == value
    write(text)
    assert file.read_status() == before


def test_unused_lines_may_change(status):
    file, write = status
    before = file.read_status()
    write((HEAD + MEMORY + TAIL).replace("S (sleeping)", "R (running)").replace("switches:\t3", "switches:\t4"))
    assert file.read_status() is before


def test_a_zombie_has_no_status_and_is_no_fault(status):
    file, write = status
    file.read_status()
    write("Name:\tpython\nState:\tZ (zombie)\nThreads:\t1\n")
    assert (file.read_status(), file.error) == (None, None)
