"""A folder like ``/proc``, for the probe of Linux on every OS."""

from __future__ import annotations

from pytest_lecturecheck.units import KIB

KERNEL = 100


class FakeProc:
    """A folder like /proc whose files are written in place, as if by the system."""

    def __init__(self, root):
        self.root = root
        self.write("meminfo", "MemTotal: 1000000 kB\nSwapTotal: 1000000 kB\n")
        self.process(KERNEL, parent=1)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")

    def process(self, pid, *, parent, environ=""):
        self.write(f"{pid}/environ", environ)
        self.write(f"{pid}/clear_refs", "")
        self.write(f"{pid}/task/{pid}/children", "")
        self.write(f"{pid}/io", "rchar: 1\nwrite_bytes: 0\n")
        self.memory(pid, rss=50)
        self.usage(pid, parent=parent)
        self.pss(pid, 10)

    def memory(self, pid, *, rss, mark=None, swap=0, threads=1):
        lines = (
            f"VmHWM:\t{(mark or rss) * KIB} kB\nVmRSS:\t{rss * KIB} kB\nVmSwap:\t{swap * KIB} kB\nThreads:\t{threads}\n"
        )
        self.write(f"{pid}/status", f"Name:\tpython\n{lines}")

    def usage(self, pid, *, parent=1, ticks=0, faults=0, child_faults=0, reaped_ticks=0, state="S"):  # noqa: PLR0913 - fields of a file
        self.write(
            f"{pid}/stat",
            f"{pid} (python) {state} {parent} 0 0 0 0 0 0 {child_faults} {faults} 0 "
            f"{ticks} 0 {reaped_ticks} 0 20 0 1 0 5 0 0",
        )

    def pss(self, pid, size, swap=0):
        self.write(f"{pid}/smaps_rollup", f"0-1 [rollup]\nRss: 1 kB\nPss: {size * KIB} kB\nSwapPss: {swap * KIB} kB\n")

    def children(self, pid, *children, thread=None):
        self.write(f"{pid}/task/{thread or pid}/children", "".join(f"{child} " for child in children))

    def end(self, pid):
        """Leave what a process that was waited for leaves: open files that read as nothing."""
        for path in sorted((self.root / str(pid)).rglob("*"), reverse=True):
            if path.is_file():
                path.write_bytes(b"")
                path.unlink()
