"""A running kernel with everything attached to it: client, probes, agent, memory limit."""

from __future__ import annotations

import asyncio
import functools
import marshal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import zmq

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.agent import core as agent
from pytest_lecturecheck.kernel.messages.cell_files import CellFiles
from pytest_lecturecheck.kernel.messages.client import LectureClient
from pytest_lecturecheck.kernel.messages.crash_record import CrashRecord, read_crash_record
from pytest_lecturecheck.kernel.messages.request import Reply
from pytest_lecturecheck.kernel.messages.stack import Stack, StackOffer, ask_stack, parse_stack
from pytest_lecturecheck.kernel.process.cap import Cap, watch
from pytest_lecturecheck.kernel.process.launch import Kernel
from pytest_lecturecheck.kernel.process.teardown import (
    GRACE_SECONDS,
    FindMarked,
    Leftover,
    kill_kernel,
    kill_now,
    kill_tree,
    wait_exit,
)
from pytest_lecturecheck.kernel.run.agent_source import agent_source, module_code, module_source
from pytest_lecturecheck.kernel.run.kernel_probes import KernelProbes
from pytest_lecturecheck.kernel.run.oom_watch import OomWatch
from pytest_lecturecheck.model.evidence import KernelExit, WatchdogStop
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.probe import Probe

_AGENT_SECONDS: Final = 10.0
_EXIT_SECONDS: Final = 10.0
"""Exit handlers take milliseconds, on a busy machine seconds; a keeper needs time to notice the end."""
_REPORT_SECONDS: Final = 5.0
"""Time for a supervisor that was stopped to report the end of its kernel."""
_SHUTDOWN_SECONDS: Final = 1.0
"""Time after each step of a shutdown; kernels made with ipykernel often hang in it."""
_HELPER_SECONDS: Final = 1.0
"""Time for the helper processes of a kernel of another language to end after it."""
_AGENT_MODULES: Final = (
    "device_agent",
    "import_watch",
    "installed_packages",
    "kernel_exit",
    "line_numbers",
    "line_sampling",
    "live_buffers",
    "output_flushing",
    "replies",
    "software_report",
    "sparse_watch",
)
_ALWAYS_LOADED: Final = (
    *("import_watch", "kernel_exit", "line_sampling", "output_flushing", "replies", "software_report"),
)
_AGENT_FILE: Final = "<lecturecheck agent>"
_COMPILED_AGENT: Final = "agent"
"""Name of the compiled agent's file in the kernel's private folder."""
_LOAD_AGENT: Final = """
import marshal
with open(path, "rb") as file:
    code, sources = marshal.load(file)
agent = {"__name__": "lecturecheck_agent"}
exec(code, agent)
agent["Agent"](shell, folder, sources).install()
"""
_AGENT_NAME: Final = "get_ipython().kernel.lecturecheck_agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFarewell:
    """
    The end of a kernel after its last cell.

    Attributes:
        software: what ran inside it, or ``None`` if it could not be asked.
        lost_tasks: errors of asyncio tasks that the lecture holds and never awaited.
        fault: what went wrong at the end, or an empty string.
    """

    software: Software | None = None
    lost_tasks: tuple[str, ...] = ()
    fault: str = ""


class KernelSession:
    """
    One running kernel.

    Args:
        kernel: the process and its connection.
        client: sends cells and handles their output.
        probes: measure the kernel.
        cap: the limit on its memory, or ``None``.
        oom: counts OOM kills since its start.

    Attributes:
        probe: measures the kernel's processes.
        watchdog_stop: why the watchdog has killed it, or ``None``.
        has_agent: whether the agent answers inside the kernel.
        request_count: requests that the agent has counted, to match its payloads with cells.
        stack_taken: whether the lecture uses the signal that dumps the stack.
    """

    def __init__(
        self, kernel: Kernel, client: LectureClient, probes: KernelProbes, cap: Cap | None, oom: OomWatch
    ) -> None:
        """Attach nothing yet; see :meth:`connect` and :meth:`watch_cap`."""
        self.kernel = kernel
        self.client = client
        self.probes = probes
        self.cap = cap
        self.oom = oom
        self.watchdog_stop: WatchdogStop | None = None
        self._stack_offer: StackOffer | None = None
        self._watchdog: asyncio.Task[None] | None = None
        self.has_agent = False
        self.request_count = 0
        self.stack_taken = False

    @property
    def probe(self) -> Probe:
        """Return the probe of the kernel's processes."""
        return self.probes.memory

    @property
    def has_own_interpreter(self) -> bool:
        """Return True if the kernel was forked, so that it runs what this interpreter has compiled."""
        supervised = self.kernel.provisioner.supervised
        return supervised is not None and supervised.is_forked

    @property
    def has_ended(self) -> bool:
        """Return True if the kernel's process has ended."""
        return self.kernel.provisioner.ended.done()

    @property
    def exit(self) -> KernelExit:
        """Return how the process ended, with the last lines of its stderr."""
        end = self.kernel.provisioner.end
        return KernelExit(
            exit_code=end.exit_code,
            signal=end.signal,
            stderr_tail=self.kernel.provisioner.stderr_tail,
            stderr_earlier_count=self.kernel.provisioner.stderr_earlier_count,
            lost_supervisor=self.kernel.provisioner.has_lost_supervisor,
        )

    @property
    def lost_a_port(self) -> bool:
        """Return True if the kernel ended because another process had bound one of its ports."""
        return self.has_ended and any("Address already in use" in line for line in self.kernel.provisioner.stderr_tail)

    def watch_cap(self, available_memory: Callable[[], int | None], probe: Probe | None = None) -> None:
        """Start the watchdog over the kernel's footprint if there is a limit; another probe takes over the watch."""
        if self.cap is not None:
            if self._watchdog is not None:
                self._watchdog.cancel()
            watching = watch(self.cap, probe or self.probe, available_memory, self.stop, self._has_left_group)
            self._watchdog = asyncio.ensure_future(watching)

    def _has_left_group(self) -> bool:
        group = self.kernel.group
        return group is not None and not self.has_ended and group.has_lost(self.kernel.pid)

    def stop(self, why: WatchdogStop) -> None:
        """Kill the kernel because of its memory."""
        self.watchdog_stop = self.watchdog_stop or why
        kill_now(self.kernel)

    async def connect(self, limit_seconds: float) -> None:
        """
        Wait until the kernel is ready, and install the agent in Python kernels.

        Raises:
            TimeoutError: it was not ready in time.
            KernelStartError: it ended before it was ready.
        """
        await self.client.connect(limit_seconds)
        if self.kernel.language == "python":
            reply = await self.ask(self._agent_code())
            self.has_agent = reply is not None and reply.status == "ok"
            # Only this reply is trusted with it: a lecture could forge the payload of later ones.
            self._stack_offer = reply.payload.get("stack_offer") if reply is not None else None

    def crash_record(self) -> CrashRecord | None:
        """Read the agent's last saved state; works while the kernel runs and after its end."""
        return read_crash_record(self._folder / agent.CRASH_RECORD_FILE)

    async def stack(self, cells: CellFiles) -> Stack:
        """Return the Python stack of a running kernel; empty if it cannot be read."""
        if self._stack_offer is None or self.stack_taken or self.has_ended:
            return Stack()
        text = await ask_stack(self.kernel.pid, self._stack_offer, self._folder / agent.STACK_FILE)
        return parse_stack(text, cells)

    def _agent_code(self) -> str:
        """Return the code that installs the agent; a kernel of this interpreter gets it compiled, in a file."""
        folder = self.kernel.folder
        if not self.has_own_interpreter:
            return _agent_code(folder)
        path = self._folder / _COMPILED_AGENT
        path.write_bytes(_compiled_agent())
        return f"exec({_LOAD_AGENT!r}, {{'path': {str(path)!r}, 'folder': {folder!r}, 'shell': get_ipython()}})"

    @property
    def _folder(self) -> Path:
        return Path(self.kernel.folder)

    async def ask(self, code: str, seconds: float | None = _AGENT_SECONDS) -> Reply | None:
        """
        Run ``code`` silently, outside the lecture's history; return ``None`` if no answer comes in time.

        ``None`` for ``seconds`` sets no limit.
        """
        self.request_count += 1
        return await self.client.ask(code, seconds)

    async def software(self) -> Software | None:
        """Return what ran inside a kernel that goes on after a failed cell; ``None`` if it does not answer in time."""
        if not self.has_agent or self.has_ended:
            return None
        reply = await self.ask(f"{_AGENT_NAME}.ask_software()")
        found = reply.payload.get("software") if reply is not None else None
        return _software(found) if isinstance(found, dict) else None

    async def leave(self) -> KernelFarewell:
        """
        Ask for the software of the kernel, then let it run its exit handlers and end; bounded.

        Kernels without the agent are left alone.
        """
        if not self.has_agent or self.has_ended:
            return KernelFarewell()
        reply = await self.ask(f"{_AGENT_NAME}.ask_software()")
        if reply is None:
            fault = f"the kernel did not answer within {_AGENT_SECONDS:g} s after the last cell; it was killed"
            return KernelFarewell(fault=self._bad_end(has_left=True) or fault)
        payload = reply.payload
        software = payload.get("software")
        self.client.send(f"{_AGENT_NAME}.leave()")
        has_left = await wait_exit(self.kernel, _EXIT_SECONDS)
        if not has_left and self.kernel.ask_for_end():
            has_left = await wait_exit(self.kernel, _REPORT_SECONDS)
        return KernelFarewell(
            software=_software(software) if isinstance(software, dict) else None,
            lost_tasks=payload.get("lost_tasks", ()),
            fault=self._bad_end(has_left=has_left),
        )

    async def request_shutdown(self) -> None:
        """
        End a kernel without the agent as jupyter_client does: by a request, then by a signal; bounded.

        Kernels of other languages have helper processes (a shell, an interpreter) that end with them, so the whole run
        is not killed at once.
        """
        with suppress(OSError, RuntimeError, zmq.ZMQError):
            if not self.has_ended:
                await self.kernel.manager.request_shutdown()
        signals: tuple[Callable[[], None] | None, ...] = (
            None,
            self.kernel.provisioner.terminate_process,
            functools.partial(kill_kernel, self.kernel),
        )
        for send in signals:
            if self.has_ended or not self.kernel.location.is_here:
                return
            if send is not None:
                send()
            await wait_exit(self.kernel, _SHUTDOWN_SECONDS)

    def _bad_end(self, *, has_left: bool) -> str:
        if not has_left:
            return f"the exit handlers of the kernel did not end within {_EXIT_SECONDS:g} s; it was killed"
        end = self.exit
        if end.lost_supervisor:
            return "the kernel was killed after the last cell, together with its supervisor, which somebody killed"
        if text := self.kernel.provisioner.end.text:
            return text
        if end.signal is not None:
            return f"the kernel was ended by signal {end.signal} after the last cell, while its exit handlers ran"
        if end.exit_code:
            return f"the kernel ended with exit code {end.exit_code} after the last cell"
        return ""

    async def tear_down(self, find_marked: FindMarked) -> tuple[Leftover, ...]:
        """Kill what is left of the kernel and its processes, and remove its files; return the other processes."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        grace_seconds = GRACE_SECONDS if self.has_agent else _HELPER_SECONDS
        leftovers = await kill_tree(self.kernel, self._with_known(find_marked), grace_seconds=grace_seconds)
        self.client.disconnect()
        self.kernel.remove_files()
        return leftovers

    def _with_known(self, find_marked: FindMarked) -> FindMarked:
        """Add processes that were seen below a supervisor that was killed: its server may have been killed as well."""
        snapshot = self.probe.snapshot()
        known = snapshot.other_pids if snapshot is not None else ()
        if not known or not self.kernel.provisioner.has_lost_supervisor:
            return find_marked
        return lambda token: {*find_marked(token), *filter(self.kernel.has_descended, known)}


def _agent_code(folder: str) -> str:
    sources = {name: agent_source(name) for name in _AGENT_MODULES}
    install = f"Agent(shell, {folder!r}, {sources!r}).install()"
    return (
        f"exec(compile({module_source('core') + install!r}, '{_AGENT_FILE}', 'exec'), "
        "{'__name__': 'lecturecheck_agent', 'shell': get_ipython()})"
    )


@functools.cache
def _compiled_agent() -> bytes:
    """Return the agent for kernels of this interpreter; compiling it would take a tenth of a kernel's start."""
    sources: dict[str, Any] = {name: agent_source(name) for name in _AGENT_MODULES}
    for name in _ALWAYS_LOADED:
        sources[name] = module_code(name, agent.module_file(name))
    return marshal.dumps((module_code("core", _AGENT_FILE), sources))


def _software(payload: dict[str, Any]) -> Software:
    packages = payload.get("packages", {})
    return Software(
        python=str(payload.get("python", "")),
        packages={str(name): str(version) for name, version in packages.items()},
        variables={str(name): str(value) for name, value in payload.get("variables", {}).items()},
        distributions={str(name): str(found) for name, found in payload.get("distributions", {}).items()},
        blas=tuple(str(line) for line in payload.get("blas", [])),
    )
