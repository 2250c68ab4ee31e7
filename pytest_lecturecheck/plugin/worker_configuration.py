"""What the controller decides for itself and for its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.broker import read_capacity

DEFAULT_WIDTH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfiguration:
    """
    What the controller decides for itself and for its workers.

    Attributes:
        args: the arguments of pytest as the user wrote them.
        invocation_dir: where the user called pytest.
        width: columns for failure text.
        colour: whether failure text may hold escape sequences.
        remembers_failures: whether failures are remembered.
        capacity: what all lectures at once may take, where workers put lectures in order by it; else ``None``. Every
            worker has to come to the same order, on whatever machine it runs.
    """

    args: tuple[str, ...]
    invocation_dir: str
    width: int = DEFAULT_WIDTH
    colour: bool = False
    remembers_failures: bool = False
    capacity: Capacity | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, which survive every transport."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> WorkerConfiguration:
        """Return the configuration that JSON has carried."""
        capacity = plain["capacity"]
        return cls(
            args=tuple(plain["args"]),
            invocation_dir=plain["invocation_dir"],
            width=plain["width"],
            colour=plain["colour"],
            remembers_failures=plain["remembers_failures"],
            capacity=read_capacity(capacity) if capacity is not None else None,
        )
