"""A kernel with all that is attached to it: client, probe, agent. Made together, torn down together."""

from __future__ import annotations

import asyncio
import functools
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import zmq.asyncio

from pytest_lecturecheck.kernel.agent import core as agent
from pytest_lecturecheck.kernel.agent import device_agent as agent_devices
from pytest_lecturecheck.kernel.messages.client import LectureClient, Reply
from pytest_lecturecheck.kernel.messages.crash_record import CrashRecord, read_crash_record
from pytest_lecturecheck.kernel.messages.stack import Stack, StackOffer, ask_stack, parse_stack
from pytest_lecturecheck.kernel.process.cap import Cap, automatic_cap, watch
from pytest_lecturecheck.kernel.process.cgroup import make_group
from pytest_lecturecheck.kernel.process.launch import Kernel, KernelNeed, start_kernel
from pytest_lecturecheck.kernel.process.scope import start_scope
from pytest_lecturecheck.kernel.process.teardown import Leftover, kill_now, kill_tree, wait_exit
from pytest_lecturecheck.kernel.run.ports import Ports, RunPlan
from pytest_lecturecheck.model.evidence import KernelExit, OomKill
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.probe import RUN_LECTURE_VARIABLE, DeviceProbe, Probe
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT

_AGENT_SECONDS: Final = 10.0
_EXIT_SECONDS: Final = 10.0
"""Exit handlers take milliseconds, on a busy machine seconds; a keeper takes its time to notice the end."""
_AGENT_NAME: Final = "get_ipython().kernel.lecturecheck_agent"


class KernelSession:
    """
    One kernel under way.

    Args:
        kernel: the process and its connection.
        client: sends cells and handles what comes back.
        probe: measures.
        cap: the limit on its memory, or ``None``.

    Attributes:
        kernel: the process and its connection.
        client: sends cells and handles what comes back.
        probe: measures.
        cap: the limit on its memory, or ``None``.
        device_probe: measures the GPUs, or ``None``.
        devices_since: when that began, of ``time.perf_counter``.
        stopped_at_cap: whether the watchdog has killed it.
        has_agent: whether the agent answers inside the kernel.
        request_count: requests that the agent has counted, so that its words can be matched with cells.
        stack_taken: whether the lecture uses the signal that asks for the stack.
    """

    def __init__(self, kernel: Kernel, client: LectureClient, probe: Probe, cap: Cap | None = None) -> None:
        """Hold what :func:`launch` made."""
        self.kernel = kernel
        self.client = client
        self.probe = probe
        self.cap = cap
        self.device_probe: DeviceProbe | None = None
        self.devices_since = time.perf_counter()
        self.stopped_at_cap = False
        self._stack_offer: StackOffer | None = None
        self._watchdog: asyncio.Task[None] | None = None
        self._oom_before: Any = None
        self.has_agent = False
        self.request_count = 0
        self.stack_taken = False

    @property
    def has_ended(self) -> bool:
        """Tell whether the kernel's process has ended."""
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
        )

    @property
    def lost_a_port(self) -> bool:
        """Tell whether the kernel ended because another process was quicker to bind one of its ports."""
        return self.has_ended and any("Address already in use" in line for line in self.kernel.provisioner.stderr_tail)

    def watch_cap(self, ports: Ports) -> None:
        """Take note of the counters of OOM kills, and have the footprint watched from now on if there is a cap."""
        self._oom_before = ports.oom_counters(self._group_folder)
        if self.cap is not None:
            watching = watch(self.cap, self.probe, ports.available_memory, self.stop, self._has_left_group)
            self._watchdog = asyncio.ensure_future(watching)

    def _has_left_group(self) -> bool:
        group = self.kernel.group
        return group is not None and not self.has_ended and group.has_lost(self.kernel.pid)

    def stop(self) -> None:
        """Kill it because of its memory."""
        self.stopped_at_cap = True
        kill_now(self.kernel)

    def oom_kills(self, ports: Ports) -> tuple[OomKill, ...]:
        """Give the OOM kills that were counted since the kernel's start."""
        return ports.compare_oom(self._oom_before, ports.oom_counters(self._group_folder))

    @property
    def _group_folder(self) -> Path | None:
        return self.kernel.group.folder if self.kernel.group is not None else None

    async def connect(self, limit_seconds: float) -> None:
        """
        Wait until the kernel is ready, and install the agent where it can run.

        Raises:
            TimeoutError: it was not ready in time.
            KernelStartError: it ended before it was ready.
        """
        await self.client.connect(limit_seconds)
        if self.kernel.language == "python":
            reply = await self.ask(_agent_code(self.kernel.folder))
            self.has_agent = reply is not None and reply.status == "ok"
            # No other request says this: what a lecture says of signals is not believed.
            self._stack_offer = reply.payload.get("stack_offer") if reply is not None else None

    def last_words(self) -> CrashRecord | None:
        """Read what the agent has written down last; works while the kernel runs and after its end."""
        return read_crash_record(self._folder / agent.CRASH_RECORD_FILE)

    async def stack(self, cell_number: int) -> Stack:
        """Ask a running kernel for its Python stack; empty where none can be had."""
        if self._stack_offer is None or self.stack_taken or self.has_ended:
            return Stack()
        text = await ask_stack(self.kernel.pid, self._stack_offer, self._folder / agent.STACK_FILE)
        return parse_stack(text, cell_number)

    @property
    def _folder(self) -> Path:
        return Path(self.kernel.folder)

    async def ask(self, code: str, seconds: float = _AGENT_SECONDS) -> Reply | None:
        """Run ``code`` silently, outside the lecture's history; ``None`` where no answer came within ``seconds``."""
        self.request_count += 1
        return await self.client.ask(code, seconds)

    async def leave(self) -> tuple[Software | None, str]:
        """
        Ask what ran in the kernel, then let its exit handlers run and the process end by itself; bounded.

        Returns:
            What ran, or ``None``; and what went wrong at the end, or an empty string.
        """
        if not self.has_agent or self.has_ended:
            return None, ""
        reply = await self.ask(f"{_AGENT_NAME}.ask_software()")
        words = reply.payload.get("software") if reply is not None else None
        self.client.send(f"{_AGENT_NAME}.leave()")
        has_left = await wait_exit(self.kernel, _EXIT_SECONDS)
        return (_software(words) if isinstance(words, dict) else None), self._bad_end(has_left=has_left)

    def _bad_end(self, *, has_left: bool) -> str:
        if not has_left:
            return f"the exit handlers of the kernel did not end within {_EXIT_SECONDS:g} s; it was killed"
        end = self.exit
        if text := self.kernel.provisioner.end.text:
            return text
        if end.signal is not None:
            return f"the kernel was ended by signal {end.signal} after the last cell, while its exit handlers ran"
        if end.exit_code:
            return f"the kernel ended with exit code {end.exit_code} after the last cell"
        return ""

    async def tear_down(self, ports: Ports) -> tuple[Leftover, ...]:
        """Kill whatever is left of the kernel and what came from it, and remove its files."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        if not self.has_ended:
            ports.note_killed(self.kernel.token)
        leftovers = await kill_tree(self.kernel, ports.find_marked)
        self.client.disconnect()
        self.kernel.remove_files()
        if ports.warden is not None:
            ports.warden.remove(self.kernel.token)
        return leftovers


async def launch(
    plan: RunPlan,
    ports: Ports,
    context: zmq.asyncio.Context,
    *,
    cwd: Path,
    document: Any,
    on_queue: Callable[[str], None] = lambda _: None,
) -> KernelSession:
    """
    Start a kernel's process and attach client and probe; it is not ready yet.

    Args:
        plan: the run.
        ports: what it needs.
        context: sockets.
        cwd: the kernel's folder.
        document: the notebook that outputs go to.
        on_queue: see :func:`~pytest_lecturecheck.kernel.process.launch.start_kernel`.

    Raises:
        KernelStartError: the kernelspec is not installed, or its program is missing.
    """
    token = secrets.token_hex(8)
    spec_name = plan.settings.kernel_name or plan.lecture.kernel_name
    # A lone surrogate in a file's name has no other form in an environment.
    environment = {**plan.environment, RUN_LECTURE_VARIABLE: plan.shown_name.encode(errors="replace").decode()}
    kernel = await start_kernel(
        spec_name,
        context=context,
        cwd=cwd,
        token=token,
        extra_env=environment,
        pass_fds=plan.pass_fds,
        launcher=ports.launcher,
        on_queue=on_queue,
        need=KernelNeed(lecture=plan.lecture.name, memory_bytes=plan.memory_bytes, gpu=plan.settings.gpu),
    )
    cap = _set_cap(plan, ports, kernel)
    if ports.warden is not None:
        folders = [kernel.folder] + ([str(cwd)] if plan.settings.run_in_temp else [])
        group = str(kernel.group.folder) if kernel.group is not None else None
        ports.warden.add(token, pid=kernel.pid, folders=folders, group=group)
    attached = KernelSession(kernel, LectureClient(document, kernel), _open_probe(ports, kernel), cap)
    if kernel.location.is_here:
        attached.devices_since = time.perf_counter()
        attached.device_probe = ports.open_device_probe(kernel.pid, token)
    attached.watch_cap(ports)
    return attached


def _open_probe(ports: Ports, kernel: Kernel) -> Probe:
    if not kernel.location.is_here and ports.open_remote_probe is not None:
        return ports.open_remote_probe()
    read_group = kernel.group.footprint_bytes if kernel.group is not None else None
    return ports.open_probe(kernel.pid, kernel.token, read_group)


def _set_cap(plan: RunPlan, ports: Ports, kernel: Kernel) -> Cap | None:
    """Work out the run's cap, and put the kernel into a memory group that holds it where that is allowed."""
    setting = plan.settings.memory_cap_bytes
    held = kernel.provisioner.launch
    if held.memory_bytes is not None:
        # Moved into a group of ours, the kernel would escape that limit and its accounting.
        return Cap(limit_bytes=held.memory_bytes, is_chosen=setting not in {None, AUTOMATIC_CAP}, holder=held.holder)
    if setting is None or setting == NO_LIMIT:
        return None
    is_chosen = setting != AUTOMATIC_CAP
    limit = round(setting) if is_chosen else automatic_cap(plan.machine.usable_memory_bytes, ports.available_memory())
    group = make_group(kernel.token, limit)
    if group is not None and not group.add(kernel.pid):
        group.remove()
        group = None
    kernel.group = group or start_scope(kernel.token, kernel.pid, limit)
    return Cap(limit_bytes=limit, group=kernel.group, is_chosen=is_chosen)


def _agent_code(folder: str) -> str:
    source, device_source = (_source(module.__file__) for module in (agent, agent_devices))
    install = f"Agent(shell, {folder!r}, {device_source!r}).install()"
    return (
        f"exec(compile({source + install!r}, '<lecturecheck agent>', 'exec'), "
        "{'__name__': 'lecturecheck_agent', 'shell': get_ipython()})"
    )


@functools.cache
def _source(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _software(words: dict[str, Any]) -> Software:
    packages = words.get("packages", {})
    return Software(
        python=str(words.get("python", "")),
        packages={str(name): str(version) for name, version in packages.items()},
        blas=tuple(str(line) for line in words.get("blas", [])),
    )
