"""
Prepare the process of the next kernel while the last one ends, which leaves a core idle.

Nothing is measured after the last cell of a lecture, and nothing before the first cell of the next one. The process has
nothing of a lecture yet: it is the fork of a server that has joined a memory group and holds its memory.
"""

from __future__ import annotations

import asyncio
import secrets

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers.local_launcher import prepare_kernel
from pytest_lecturecheck.kernel.launchers.supervised import SpareProcess
from pytest_lecturecheck.kernel.process.cap import Cap
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup, make_group
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.ports import Reaper
from pytest_lecturecheck.model.kernel_start import KernelStart

_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareKernel:
    """
    A process that can become the next kernel.

    Attributes:
        token: the token of the run that takes it.
        process: the process.
        group: its memory group, or ``None``.
        has_cap: whether a limit was wanted for it, with or without a group.
    """

    token: str
    process: SpareProcess
    group: MemoryGroup | None
    has_cap: bool


class SpareKernels:
    """
    Holds one spare process at most.

    Args:
        reaper: ends it if the session is killed; ``None`` for none.
    """

    def __init__(self, reaper: Reaper | None) -> None:
        """Prepare nothing yet."""
        self._reaper = reaper
        self._task: asyncio.Task[SpareKernel | None] | None = None

    @property
    def has_one(self) -> bool:
        """Return True if a process was prepared and not taken."""
        return self._task is not None

    def prepare(self, session: KernelSession) -> None:
        """Prepare a process like the forked kernel of a session whose last cell has ended."""
        kernel, cap = session.kernel, session.cap
        if self._task is not None or kernel.process_start != KernelStart.FORK.value:
            return
        if cap is not None and cap.group is not None and not kernel.provisioner.is_in_group:
            # A group of systemd's, which a process cannot join by itself.
            return
        self._task = asyncio.ensure_future(self._prepare(cap))

    async def _prepare(self, cap: Cap | None) -> SpareKernel | None:
        token = secrets.token_hex(8)
        group = make_group(token, cap.limit_bytes) if cap is not None and cap.group is not None else None
        if self._reaper is not None:
            self._reaper.add(token, pid=0, folders=[], group=str(group.folder) if group is not None else None)
        process = await prepare_kernel(group.join_file if group is not None else "")
        if process is None:
            if group is not None:
                group.remove()
            if self._reaper is not None:
                self._reaper.remove(token)
            return None
        spare = SpareKernel(token=token, process=process, group=group, has_cap=cap is not None)
        if process.process.has_joined is (group is not None):
            return spare
        await self._end(spare)
        return None

    async def take(self, *, has_cap: bool) -> SpareKernel | None:
        """
        Return the process that was prepared, if there is one, for a kernel that begins now.

        Args:
            has_cap: whether there is a limit on the memory of this kernel; a process without it cannot get it later.
        """
        if self._task is None:
            return None
        task, self._task = self._task, None
        spare = await task
        if spare is not None and (spare.has_cap is not has_cap or spare.process.process.poll() is not None):
            await self._end(spare)
            return None
        return spare

    def drop(self, spare: SpareKernel, *, keeps_token: bool) -> None:
        """
        End a process that was taken and is not used.

        Args:
            spare: the process.
            keeps_token: whether a run uses its token, and its memory group unless that is empty in the end.
        """

        async def end() -> None:
            await self._end(spare, keeps_token=keeps_token)

        self._task = asyncio.ensure_future(end())

    async def _end(self, spare: SpareKernel, *, keeps_token: bool = False) -> None:
        await spare.process.process.end_tree(_END_SECONDS)
        if spare.group is not None:
            spare.group.remove()
        if self._reaper is not None and not keeps_token:
            self._reaper.remove(spare.token)

    async def close(self) -> None:
        """End the process that nobody has taken; safe to call twice."""
        if self._task is not None:
            task, self._task = self._task, None
            if (spare := await task) is not None:
                await self._end(spare)
