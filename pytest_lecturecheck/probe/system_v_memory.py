"""Find segments of System V shared memory on Linux: they outlive the processes that made them, as POSIX ones do."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.probe import SharedSegment

SEGMENTS_FILE: Final = Path("/proc/sysvipc/shm")
_PREFIX: Final = "shmid "
_IPC_RMID: Final = 0
_PLACE: Final = "System V shared memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemVSegment:
    """One line of ``/proc/sysvipc/shm``: its size, who made it, and how many processes have it attached."""

    segment: SharedSegment
    creator_pid: int
    attached_count: int


def list_system_v_memory(path: Path = SEGMENTS_FILE) -> dict[str, SystemVSegment]:
    """Return the segments by name ("shmid 7"); empty on systems without ``/proc/sysvipc/shm`` (sysvipc, proc(5))."""
    found: dict[str, SystemVSegment] = {}
    try:
        # Read after every cell: without a buffer and a Path it takes a fifth of the time.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - see above
            text = file.read()
    except OSError:
        return found
    head, _, rest = text.partition(b"\n")
    if not rest:
        return found
    names, lines = head.decode("ascii", "replace").split(), rest.splitlines()
    for line in lines:
        with suppress(ValueError, KeyError):
            row = dict(zip(names, map(int, line.split()), strict=True))
            segment = SharedSegment(size_bytes=row["size"], taken_bytes=row["rss"], place=_PLACE)
            found[f"{_PREFIX}{row['shmid']}"] = SystemVSegment(
                segment=segment, creator_pid=row["cpid"], attached_count=row["nattch"]
            )
    return found


def find_used(
    names: AbstractSet[str], pids: Iterable[int] | None = None, *, path: Path = SEGMENTS_FILE
) -> frozenset[str]:
    """
    Return the segments that one of these processes has made, or that any process has attached.

    Args:
        names: segments, as :func:`list_system_v_memory` names them; others are ignored.
        pids: processes that may have made them; ``None`` for those that are attached.
        path: the system's list.
    """
    if not any(name.startswith(_PREFIX) for name in names):
        return frozenset()
    makers = None if pids is None else set(pids)
    return frozenset(
        name
        for name, found in list_system_v_memory(path).items()
        if name in names and (found.attached_count > 0 if makers is None else found.creator_pid in makers)
    )


def remove_system_v_memory(name: str) -> bool | None:
    """Remove a segment (shmctl(2)) and return True if it is gone; ``None`` for another kind of segment."""
    if not name.startswith(_PREFIX):
        return None
    import ctypes  # noqa: PLC0415 - only where something was left

    return bool(ctypes.CDLL(None).shmctl(int(name.removeprefix(_PREFIX)), _IPC_RMID, None) == 0)
