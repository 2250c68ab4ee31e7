"""
Readers of option values: from text on the command line, from TOML, or from a lecture's YAML or JSON.

Each takes one raw value and returns what the option sets. A value that cannot be used raises ``SettingsError`` or
``UnitError``; the message names the value, and the caller adds the option.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.config.environment import JaxMemory
from pytest_lecturecheck.config.report_formats import check_report_name
from pytest_lecturecheck.errors import SettingsError, expected_instead
from pytest_lecturecheck.model.cell_choice import CellChoice, CellWord
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.kernel_start import KernelStart
from pytest_lecturecheck.model.platform import parse_platform_label
from pytest_lecturecheck.model.profile import ProfileKind, TraceRequest
from pytest_lecturecheck.model.repetition import LEAST_REPETITIONS, RepeatRequest
from pytest_lecturecheck.model.settings import CAP_WORDS, NO_LIMIT, GpuNeed, timeout_from_number
from pytest_lecturecheck.units import parse_duration, parse_size

AUTO: Final = "auto"
HISTORY_SUFFIX: Final = ".jsonl"
_DIGITS: Final = re.compile("[0-9]{1,18}")


def read_text(value: object) -> str:
    """Return text without surrounding blanks; anything else, and blank text, is refused."""
    if not isinstance(value, str) or not value.strip():
        msg = f"{value!r} is not text"
        raise SettingsError(msg)
    if "\0" in value:
        msg = f"{value!r} holds a NUL character, which no name or path can"
        raise SettingsError(msg)
    return value.strip()


def read_cache(value: object) -> str:
    """Return the folder of a book's cache, or an empty text for the one that the book names."""
    text = read_text(value)
    return "" if text == AUTO else text


def read_flag(value: object) -> bool:
    """Return a boolean; nothing else stands for one."""
    if not isinstance(value, bool):
        msg = f"{value!r} is neither true nor false"
        raise SettingsError(msg)
    return value


def read_inverted_flag(value: object) -> bool:
    """Return the opposite of a boolean, for an option that switches something off."""
    return not read_flag(value)


def read_skip(value: object) -> str:
    """Return the reason to skip a lecture: text, or ``True`` for no particular one; empty text runs it."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, bool):
        return "lecturecheck.skip is true" if value else ""
    msg = f"{value!r} is not true, false or a reason"
    raise SettingsError(msg)


def read_count(value: object) -> int:
    """Return a whole number of at least 0."""
    return _whole_number(value, least=0)


def read_positive_count(value: object) -> int:
    """Return a whole number of at least 1."""
    return _whole_number(value, least=1)


def _whole_number(value: object, *, least: int) -> int:
    text = str(value)
    if isinstance(value, bool) or _DIGITS.fullmatch(text) is None or int(text) < least:
        msg = f"{value!r} is not a whole number of at least {least}"
        raise SettingsError(msg)
    return int(text)


def read_fraction(value: object) -> float:
    """Return a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        msg = f"{value!r} is not a number of at least 0"
        raise SettingsError(msg)
    return float(value)


def read_timeout(value: object) -> float:
    """Return a timeout in seconds from a number (0, less or null: no limit) or a duration such as ``"10 min"``."""
    if value is None:
        return NO_LIMIT
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        msg = f"{value!r} is not a duration; expected a number of seconds or for example '10 min'"
        raise SettingsError(msg)
    try:
        number = float(value) if not isinstance(value, str) or value.isascii() else float("nan")
    except OverflowError as exc:
        msg = "the number is too large for seconds; expected 0 for no limit"
        raise SettingsError(msg) from exc
    except ValueError:
        return timeout_from_number(parse_duration(value))
    # Text such as "inf" and "nan" is a number for Python; a YAML or TOML infinity states that there is no limit.
    if number != number or (isinstance(value, str) and abs(number) == float("inf")):  # noqa: PLR0124 - only NaN differs from itself
        msg = f"{value!r} is not a number of seconds"
        raise SettingsError(msg)
    return timeout_from_number(number)


def read_positive_size(value: object) -> int:
    """Return a size in bytes of more than zero; the unit must be stated."""
    size = parse_size(value)
    if size <= 0:
        msg = f"size {value!r} is not more than zero"
        raise SettingsError(msg)
    return size


def read_positive_duration(value: object) -> float:
    """Return a duration in seconds of more than zero; the unit must be stated."""
    seconds = parse_duration(value)
    if seconds <= 0:
        msg = f"duration {value!r} is not more than zero"
        raise SettingsError(msg)
    return seconds


def read_heartbeat(value: object) -> float:
    """Return the interval of progress lines in seconds; 0 for ``"off"``."""
    if isinstance(value, str) and value.strip().lower() == "off":
        return 0.0
    return read_positive_duration(value)


def read_cap(value: object) -> float:
    """Return a memory cap in bytes from a size, ``"auto"`` or ``"off"``."""
    if isinstance(value, str) and value.strip().lower() in CAP_WORDS:
        return CAP_WORDS[value.strip().lower()]
    return read_positive_size(value)


def read_gpu(value: object) -> GpuNeed:
    """Return what a lecture says about GPUs."""
    # YAML 1.1 reads yes and no as booleans; a lecture that says yes needs one.
    if value is True:
        return GpuNeed.REQUIRED
    if isinstance(value, str) and value in set(GpuNeed):
        return GpuNeed(value)
    msg = f"{value!r} is not one of {', '.join(GpuNeed)}"
    raise SettingsError(msg)


def read_shard(value: object) -> tuple[int, int]:
    """Return which part of how many is to be run, from text such as ``"2/5"``."""
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", str(value).strip())
    part, count = (int(found[1]), int(found[2])) if found is not None else (0, 0)
    if not 1 <= part <= count:
        msg = f"shard {value!r} is not K/N with 1 <= K <= N; expected for example '2/5'"
        raise SettingsError(msg)
    return part, count


def read_compile_cache(value: object) -> bool:
    """Return True if each lecture begins with an empty compile cache."""
    if value not in {"fresh", "kept"}:
        msg = f"{value!r} is not one of fresh, kept"
        raise SettingsError(msg)
    return value == "fresh"


def read_jax_memory(value: object) -> JaxMemory:
    """Return how JAX takes memory of a GPU."""
    if isinstance(value, str) and value in set(JaxMemory):
        return JaxMemory(value)
    msg = f"{value!r} is not one of {', '.join(JaxMemory)}"
    raise SettingsError(msg)


def read_kernel_start(value: object) -> KernelStart:
    """Return how processes of kernels are started."""
    if isinstance(value, str) and value in set(KernelStart):
        return KernelStart(value)
    msg = f"{value!r} is not one of {', '.join(KernelStart)}"
    raise SettingsError(msg)


def read_platform(value: object) -> str:
    """Return a platform label that can be the name of a file everywhere."""
    return parse_platform_label(read_text(value))


def read_report(value: object) -> str:
    """Return the path of a report whose ending names a known format."""
    text = read_text(value)
    check_report_name(text)
    return text


def read_history(value: object) -> str:
    """Return the path of a history, which has one JSON value in each line."""
    text = read_text(value)
    if Path(text).suffix.lower() != HISTORY_SUFFIX:
        msg = f"history {text!r} is not named like one; expected a name ending in {HISTORY_SUFFIX}"
        raise SettingsError(msg)
    return text


def read_trace_request(value: object) -> TraceRequest:
    """
    Return what to profile.

    ``"over"``, or numbers of code cells (``"3,7"``, in a file also ``[3, 7]``), for a trace; ``"memory"``, or
    ``"memory:3,7"``, for a record of memory; ``"levels"``.
    """
    word, colon, rest = value.strip().lower().partition(":") if isinstance(value, str) else ("", "", "")
    if word == "over" and not colon:
        return TraceRequest()
    if word in {ProfileKind.MEMORY, ProfileKind.LEVELS} and not colon:
        return TraceRequest(kind=ProfileKind(word))
    kind = ProfileKind.MEMORY if word == ProfileKind.MEMORY else ProfileKind.TRACE
    cells = rest if kind is ProfileKind.MEMORY else value
    parts = cells if isinstance(cells, list) else str(cells).split(",")
    texts = [str(part).strip() for part in parts]
    if isinstance(value, bool) or not texts or any(re.fullmatch("[0-9]{1,6}", text) is None for text in texts):
        msg = (
            f"cells {value!r} are not understood; expected 'over', 'memory', 'levels', or numbers of code cells such "
            "as '3', '3,7' or 'memory:3,7'"
        )
        raise SettingsError(msg)
    numbers = frozenset(map(int, texts))
    if 0 in numbers:
        msg = f"cells {value!r}: there is no code cell 0; the first one is 1"
        raise SettingsError(msg)
    return TraceRequest(cells=numbers, kind=kind)


def read_repeat_request(value: object) -> RepeatRequest:
    """Return which cells are run again, and how often: ``5``, ``"5:3,7"`` (numbers of code cells) or ``"5:tag"``."""
    text = str(value).strip()
    count, colon, rest = text.partition(":")
    words = [word.strip() for word in rest.split(",")] if colon else []
    if isinstance(value, bool) or re.fullmatch("[0-9]{1,4}", count.strip()) is None or not all(words):
        msg = (
            f"{value!r} is not understood; expected the number of repetitions, alone or with cells: '5', '5:3,7' for "
            "code cells 3 and 7, '5:TAG' for cells with a tag"
        )
        raise SettingsError(msg)
    if int(count) < LEAST_REPETITIONS:
        msg = f"{int(count)} repetitions cannot tell growth from chance; expected {LEAST_REPETITIONS} or more"
        raise SettingsError(msg)
    numbers = frozenset(int(word) for word in words if re.fullmatch("[0-9]{1,6}", word))
    if 0 in numbers:
        msg = f"{value!r}: there is no code cell 0; the first one is 1"
        raise SettingsError(msg)
    tags = frozenset(word for word in words if re.fullmatch("[0-9]{1,6}", word) is None)
    return RepeatRequest(count=int(count), cells=numbers, tags=tags)


def read_captured_cell(value: object) -> CellChoice:
    """Return the cell before which state is saved: a number, ``heaviest`` or ``failing``."""
    return _read_cell_choice(value, tuple(CellWord))


def read_last_cell(value: object) -> CellChoice:
    """Return the last cell that runs: a number or ``heaviest``."""
    return _read_cell_choice(value, (CellWord.HEAVIEST,))


def _read_cell_choice(value: object, words: Sequence[CellWord]) -> CellChoice:
    text = str(value).strip().lower()
    if text in words:
        return CellChoice(word=CellWord(text))
    if isinstance(value, bool) or re.fullmatch("[0-9]{1,6}", text) is None or not int(text):
        others = " or ".join(words)
        msg = f"cell {value!r} is not understood; expected the number of a code cell such as '3', or {others}"
        raise SettingsError(msg)
    return CellChoice(number=int(text))


def read_finding_kind(value: object) -> FindingKind:
    """Return a kind of finding; its words may be joined with hyphens."""
    text = read_text(value).lower().replace("-", " ").replace("_", " ")
    if text not in set(FindingKind):
        known = [kind.replace(" ", "-") for kind in FindingKind]
        msg = f"{value!r} is not a kind of finding; {expected_instead(text, known)}"
        raise SettingsError(msg)
    return FindingKind(text)


def read_suffix(value: object) -> str:
    """Return a file ending in lower case."""
    text = read_text(value).lower()
    if not text.startswith(".") or text in {".", ".ipynb", ".md"}:
        msg = f"suffix {value!r} cannot be added; expected for example '.qmd', '.Rmd' or '.py'"
        raise SettingsError(msg)
    return text
