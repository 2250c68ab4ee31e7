"""Read a lecture's own settings from its metadata: the ``lecturecheck`` table and the conventions of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_lecturecheck.config.option_reading import LECTURE_OPTIONS, read_raw, written_text
from pytest_lecturecheck.config.option_row import Option
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError, SettingsError, UnitError, expected_instead
from pytest_lecturecheck.lecture.setting_values import BadValueError, read_bool, read_mode, read_number_timeout
from pytest_lecturecheck.model.settings import RunSettings

_MISSING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One key of one convention, the setting it controls, and the reader of its value."""

    key: str
    attribute: str
    read: Callable[[Any], Any]


def _own_reader(option: Option) -> Callable[[Any], Any]:
    """Return the reader of an option; its errors become faults of the lecture."""

    def read(value: Any) -> Any:
        try:
            return read_raw(option, value)
        except (SettingsError, UnitError) as exc:
            msg = f"cannot be used: {exc}"
            raise BadValueError(msg) from exc

    return read


_OWN_TABLE: Final = "lecturecheck"
OWN_KEYS: Final = tuple(LECTURE_OPTIONS)
"""The keys of the ``lecturecheck`` table."""

# In order of precedence: the first one wins. ``execution`` overrides ``mystnb``, as in myst-nb's modes auto, force and
# cache.
_CONVENTIONS: Final = (
    _Rule(key="execution.timeout", attribute="timeout_seconds", read=read_number_timeout),
    _Rule(key="execution.allow_errors", attribute="allow_errors", read=read_bool),
    _Rule(key="mystnb.execution_timeout", attribute="timeout_seconds", read=read_number_timeout),
    _Rule(key="mystnb.execution_allow_errors", attribute="allow_errors", read=read_bool),
    _Rule(key="mystnb.execution_in_temp", attribute="run_in_temp", read=read_bool),
    _Rule(key="nbsphinx.timeout", attribute="timeout_seconds", read=read_number_timeout),
    _Rule(key="nbsphinx.allow_errors", attribute="allow_errors", read=read_bool),
)


def read_own_settings(
    metadata: Mapping[str, Any], *, name: str, where: str, key_lines: Mapping[str, int]
) -> RunSettings:
    """
    Read the settings in a notebook's metadata.

    Args:
        metadata: the metadata as plain types.
        name: the file as the user knows it.
        where: what the format calls its metadata ("front matter", "notebook metadata").
        key_lines: 1-based line of each key, by dotted name, where known.

    Returns:
        One layer of settings; its ``origins`` read like "front matter execution.timeout".

    Raises:
        LectureReadError: unknown keys in ``lecturecheck`` or values of the wrong kind; one line for each fault.
    """
    reader = _SettingsReader(metadata, name=name, where=where, key_lines=key_lines)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for attribute, value, origin in reader.statements():
        if attribute not in values:
            values[attribute], origins[attribute] = value, origin
    reader.raise_faults()
    keys = {attribute: origin.removeprefix(f"{where} ") for attribute, origin in origins.items()}
    lines = {attribute: key_lines[key] for attribute, key in keys.items() if key in key_lines}
    texts = {attribute: written_text(reader.look_up(key)) for attribute, key in keys.items()}
    return RunSettings(**values, origins=origins, lines=lines, texts=texts)


class _SettingsReader:
    """Reads the settings of one lecture and collects faults, so that all of them are reported at once."""

    def __init__(self, metadata: Mapping[str, Any], *, name: str, where: str, key_lines: Mapping[str, int]) -> None:
        self._metadata = metadata
        self._name = name
        self._where = where
        self._key_lines = key_lines
        self._faults: list[LectureReadError] = []

    def raise_faults(self) -> None:
        """
        Raise all faults as one error, in the order of the file.

        Raises:
            LectureReadError: the first fault, followed by the others.
        """
        faults = sorted(self._faults, key=lambda fault: fault.line or 0)
        if faults:
            reason = "\n".join([faults[0].reason, *map(str, faults[1:])])
            raise LectureReadError(self._name, faults[0].line, reason)

    def statements(self) -> Iterator[tuple[str, Any, str]]:
        """Yield attribute, value and origin of each setting, by decreasing precedence; collect faults."""
        for attribute, value, origin in self._all_statements():
            if value is not _MISSING:
                yield attribute, value, origin

    def _all_statements(self) -> Iterator[tuple[str, Any, str]]:
        own = self._own_table()
        for key, option in LECTURE_OPTIONS.items():
            if key in own:
                attribute = option.field.removeprefix("run.")
                where = f"{_OWN_TABLE}.{key}"
                yield attribute, self._read(where, _own_reader(option), own[key]), self._origin(where)
        for rule in _CONVENTIONS:
            value = self.look_up(rule.key)
            if value is not _MISSING:
                yield self._apply(rule.key, rule, value)
        yield from self._skips()

    def _own_table(self) -> Mapping[str, Any]:
        own = self._metadata.get(_OWN_TABLE, {})
        if not isinstance(own, dict):
            self._add_fault(_OWN_TABLE, f"is {own!r}; expected a table with {', '.join(OWN_KEYS)}")
            return {}
        for key in own:
            if key not in OWN_KEYS:
                self._add_fault(f"{_OWN_TABLE}.{key}", f"is not known; {expected_instead(key, OWN_KEYS)}")
        return own

    def _skips(self) -> Iterator[tuple[str, str, str]]:
        for key in ("execute.skip", "skip_execution"):
            value = self.look_up(key)
            if value is not _MISSING and self._read(key, read_bool, value) is True:
                yield self._skip(key, f"{key} is true")
        if "skip-execution" in parse_tags(self._metadata.get("tags")):
            yield self._skip("tags", "the notebook is tagged skip-execution")
        value = self.look_up("nbreg.skip")
        if value is not _MISSING and self._read("nbreg.skip", read_bool, value) is True:
            reason = self.look_up("nbreg.skip_reason")
            given = reason.strip() if isinstance(reason, str) else ""
            yield self._skip("nbreg.skip", given or "nbreg.skip is true")
        if self.look_up("nbsphinx.execute") == "never":
            yield self._skip("nbsphinx.execute", "nbsphinx.execute is never")
        mode = self.look_up("mystnb.execution_mode")
        if mode is not _MISSING:
            runs = self._read("mystnb.execution_mode", read_mode, mode)
            # A page whose mode executes overrides a book whose mode is "off": an empty reason runs the lecture.
            yield self._skip("mystnb.execution_mode", "" if runs else "mystnb.execution_mode is off")

    def _skip(self, key: str, reason: str) -> tuple[str, str, str]:
        return "skip_reason", reason, self._origin(key)

    def look_up(self, key: str) -> Any:
        """Return the value of a dotted key as it was written, or ``_MISSING``."""
        value: Any = self._metadata
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                return _MISSING
            value = value[part]
        return value

    def _apply(self, key: str, rule: _Rule, value: Any) -> tuple[str, Any, str]:
        return rule.attribute, self._read(key, rule.read, value), self._origin(key)

    def _read(self, key: str, read: Callable[[Any], Any], value: Any) -> Any:
        try:
            return read(value)
        except BadValueError as exc:
            self._add_fault(key, str(exc))
            return _MISSING

    def _origin(self, key: str) -> str:
        return f"{self._where} {key}"

    def _add_fault(self, key: str, reason: str) -> None:
        fault = LectureReadError(self._name, self._key_lines.get(key), f"{self._where} {key} {reason}")
        self._faults.append(fault)


def parse_tags(value: object) -> frozenset[str]:
    """Read tags given as a list, or as text separated by commas or spaces; ignore anything else."""
    if isinstance(value, str):
        return frozenset(value.replace(",", " ").split())
    if isinstance(value, Sequence):
        return frozenset(item.strip() for item in value if isinstance(item, str) and item.strip())
    return frozenset()
