"""Start the kernel of one run with everything attached to it, and tear it down again."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import zmq.asyncio

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.files import remove_tree
from pytest_lecturecheck.kernel.launchers.port import Launch
from pytest_lecturecheck.kernel.messages.client import LectureClient
from pytest_lecturecheck.kernel.process.cap import Cap, automatic_cap
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup, make_group
from pytest_lecturecheck.kernel.process.launch import Kernel, KernelNeed, make_shared_folder, start_kernel
from pytest_lecturecheck.kernel.process.scope import start_scope
from pytest_lecturecheck.kernel.process.teardown import Leftover
from pytest_lecturecheck.kernel.run.kernel_probes import open_kernel_probes
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.oom_watch import OomWatch
from pytest_lecturecheck.kernel.run.ports import Ports, RunPlan
from pytest_lecturecheck.kernel.run.spare_kernels import SpareKernel
from pytest_lecturecheck.model.probe import RUN_LECTURE_VARIABLE
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT

_START_TRIES: Final = 2


class KernelStarter:
    """
    Starts and tears down the kernel of one run.

    Args:
        plan: the run.
        ports: access to the machine.
        context: zmq context of the sockets.
        document: the notebook that receives outputs.
        on_queue: see :func:`~pytest_lecturecheck.kernel.process.launch.start_kernel`.
    """

    def __init__(
        self,
        plan: RunPlan,
        ports: Ports,
        context: zmq.asyncio.Context,
        *,
        document: Any,
        on_queue: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start nothing yet."""
        self._plan = plan
        self._ports = ports
        self._context = context
        self._document = document
        self._on_queue = on_queue
        self._temp_folder: tempfile.TemporaryDirectory[str] | None = None
        self.session: KernelSession | None = None
        """The kernel that was launched last, from its launch on."""
        self.has_started_again = False
        """Whether the first kernel lost a port to another process."""

    @property
    def folder(self) -> Path:
        """Return the kernel's working folder; a temporary one is created at the first call."""
        if not self._plan.settings.run_in_temp:
            return self._plan.lecture.path.parent
        if self._temp_folder is None:
            shared = make_shared_folder(self._ports.launcher)
            self._temp_folder = tempfile.TemporaryDirectory(prefix="lc-run-", dir=shared, ignore_cleanup_errors=True)
        return Path(self._temp_folder.name)

    async def start(self, launch: Callable[[], Awaitable[KernelSession]], limit_seconds: float) -> KernelSession:
        """
        Start a kernel that is ready for its first cell.

        Ports are picked before they are bound. If another process is quicker, the start is repeated once.

        Args:
            launch: calls :meth:`launch` and does what the caller needs to do after each launch.
            limit_seconds: time for the kernel to become ready.

        Raises:
            TimeoutError: it was not ready in time.
            KernelStartError: it could not be started, or ended before it was ready.
        """
        for try_number in range(1, _START_TRIES + 1):
            session = await launch()
            try:
                await session.connect(limit_seconds)
            except KernelStartError:
                if not session.lost_a_port or try_number == _START_TRIES:
                    raise
                session.probe.close()
                await self.tear_down(session)
                self.session, self.has_started_again = None, True
            else:
                return session
        msg = "the last try raises or returns"
        raise AssertionError(msg)

    async def launch(self) -> KernelSession:
        """
        Start the kernel's process and attach client and probes; it is not ready yet.

        Raises:
            KernelStartError: the kernelspec is not installed, its program is missing, or no kernel was launched.
        """
        ports = self._ports
        has_cap = self._plan.settings.memory_cap_bytes not in {None, NO_LIMIT}
        spare = await ports.spares.take(has_cap=has_cap) if ports.spares is not None else None
        try:
            return await self._launch(spare)
        except BaseException:
            if spare is not None and ports.spares is not None:
                ports.spares.drop(spare, keeps_token=False)
            raise

    async def _launch(self, spare: SpareKernel | None) -> KernelSession:
        plan, ports = self._plan, self._ports
        token = spare.token if spare is not None else secrets.token_hex(8)
        # An environment cannot hold a lone surrogate of a file's name.
        name = plan.shown_name.encode(errors="replace").decode()
        cap: Cap | None = None

        def plan_cap(launch: Launch) -> MemoryGroup | None:
            nonlocal cap
            cap = self._plan_cap(token, launch)
            return cap.group if cap is not None else None

        try:
            kernel = await start_kernel(
                plan.settings.kernel_name or plan.lecture.kernel_name,
                context=self._context,
                cwd=self.folder,
                token=token,
                extra_env={**plan.environment, RUN_LECTURE_VARIABLE: name},
                pass_fds=plan.pass_fds,
                launcher=ports.launcher,
                on_queue=self._on_queue,
                need=KernelNeed(lecture=plan.lecture.name, memory_bytes=plan.memory_bytes, gpu=plan.settings.gpu),
                make_group=plan_cap,
                spare=spare.process if spare is not None else None,
                # The first kernel waits for its server; a session that is killed meanwhile leaves nothing either.
                on_files=lambda folder, group: self._register(token, folder, group),
            )
        except BaseException:
            if ports.reaper is not None:
                ports.reaper.remove(token)
            raise
        if spare is not None and ports.spares is not None and kernel.provisioner.popen is not spare.process.process:
            # For a kernel of another environment, or with another memory group.
            ports.spares.drop(spare, keeps_token=True)
        cap = self._put_in_group(cap, kernel)
        self._register(token, kernel.folder, kernel.group, kernel)
        client = LectureClient(self._document, kernel, keep_outputs=plan.on_executed is not None)
        probes = open_kernel_probes(ports.probes, kernel)
        self.session = KernelSession(kernel, client, probes, cap, OomWatch(ports.oom, kernel))
        self.session.watch_cap(ports.host.available_bytes)
        return self.session

    def _register(self, token: str, folder: str, group: MemoryGroup | None, kernel: Kernel | None = None) -> None:
        if self._ports.reaper is None:
            return
        folders = [folder] + ([str(self.folder)] if self._plan.settings.run_in_temp else [])
        self._ports.reaper.add(
            token,
            pid=kernel.pid if kernel is not None else 0,
            folders=folders,
            group=str(group.folder) if group is not None else None,
            supervisor_pid=kernel.supervisor_pid if kernel is not None else None,
        )

    def _plan_cap(self, token: str, launch: Launch) -> Cap | None:
        """Determine the memory limit of the run, and make its memory group if that is permitted."""
        setting = self._plan.settings.memory_cap_bytes
        if launch.memory_bytes is not None:
            # In a group of ours the kernel would escape the scheduler's limit and accounting.
            is_chosen = setting not in {None, AUTOMATIC_CAP}
            return Cap(limit_bytes=launch.memory_bytes, is_chosen=is_chosen, holder=launch.holder)
        if setting is None or setting == NO_LIMIT:
            return None
        is_chosen = setting != AUTOMATIC_CAP
        limit = round(setting)
        if not is_chosen:
            limit = automatic_cap(self._plan.machine.usable_memory_bytes, self._ports.host.available_bytes())
        return Cap(limit_bytes=limit, group=make_group(token, limit), is_chosen=is_chosen)

    @staticmethod
    def _put_in_group(cap: Cap | None, kernel: Kernel) -> Cap | None:
        """Move a kernel that could not join its memory group by itself; return the cap as it is in force."""
        if cap is None or cap.holder:
            return cap
        group = cap.group
        if group is not None and not kernel.provisioner.is_in_group and not group.add(kernel.pid):
            group.remove()
            group = None
        kernel.group = group or start_scope(kernel.token, kernel.pid, cap.limit_bytes)
        return replace(cap, group=kernel.group)

    async def tear_down(self, session: KernelSession) -> tuple[Leftover, ...]:
        """Kill what is left of a kernel, remove its files, and return the processes of the lecture that were killed."""
        token = session.kernel.token
        if not session.has_ended:
            self._ports.probes.note_killed(token)
        leftovers = await session.tear_down(self._ports.leftovers.find_marked)
        if self._ports.reaper is not None:
            self._ports.reaper.remove(token)
        return leftovers

    def remove_folder(self) -> None:
        """Remove the temporary working folder, if there is one."""
        if self._temp_folder is not None:
            remove_tree(self._temp_folder.name)
            self._temp_folder.cleanup()
