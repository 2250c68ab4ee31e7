"""A counter of the OS that holds a highest value, over one window of time. Pure."""

from __future__ import annotations

from pytest_lecturecheck.deferred_dataclass import dataclass


@dataclass(slots=True, kw_only=True)
class HighWatermark:
    """
    A counter of the OS that holds a highest value, as it was read in one window.

    A counter that was reset when the window opened is the peak of the window. One that only rises is the peak of the
    window if it rose there. If it did not, the peak lies between the highest sample and the counter.

    Attributes:
        at_start_bytes: value when the window opened, or ``None`` where there was none.
        is_reset: whether the counter was reset when the window opened.
        bytes: highest value read since, or ``None`` before the first.
        sampled_bytes: highest single sample of the quantity itself, or ``None`` before the first.
        read_bytes: highest value that was really read from the counter, or ``None`` before the first.
        drop_bytes: by how much the counter fell below an earlier value: then somebody else has reset it.
    """

    at_start_bytes: int | None = None
    is_reset: bool = False
    bytes: int | None = None
    sampled_bytes: int | None = None
    read_bytes: int | None = None
    drop_bytes: int = 0

    def note(self, size_bytes: int | None, mark_bytes: int | None, *, is_read: bool = True) -> None:
        """
        Add one sample of the quantity and one reading of the counter.

        Args:
            size_bytes: the quantity.
            mark_bytes: the counter.
            is_read: whether the counter was read, not assumed to have this value after a reset.
        """
        self.sampled_bytes = highest(self.sampled_bytes, size_bytes)
        self.bytes = highest(self.bytes, mark_bytes)
        if is_read and mark_bytes is not None:
            self.drop_bytes = max(self.drop_bytes, (self.read_bytes or 0) - mark_bytes)
            self.read_bytes = highest(self.read_bytes, mark_bytes)

    @property
    def is_own(self) -> bool:
        """Return True if the counter reached its value within the window."""
        if self.bytes is None:
            return False
        return self.is_reset or (self.at_start_bytes is not None and self.bytes > self.at_start_bytes)

    @property
    def low_bytes(self) -> int | None:
        """Return a value that was certainly reached, or ``None`` where nothing was read."""
        return highest(self.sampled_bytes, self.bytes if self.is_own else None)

    @property
    def high_bytes(self) -> int | None:
        """Return a value that was certainly not exceeded, or ``None`` without a counter."""
        return None if self.bytes is None else highest(self.bytes, self.low_bytes)


def highest(first: int | None, second: int | None) -> int | None:
    """Return the larger value; ``None`` stands for no value."""
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)
