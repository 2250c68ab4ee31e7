"""
Read a profile of memory in pprof's format: gzip around a message of protobuf.

Only the few fields that ``jax.profiler.device_memory_profile`` fills are read. The format is that of ``profile.proto``
in github.com/google/pprof; protobuf's encoding is fixed, so that a library for it is not needed for these fields. The
file comes from a kernel, so everything in it is checked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

_MOST_BYTES: Final = 1 << 26
_MOST_SAMPLES: Final = 100_000
_MOST_FRAMES: Final = 1000
_MOST_DIGITS: Final = 63
_VARINT, _FIXED64, _CHUNK, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_GZIP: Final = 31
# Profile
_SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 2, 4, 5, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PprofSample:
    """
    One sample.

    Attributes:
        frames: file, function and line, the innermost first.
        count: allocations.
        size_bytes: their size.
        labels: texts by key, such as ``kind`` ("buffer", "executable") and ``device`` ("cuda:0").
    """

    frames: tuple[tuple[str, str, int], ...]
    count: int
    size_bytes: int
    labels: dict[str, str]


def read_pprof(data: bytes) -> list[PprofSample]:
    """
    Return the samples of a profile.

    Raises:
        ValueError: it is not a profile, or is too large.
    """
    try:
        unpacked = zlib.decompressobj(_GZIP)
        raw = unpacked.decompress(data, _MOST_BYTES)
    except zlib.error as exc:
        msg = f"it is no gzip file ({exc})"
        raise ValueError(msg) from exc
    if unpacked.unconsumed_tail or not unpacked.eof:
        msg = "it is cut" if not unpacked.unconsumed_tail else f"it has more than {_MOST_BYTES >> 20} MiB"
        raise ValueError(msg)
    texts: list[str] = []
    samples: list[bytes] = []
    locations: dict[int, list[tuple[int, int]]] = {}
    functions: dict[int, tuple[int, int]] = {}
    for number, value in _fields(raw):
        if number == _STRINGS:
            texts.append(_bytes(value).decode("utf-8", "replace"))
        elif number == _SAMPLE and len(samples) < _MOST_SAMPLES:
            samples.append(_bytes(value))
        elif number == _LOCATION:
            found = list(_fields(_bytes(value)))
            lines = [_line(_bytes(part)) for field, part in found if field == 4]  # noqa: PLR2004 - Location.line
            locations[_first(found, 1)] = lines
        elif number == _FUNCTION:
            found = list(_fields(_bytes(value)))
            functions[_first(found, 1)] = (_first(found, 2), _first(found, 4))
    tables = _Tables(texts=texts, locations=locations, functions=functions)
    return [tables.sample(item) for item in samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    texts: list[str]
    locations: dict[int, list[tuple[int, int]]]
    functions: dict[int, tuple[int, int]]

    def sample(self, data: bytes) -> PprofSample:
        found = list(_fields(data))
        values = _numbers(found, 2)
        labels = {}
        for field, part in found:
            if field == 3:  # noqa: PLR2004 - Sample.label
                label = list(_fields(_bytes(part)))
                labels[self._text(_first(label, 1))] = self._text(_first(label, 2))
        frames = [frame for location in _numbers(found, 1)[:_MOST_FRAMES] for frame in self._frames(location)]
        count, size = (*values, 0, 0)[:2]
        return PprofSample(frames=tuple(frames), count=count, size_bytes=size, labels=labels)

    def _frames(self, location: int) -> Iterator[tuple[str, str, int]]:
        for function, line in self.locations.get(location, ()):
            name, file = self.functions.get(function, (0, 0))
            yield self._text(file), self._text(name), line

    def _text(self, position: int) -> str:
        return self.texts[position] if 0 <= position < len(self.texts) else ""


def _line(data: bytes) -> tuple[int, int]:
    found = list(_fields(data))
    return _first(found, 1), _first(found, 2)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = _FIXED_BYTES.get(kind, 0)
        if kind == _CHUNK:
            size, at = _varint(data, at)
        elif not size:
            msg = f"it has a field of the unknown kind {kind}"
            raise ValueError(msg)
        if at + size > len(data):
            msg = "a field is longer than the file"
            raise ValueError(msg)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while at < len(data) and shift <= _MOST_DIGITS:
        byte = data[at]
        result |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the mark of the last byte
            return result, at
    msg = "a number is cut or too long"
    raise ValueError(msg)


def _numbers(fields: list[tuple[int, int | bytes]], number: int) -> list[int]:
    """Return the numbers of a repeated field, packed or not."""
    found: list[int] = []
    for field, value in fields:
        if field != number:
            continue
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            item, at = _varint(value, at)
            found.append(item)
    return found


def _first(fields: list[tuple[int, int | bytes]], number: int) -> int:
    return next((value for field, value in fields if field == number and isinstance(value, int)), 0)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        msg = "a field has a number where a message was expected"
        raise ValueError(msg)  # noqa: TRY004 - of a file
    return value
