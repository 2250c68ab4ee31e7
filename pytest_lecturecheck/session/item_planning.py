"""Decide which items a lecture's file has: its variants, each in numbers of kernels at once, and named cohorts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureCheckError, SettingsError
from pytest_lecturecheck.model.cohort import CohortSpec, repeat_lecture
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.model.variant import PLAIN, Variant
from pytest_lecturecheck.session.collection import LectureCollection

if TYPE_CHECKING:
    from pytest_lecturecheck.model.lecture import Lecture


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """
    One item of a lecture's file.

    Attributes:
        cohort: what runs at once, or ``None`` for the lecture by itself.
        variant: the variant of the lecture.
    """

    cohort: CohortSpec | None = None
    variant: Variant = PLAIN

    @property
    def name(self) -> str:
        """Return what distinguishes the item from others of its file, or an empty string."""
        return self.cohort.name if self.cohort is not None else self.variant.name

    @property
    def several(self) -> CohortSpec | None:
        """Return the cohort where it has several kernels or a name of its own."""
        spec = self.cohort
        return None if spec is None or (spec.is_repeat and spec.kernel_count == 1) else spec

    @property
    def subject(self) -> str:
        """Return the variant under which measurements are kept: a single kernel is the lecture by itself."""
        return self.several.name if self.several is not None else self.variant.name


class ItemPlanner:
    """
    Decides about the items of files during collection.

    Args:
        settings: the session's settings.
        collection: the books that lectures belong to.
        read: reads a lecture's file; called only where the file may set its items, because it is expensive.
    """

    def __init__(
        self, settings: SessionSettings, collection: LectureCollection, read: Callable[[Path, str], Lecture]
    ) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._collection = collection
        self._read = read

    def plan(self, path: Path, name: str) -> Sequence[PlannedItem]:
        """
        Return what is to be run of a file: its variants, and the cohorts that begin with it.

        Args:
            path: the file.
            name: the lecture's name.

        Raises:
            SettingsError: its axes cannot be spanned, or a variant that was asked for does not exist.
        """
        layers = self._layers(path, name)
        try:
            items = [item for variant in self._variants(layers) for item in _items(name, variant, layers)]
        except SettingsError as exc:
            msg = f"{name}: {exc}"
            raise SettingsError(msg) from exc
        named = [PlannedItem(cohort=spec) for spec in self._settings.cohorts if spec.lectures[0] == name]
        return (*items, *named)

    def _variants(self, layers: RunSettings) -> Sequence[Variant]:
        if not layers.axes and not self._settings.variants and layers.variants is None:
            return (PLAIN,)
        from pytest_lecturecheck.config.variants import select_variants, span_variants  # noqa: PLC0415 - rarely needed

        spanned = span_variants(layers.axes or (), self._settings.variants)
        if layers.variants is None:
            return spanned or (PLAIN,)
        try:
            return select_variants(spanned, layers.variants) or (PLAIN,)
        except SettingsError:
            common = self._common_layers
            if layers.variants != common.variants:
                raise
            # A name that no lecture has is a slip of the pen; one that this lecture has turned off is not.
            select_variants(span_variants(common.axes or (), self._settings.variants), layers.variants)
        reason = f"it has no variant {', '.join(layers.variants)}, which was asked for"
        return (Variant(settings=RunSettings(skip_reason=reason, origins={"skip_reason": "--lecture-variants"})),)

    def _layers(self, path: Path, name: str) -> RunSettings:
        if self._collection.may_say_concurrency(path):
            try:
                return self._settings.stated_for(self._read(path, name).settings)
            except LectureCheckError:
                # The item's setup reports it.
                return RunSettings()
        return self._common_layers

    @functools.cached_property
    def _common_layers(self) -> RunSettings:
        return self._settings.for_all_lectures


def _items(name: str, variant: Variant, layers: RunSettings) -> Iterator[PlannedItem]:
    """Yield the items of one variant: one for each number of kernels, or one for the lecture by itself."""
    counts = variant.settings.concurrency or layers.concurrency or ()
    for count in counts:
        yield PlannedItem(cohort=repeat_lecture(name, count, variant.name), variant=variant)
    if not counts:
        yield PlannedItem(variant=variant)
