"""
Start kernels below a supervisor each, forked from a process that has imported ipykernel (Linux).

Run by path in an interpreter of its own, with the standard library and ipykernel only::

    session  <-- requests -->  server  -- fork -->  supervisor  -- fork or exec -->  kernel
    session  <----------- control socket ----------->  supervisor

The **server** imports ipykernel once and starts no thread. A forked kernel then has the modules, and nearly the memory,
of one that was started by itself. The **supervisor** is the kernel's parent and the subreaper of everything that comes
from it (``PR_SET_CHILD_SUBREAPER``, prctl(2)). An orphan of the lecture becomes its child, whatever the orphan did to
its environment, session, process group or name. The supervisor reports the kernel's exit status. It ends the whole tree
when the control socket closes, which happens however the session ends.

Messages are one JSON object each, on ``SOCK_SEQPACKET`` sockets, which keep their boundaries.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import tokenize
from collections.abc import Callable
from typing import Any, Literal, NoReturn

MESSAGE_BYTES = 1 << 17
"""The largest request; Linux takes twice that on a socket of default size."""
MOST_DESCRIPTORS = 32
PLACEHOLDERS = {"LECTURECHECK_RUN": 16, "LECTURECHECK_LECTURE": 255}
"""
Variables that differ between kernels, with the bytes that the server's environment reserves for each.

A forked process keeps the environment block of the program that was executed, and ``/proc/PID/environ`` shows that
block. A kernel writes its own values over the reserved bytes, so that others can read whose process it is.
"""
KERNEL_MODULES = (
    *("ipykernel.debugger", "IPython.core.completerlib", "IPython.core.debugger", "IPython.core.oinspect"),
    *("IPython.extensions.storemagic", "IPython.utils.wildcard", "faulthandler", "pdb", "sqlite3"),
    "tornado.platform.asyncio",
)
"""
What ipykernel loads while a kernel starts, and not when it is imported.

Nothing else may be loaded here: a lecture that forgot an import would pass, and memory would be charged to nobody.
"""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
READ_PAGES, WRITE_PAGES = 22, 23
"""``MADV_POPULATE_READ`` and ``MADV_POPULATE_WRITE`` of madvise(2), Linux 5.14."""
_MAY_READ, _MAY_WRITE = 1, 2
"""Of mprotect(2); the module mmap is in no bare kernel."""
_PROTECTED_PAGES = -1
"""Private pages in memory that may only be read."""
_ENV_START_FIELD = 48
"""``env_start`` of ``/proc/self/stat``, counted from the process's state, which is 1; see proc(5)."""
_END_SECONDS = 30.0
_ROUND_SECONDS = 0.002
_REST_SECONDS = 0.5
"""A supervisor ends within milliseconds once nothing of its tree is left."""

Pages = list[tuple[int, int, int]]
"""Ranges of resident pages: start, length, and how a child comes to hold them."""

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Serve until the session closes its end; in a forked kernel, run the kernel."""
    # A file that is run by its path has its folder on the module search path; a lecture must not see it.
    if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120 - no pathlib needed
        del sys.path[0]
    # A lecture can stop this process; it ends with the session all the same. It adopts what killed supervisors leave.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    given = dict(os.environ)
    # Nearly all that an import makes stays, and to look for the rest takes a tenth of the time.
    gc.disable()
    from ipykernel import kernelapp  # noqa: PLC0415 - only in the server itself, never in the session

    for name in KERNEL_MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Every kernel compiles the pattern of Python's tokens for its first request, before the lecture's first cell.
    list(tokenize.generate_tokens(iter(("0\n", "")).__next__))
    if threading.active_count() > 1:
        # A fork would leave the other threads' locks taken for ever; the session starts kernels in another way.
        sys.exit("a module of ipykernel started a thread")
    # Twice, because the first list takes pages, too.
    pages = resident_pages()
    pages = resident_pages()
    # Objects that are never looked at by the collector again keep the pages that they share with the server. The
    # imports leave a few hundred objects of garbage; to look for them takes an eighth of what the imports take.
    gc.freeze()
    gc.enable()
    # What ipykernel sets while it is imported (PYDEVD_USE_FRAME_EVAL) belongs to the environment of every kernel.
    added = {name: value for name, value in os.environ.items() if given.get(name) != value}
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        is_kernel = serve(requests, added, pages)
    if not is_kernel:
        # There is nothing to clean up, and to take an interpreter apart takes time.
        os._exit(0)
    # On the server's own stack, so that the interpreter ends as that of any kernel does, exit handlers included.
    # ipykernel has read the variable of this name when it was imported, which was before the supervisor existed.
    kernelapp.launch_new_instance(parent_handle=int(os.environ["JPY_PARENT_PID"]))


def serve(requests: socket.socket, added: dict[str, str], pages: Pages) -> bool:
    """
    Fork a supervisor for each request; return True in a forked kernel, and False when the session has ended.

    Args:
        requests: the socket to the session.
        added: variables that forked kernels have beside those of their request.
        pages: what :func:`resident_pages` returned.
    """
    ends = _ChildEnds()
    while True:
        while requests not in ends.wait_with(requests, None):
            ends.reap()
        try:
            data, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, MOST_DESCRIPTORS)
        except OSError:
            data = b""
        if not data:
            ends.reap_rest(requests)
            return False
        if os.fork() == 0:
            requests.close()
            ends.close()
            request = json.loads(data)
            if request["is_forked"]:
                request["env"] |= added
            return supervise(request, descriptors, pages)
        for descriptor in descriptors:
            os.close(descriptor)


class _ChildEnds:
    """
    Waits for the ends of children, supervisors and what killed ones have left.

    They report to the session, but only who waits for a child is charged with its CPU time, and so is who waits for
    this process in the end.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def close(self) -> None:
        """Undo everything, in a child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._reader)
        os.close(self._writer)

    def wait_with(self, requests: socket.socket, seconds: float | None) -> list[Any]:
        """Wait for an end or a request, whichever comes first; return what is ready."""
        watched: list[Any] = [requests, self._reader]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._reader, 4096)
        return ready

    @staticmethod
    def reap() -> bool:
        """Wait for all children that have ended; return False if there is none left."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return True
        return False

    def reap_rest(self, requests: socket.socket) -> None:
        """Wait for the supervisors that are about to end with the session."""
        deadline = time.monotonic() + _REST_SECONDS
        while self.reap() and (left := deadline - time.monotonic()) > 0:
            select.select([self._reader], [], [], left)
            self.wait_with(requests, 0)


def supervise(request: dict[str, Any], descriptors: list[int], pages: Pages) -> Literal[True]:
    """
    Start the kernel of a request and stay with it; return in the forked kernel only.

    Args:
        request: ``argv``, ``cwd`` and ``env`` of the kernel; ``is_forked`` says that the kernel is ipykernel in this
            interpreter, so that it need not be executed; ``group_file`` is written to by the kernel to join its memory
            group, or is empty. ``is_spare`` says that the kernel waits for a second request, which has the rest.
        descriptors: the control socket, the kernel's output, and descriptors that the kernel keeps. A spare process has
            the first one only.
        pages: what a forked kernel takes of the server's memory.
    """
    control = socket.socket(fileno=descriptors[0])
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    start = _Start(request, descriptors[1:])
    try:
        # Here, where a folder that is not there can still be reported.
        os.chdir(request["cwd"])
        kernel = os.fork() if request["is_forked"] else _execute(start)
    except OSError as exc:
        _refuse(control, exc)
    if kernel == 0:
        # Its number will belong to another file, which must not be closed with this object.
        control.detach()
        become_kernel(start, pages)
        return True
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The kernel has a session of its own; whatever is sent to this process is not for it.
        signal.signal(number, signal.SIG_IGN)
    start.let_go()
    answer = {"supervisor": os.getpid(), "kernel": kernel, "has_joined": start.has_joined()}
    return _watch(control, answer, start)


def _refuse(control: socket.socket, exc: OSError) -> NoReturn:
    with contextlib.suppress(OSError):
        control.send(json.dumps({"errno": exc.errno, "path": os.fsdecode(exc.filename or "")}).encode())
    os._exit(0)


class _Start:
    """One start of a kernel, as the supervisor and the kernel's new process see it."""

    def __init__(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self.request, self._descriptors = request, descriptors
        self.supervisor = os.getpid()
        self._reader, self._writer = os.pipe()
        self._giver: socket.socket | None = None
        self._taker: socket.socket | None = None
        if request.get("is_spare"):
            self._giver, self._taker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    @property
    def output(self) -> int:
        return self._descriptors[0]

    @property
    def kept(self) -> list[int]:
        return self._descriptors[1:]

    @property
    def environment(self) -> dict[str, str]:
        return {**self.request["env"], "JPY_PARENT_PID": str(self.supervisor)}

    def wait_for_request(self) -> None:
        """Wait, in a spare process, for the request of the kernel that it becomes."""
        if self._taker is None or self._giver is None:
            return
        # Its number will belong to another file, which must not be closed with this object.
        self._giver.detach()
        close_all_but({self._taker.fileno()})
        data, self._descriptors, _, _ = socket.recv_fds(self._taker, MESSAGE_BYTES, MOST_DESCRIPTORS)
        if not data:
            os._exit(0)
        self._taker.close()
        request = json.loads(data)
        self.request = {**request, "env": {**request["env"], **self.request["env"]}}
        os.chdir(request["cwd"])

    def hand_over(self, data: bytes, descriptors: list[int]) -> bool:
        """Pass the request of a spare process on to it, in the supervisor; return False where none is expected."""
        if self._giver is None:
            return False
        with contextlib.suppress(OSError):
            socket.send_fds(self._giver, [data], descriptors)
        self._giver.close()
        self._giver, self._descriptors = None, descriptors
        self.let_go()
        return True

    def let_go(self) -> None:
        """Close what only the kernel uses, in the supervisor; descriptors that the kernel keeps stay open here, too."""
        if self._descriptors:
            os.close(self.output)
        if self._taker is not None:
            self._taker.close()

    def leave_parent(self) -> None:
        """
        Join the memory group, and be killed when the supervisor is, so that no kernel runs on unsupervised.

        A process that joins by itself, before it has a second thread, is charged for all of its memory. In version 1 of
        the interface it does so without the wait for a grace period of RCU that moving another process takes.
        """
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self.supervisor:
            os._exit(1)
        with contextlib.suppress(OSError):
            if self.request["group_file"]:
                descriptor = os.open(self.request["group_file"], os.O_WRONLY)
                try:
                    os.write(descriptor, b"0")
                finally:
                    os.close(descriptor)
                os.write(self._writer, b"1")
        os.close(self._writer)

    def has_joined(self) -> bool:
        """Wait, in the supervisor, until the kernel has tried to join its group; return whether it has."""
        os.close(self._writer)
        with open(self._reader, "rb") as file:  # noqa: PTH123 - a descriptor
            return bool(self.request["group_file"]) and file.read(1) == b"1"


def _execute(start: _Start) -> int:
    request = start.request
    # The process is known by its number alone: this object must not wait for it.
    process = subprocess.Popen(  # noqa: S603 - the command of an installed kernelspec
        request["argv"],
        env=start.environment,
        stdin=subprocess.DEVNULL,
        stdout=start.output,
        stderr=start.output,
        pass_fds=start.kept,
        start_new_session=True,
        preexec_fn=start.leave_parent,  # noqa: PLW1509 - there is one thread
    )
    process.returncode = 0
    return process.pid


def become_kernel(start: _Start, pages: Pages) -> None:
    """Turn this fork of the server into what executing the kernel's command would have made."""
    os.setsid()
    start.leave_parent()
    take_pages(pages)
    start.wait_for_request()
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (start.output, 1), (start.output, 2)):
        os.dup2(source, target)
    close_all_but(set(start.kept))
    for descriptor in start.kept:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - its only parameter
    for name in os.environ.keys() - start.environment.keys():
        del os.environ[name]
    os.environ.update(start.environment)
    _write_environment_block(start.environment)
    argv = start.request["argv"]
    sys.argv[:] = [start.request["program"], *argv[argv.index("-m") + 2 :]]
    sys.orig_argv[:] = argv
    gc.unfreeze()


def close_all_but(kept: set[int]) -> None:
    """Close all descriptors but the standard streams and those that are kept."""
    # By their list: the limit on descriptors can be a billion, and an old C library would close each of them.
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept:  # noqa: PLR2004 - stderr
            with contextlib.suppress(OSError):
                os.close(descriptor)


def resident_pages() -> Pages:
    """
    Return the resident pages of this process, as ranges: start, length, and how a child comes to hold them as well.

    A child shares private pages with its parent and has none of the parent's pages of files. Its memory would look
    lighter than that of a program that was executed. ``/proc/self/pagemap``: Documentation/admin-guide/mm/pagemap.rst.
    """
    found: Pages = []
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/maps", "rb") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pagemap:  # noqa: PTH123
        for line in maps:
            addresses, mode = line.split()[:2]
            start, end = (int(address, 16) for address in addresses.split(b"-"))
            if mode[3:] != b"p" or end >> 63:
                continue
            # What the loader has relocated and then protected is private, too.
            private = WRITE_PAGES if mode[1:2] == b"w" else _PROTECTED_PAGES if mode[:3] == b"r--" else 0
            pagemap.seek(start // page * 8)
            for number, entry in enumerate(memoryview(pagemap.read((end - start) // page * 8)).cast("Q")):
                advice = 0 if not entry >> 63 else READ_PAGES if entry >> 61 & 1 else private
                address = start + number * page
                if advice and found and found[-1][2] == advice and found[-1][0] + found[-1][1] == address:
                    found[-1] = (found[-1][0], found[-1][1] + page, advice)
                elif advice:
                    found.append((address, page, advice))
    return found


def take_pages(pages: Pages) -> None:
    """Hold the server's pages as if this process had been executed: private ones as copies, those of files mapped."""
    madvise, mprotect = _libc.madvise, _libc.mprotect
    madvise.argtypes = mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, length, advice in pages:
        if advice == _PROTECTED_PAGES and mprotect(start, length, _MAY_READ | _MAY_WRITE) == 0:
            madvise(start, length, WRITE_PAGES)
            mprotect(start, length, _MAY_READ)
        else:
            madvise(start, length, advice)


def _write_environment_block(environment: dict[str, str]) -> None:
    """Write the values of :data:`PLACEHOLDERS` into the block that ``/proc/PID/environ`` shows."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - no pathlib needed
            start = int(file.read().rpartition(b")")[2].split()[_ENV_START_FIELD - 1])
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            block = b"\0" + file.read()
        memory = os.open("/proc/self/mem", os.O_WRONLY)
        try:
            for name, size in PLACEHOLDERS.items():
                entry = f"\0{name}=".encode()
                place = block.find(entry + b"-" * size + b"\0")
                value = os.fsencode(environment.get(name, ""))[:size]
                if place >= 0:
                    os.pwrite(memory, value + b"\0" * (size - len(value)), start + place + len(entry) - 1)
        finally:
            os.close(memory)


def _watch(control: socket.socket, answer: dict[str, Any], start: _Start) -> NoReturn:
    """Report the kernel's end, and end with the last process of its tree or with the session."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    # After the handler stands: an end before it raised no wake-up.
    _send(control, answer)
    end: dict[str, Any] | None = None
    while True:
        reaped, has_children = _reap(answer["kernel"])
        end = reaped or end
        if end is not None and "has_left" not in end:
            end["has_left"] = has_children
            _send(control, end)
        if not has_children:
            os._exit(0)
        ready, _, _ = select.select([control.fileno(), reader], [], [])
        if reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(reader, 4096)
        if control.fileno() in ready:
            _hear_session(control, start)


def _hear_session(control: socket.socket, start: _Start) -> None:
    """Pass on what the session sends to a spare process; end the tree when the session's end of the socket closes."""
    data, descriptors = b"", list[int]()
    with contextlib.suppress(OSError):
        data, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MOST_DESCRIPTORS)
    if not data or not start.hand_over(data, descriptors):
        end_tree()


def _reap(kernel: int) -> tuple[dict[str, Any] | None, bool]:
    """Reap children that have ended; return how the kernel did, if it is among them, and whether any child is left."""
    end = None
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return end, False
        if pid == 0:
            return end, True
        if pid == kernel:
            cpu = usage.ru_utime + usage.ru_stime
            end = {
                "exit": os.waitstatus_to_exitcode(status),
                "cpu_seconds": cpu,
                "peak_rss_bytes": usage.ru_maxrss * 1024,
            }


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        control.send(json.dumps(message).encode())


def end_tree() -> NoReturn:
    """Kill everything below this process that may be killed, looking again until nothing of it is left, and exit."""
    deadline = time.monotonic() + _END_SECONDS
    has_killed = True
    # What has become another user's (sudo) lives on, and there is no point in waiting for it.
    while has_killed and time.monotonic() < deadline:
        has_killed = False
        # The newest first: in a chain of processes that fork on, the last one must not get ahead.
        for pid in sorted(descendants(os.getpid()), reverse=True):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                has_killed = True
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(_ROUND_SECONDS)
    os._exit(0)


def descendants(pid: int) -> set[int]:
    """Return the ids of all processes below ``pid``, zombies included."""
    list_children = children if os.path.exists(f"/proc/{pid}/task/{pid}/children") else _list_by_scan()  # noqa: PTH110
    found: set[int] = set()
    new = [pid]
    while new:
        below = [child for parent in new for child in list_children(parent) if child not in found]
        found.update(below)
        new = below
    return found


def children(pid: int) -> list[int]:
    """Return the ids of a process's children, of whichever thread (``/proc/PID/task/*/children``, proc(5))."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names only
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    return found


def _list_by_scan() -> Callable[[int], list[int]]:
    """Return what lists children on a kernel without such lists (``CONFIG_PROC_CHILDREN``), as of one scan."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                found.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    return lambda pid: found.get(pid, [])


if __name__ == "__main__":
    main()
