"""The findings as a value: sections with an answer, tables and pictures. Texts are plain; media escape them."""

from __future__ import annotations

from dataclasses import field

from pytest_lecturecheck.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    One table.

    Attributes:
        name: short name, for its CSV file.
        title: heading.
        columns: titles of the columns.
        rows: the cells as text.
        numbers: the same rows with full precision for CSV, the titles of their columns first; empty for the texts.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[tuple[object, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a picture, with an interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve of a picture."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """
    One picture: curves that differ in marks and dashes, so that they can be told apart without colours.

    Attributes:
        name: short name, for its files.
        title: heading.
        x_label: what the horizontal axis shows, with its unit.
        y_label: what the vertical axis shows, with its unit.
        series: the curves.
        line: value of a horizontal line, or ``None``.
        is_log: whether both axes are logarithmic.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    line: float | None = None
    is_log: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """
    One section.

    Attributes:
        title: the question or the subject.
        answer: the answer in one or two sentences; it begins with "not answered" where there is none.
        basis: the runs that it rests on.
        tables: its tables.
        pictures: its pictures.
        notes: further remarks.
    """

    title: str
    answer: str
    basis: str = ""
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """
    One value of the findings that priors are compared with.

    Attributes:
        key: its name, "float64-penalty kalman.md device=cpu,size=1000".
        value: the value.
        low: lower end of its interval.
        high: upper end.
        is_enough: whether it rests on runs enough to conclude something.
    """

    key: str
    value: float
    low: float
    high: float
    is_enough: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """
    All findings.

    Attributes:
        questions: one section for each of the seven questions.
        others: further sections.
        machines: a line for each machine that was measured, with the versions of what ran.
        values: values that priors can be compared with.
    """

    questions: tuple[Section, ...]
    others: tuple[Section, ...] = ()
    machines: tuple[str, ...] = ()
    values: tuple[KeyValue, ...] = field(default=())

    @property
    def sections(self) -> tuple[Section, ...]:
        """Return all sections in order."""
        return (*self.questions, *self.others)
