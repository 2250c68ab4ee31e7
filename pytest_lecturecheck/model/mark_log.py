"""Build the marks of a cell from samples, in bounded memory: neighbours merged, old marks thinned out evenly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.model.cell_marks import OTHER_LINES, CellMarks, CodePlace, LineSample, LineUse, Mark

MOST_MARKS: Final = 240
MOST_LINES: Final = 100


class MarkLog:
    """
    The marks of one cell while it runs.

    Args:
        interval_seconds: time between two samples.
        most_marks: marks to keep.
        most_lines: lines to keep apart.
    """

    def __init__(self, interval_seconds: float, *, most_marks: int = MOST_MARKS, most_lines: int = MOST_LINES) -> None:
        self._interval_seconds = interval_seconds
        self._most_marks, self._most_lines = most_marks, most_lines
        self._uses: list[LineUse] = []
        self._positions: dict[tuple[str, str], int] = {}
        self._marks: list[Mark] = []
        self._latest: Mark | None = None
        self._last: LineSample | None = None
        self._stride = 1
        self._mark_count = self._sample_count = 0

    @property
    def last(self) -> LineSample | None:
        """Return the last sample."""
        return self._last

    def add(self, sample: LineSample) -> None:
        """Add a sample; a sample that is older than the last one is dropped."""
        last = self._last
        if last is not None and sample.seconds < last.seconds:
            return
        self._sample_count += 1
        line = self._position(sample.place)
        if last is None or self._latest is None:
            self._count(line, sample)
        else:
            self._share(self._latest.line, line, last, sample)
        self._mark(line, sample)
        self._last = sample

    def _position(self, place: CodePlace) -> int:
        key = (place.place, place.function)
        found = self._positions.get(key)
        if found is None:
            if len(self._uses) >= self._most_lines:
                place, key = CodePlace(place=OTHER_LINES), (OTHER_LINES, "")
            found = self._positions.setdefault(key, len(self._uses))
            if found == len(self._uses):
                self._uses.append(LineUse(place=place))
        elif place.called:
            # The last call stands for all of them.
            self._uses[found] = replace(self._uses[found], place=place)
        return found

    def _count(self, line: int, sample: LineSample) -> None:
        use = self._uses[line]
        is_first = use.sample_count == 0
        self._uses[line] = replace(
            use,
            sample_count=use.sample_count + 1,
            first_seconds=sample.seconds if is_first else use.first_seconds,
            last_seconds=sample.seconds,
            first_loop=sample.loop if is_first else use.first_loop,
            last_loop=sample.loop,
        )

    def _share(self, before: int, line: int, last: LineSample, sample: LineSample) -> None:
        """Share the time and the memory between two samples among their lines."""
        self._count(line, sample)
        seconds, rise = sample.seconds - last.seconds, 0
        if sample.footprint_bytes is not None and last.footprint_bytes is not None:
            rise = sample.footprint_bytes - last.footprint_bytes
        half = rise // 2
        for position, part_seconds, part in ((before, seconds / 2, half), (line, seconds / 2, rise - half)):
            use = self._uses[position]
            self._uses[position] = replace(
                use, busy_seconds=use.busy_seconds + part_seconds, rise_bytes=use.rise_bytes + part
            )

    def _mark(self, line: int, sample: LineSample) -> None:
        latest = self._latest
        if latest is not None and latest.line == line:
            merged = replace(
                latest,
                until_seconds=sample.seconds,
                sample_count=latest.sample_count + 1,
                until_footprint_bytes=sample.footprint_bytes,
                loop=sample.loop,
            )
            if self._marks and self._marks[-1] is latest:
                self._marks[-1] = merged
            self._latest = merged
            return
        self._latest = Mark(
            line=line,
            seconds=sample.seconds,
            until_seconds=sample.seconds,
            footprint_bytes=sample.footprint_bytes,
            until_footprint_bytes=sample.footprint_bytes,
            loop=sample.loop,
        )
        if self._mark_count % self._stride == 0:
            self._marks.append(self._latest)
        self._mark_count += 1
        if len(self._marks) >= self._most_marks:
            # Marks that follow are kept as rarely as those that are left.
            self._marks, self._stride = self._marks[::2], self._stride * 2

    def finish(self, silent_seconds: float = 0.0) -> CellMarks | None:
        """
        Return the marks so far, or ``None`` without a sample.

        Args:
            silent_seconds: time for which Python had not answered at the end.
        """
        latest = self._latest
        if latest is None:
            return None
        is_kept = bool(self._marks) and self._marks[-1] is latest
        return CellMarks(
            interval_seconds=self._interval_seconds,
            lines=tuple(self._uses),
            marks=tuple(self._marks if is_kept else [*self._marks, latest]),
            sample_count=self._sample_count,
            silent_seconds=silent_seconds,
        )


def marks_of(samples: Iterable[LineSample], interval_seconds: float) -> CellMarks | None:
    """Return the marks of a cell whose samples are all known."""
    log = MarkLog(interval_seconds)
    for sample in samples:
        log.add(sample)
    return log.finish()
