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
KERNEL_MODULES = ("ipykernel.debugger", "IPython.core.completerlib", "IPython.extensions.storemagic", "sqlite3")
"""
What ipykernel loads while a kernel starts, and not when it is imported.

Nothing else may be loaded here: a lecture that forgot an import would pass, and memory would be charged to nobody.
"""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_ENV_START_FIELD = 48
"""``env_start`` of ``/proc/self/stat``, counted from the process's state, which is 1; see proc(5)."""
_END_SECONDS = 30.0
_ROUND_SECONDS = 0.002

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
    from ipykernel import kernelapp  # noqa: PLC0415 - only in the server itself, never in the session

    for name in KERNEL_MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if threading.active_count() > 1:
        # A fork would leave the other threads' locks taken for ever; the session starts kernels in another way.
        sys.exit("a module of ipykernel started a thread")
    gc.collect()
    # Objects that are never looked at by the collector again keep the pages that they share with the server.
    gc.freeze()
    # Supervisors are not waited for: they report to the session.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # What ipykernel sets while it is imported (PYDEVD_USE_FRAME_EVAL) belongs to the environment of every kernel.
    added = {name: value for name, value in os.environ.items() if given.get(name) != value}
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        is_kernel = serve(requests, added)
    if is_kernel:
        # On the server's own stack, so that the interpreter ends as that of any kernel does, exit handlers included.
        # ipykernel has read the variable of this name when it was imported, which was before the supervisor existed.
        kernelapp.launch_new_instance(parent_handle=int(os.environ["JPY_PARENT_PID"]))


def serve(requests: socket.socket, added: dict[str, str]) -> bool:
    """
    Fork a supervisor for each request; return True in a forked kernel, and False when the session has ended.

    Args:
        requests: the socket to the session.
        added: variables that forked kernels have beside those of their request.
    """
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, MOST_DESCRIPTORS)
        except OSError:
            return False
        if not data:
            return False
        if os.fork() == 0:
            requests.close()
            request = json.loads(data)
            if request["is_forked"]:
                request["env"] |= added
            return supervise(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def supervise(request: dict[str, Any], descriptors: list[int]) -> Literal[True]:
    """
    Start the kernel of a request and stay with it; return in the forked kernel only.

    Args:
        request: ``argv``, ``cwd`` and ``env`` of the kernel; ``is_forked`` says that the kernel is ipykernel in this
            interpreter, so that it need not be executed.
        descriptors: the control socket, the kernel's output, and descriptors that the kernel keeps.
    """
    control, output, kept = socket.socket(fileno=descriptors[0]), descriptors[1], descriptors[2:]
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    supervisor = os.getpid()
    try:
        # Here, where a folder that is not there can still be reported.
        os.chdir(request["cwd"])
        kernel = os.fork() if request["is_forked"] else _execute(request, output, kept, supervisor)
    except OSError as exc:
        _refuse(control, exc)
    if kernel == 0:
        # Its number will belong to another file, which must not be closed with this object.
        control.detach()
        become_kernel(request, output, kept, supervisor)
        return True
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The kernel has a session of its own; whatever is sent to this process is not for it.
        signal.signal(number, signal.SIG_IGN)
    os.close(output)
    return _watch(control, kernel)


def _refuse(control: socket.socket, exc: OSError) -> NoReturn:
    with contextlib.suppress(OSError):
        control.send(json.dumps({"errno": exc.errno, "path": os.fsdecode(exc.filename or "")}).encode())
    os._exit(0)


def _execute(request: dict[str, Any], output: int, kept: list[int], supervisor: int) -> int:
    environment = {**request["env"], "JPY_PARENT_PID": str(supervisor)}
    # The process is known by its number alone: this object must not wait for it.
    process = subprocess.Popen(  # noqa: S603 - the command of an installed kernelspec
        request["argv"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=kept,
        start_new_session=True,
        preexec_fn=lambda: _die_with(supervisor),  # noqa: PLW1509 - there is one thread
    )
    process.returncode = 0
    return process.pid


def _die_with(supervisor: int) -> None:
    """Have the kernel killed when its supervisor is, so that no kernel runs on unsupervised."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)


def become_kernel(request: dict[str, Any], output: int, kept: list[int], supervisor: int) -> None:
    """Turn this fork of the server into what executing the kernel's command would have made."""
    os.setsid()
    _die_with(supervisor)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    # Everything else is closed but for what the kernel keeps.
    # By their list: the limit on descriptors can be a billion, and an old C library would close each of them.
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
        descriptor = int(name)
        if descriptor in kept:
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - its only parameter
        elif descriptor > 2:  # noqa: PLR2004 - stderr
            with contextlib.suppress(OSError):
                os.close(descriptor)
    environment = {**request["env"], "JPY_PARENT_PID": str(supervisor)}
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    _write_environment_block(environment)
    argv = request["argv"]
    sys.argv[:] = [request["program"], *argv[argv.index("-m") + 2 :]]
    sys.orig_argv[:] = argv
    gc.unfreeze()


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


def _watch(control: socket.socket, kernel: int) -> NoReturn:
    """Report the kernel's end, and end with the last process of its tree or with the session."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    # After the handler stands: an end before it raised no wake-up.
    _send(control, {"supervisor": os.getpid(), "kernel": kernel})
    end: dict[str, Any] | None = None
    while True:
        reaped, has_children = _reap(kernel)
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
            # The session sends nothing: its end of the socket has closed.
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
            end = {"exit": os.waitstatus_to_exitcode(status), "cpu_seconds": cpu}


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        control.send(json.dumps(message).encode())


def end_tree() -> NoReturn:
    """Kill everything below this process, looking again until nothing is left, and exit."""
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        # The newest first: in a chain of processes that fork on, the last one must not get ahead.
        for pid in sorted(descendants(os.getpid()), reverse=True):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
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
