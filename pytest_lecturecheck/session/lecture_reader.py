"""Read a lecture and resolve its settings, once for all its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.config.replaced_flags import replaced_flags
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError, SettingsError
from pytest_lecturecheck.kernel.run.runner import nothing_to_run
from pytest_lecturecheck.lecture.parameters import with_parameters
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.model.variant import PLAIN, Variant
from pytest_lecturecheck.session.gpu_findings import missing_gpu
from pytest_lecturecheck.session.library_path import library_path
from pytest_lecturecheck.session.runtime_context import RuntimeContext


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLecture:
    """
    A lecture that is ready to run.

    Attributes:
        lecture: the lecture as read.
        settings: its resolved settings; no attribute that matters for a run is ``None``.
        variant: the variant that it runs as; its parameters and settings are in the others.
    """

    lecture: Lecture
    settings: RunSettings
    variant: Variant = PLAIN


class LectureReader:
    """
    Reads the lectures of one process.

    Args:
        context: what the runners of this process work with.
    """

    def __init__(self, context: RuntimeContext) -> None:
        """Read nothing yet."""
        self._context = context

    def read(self, path: Path, name: str) -> Lecture:
        """
        Read a lecture's file.

        Raises:
            LectureReadError: the file is no lecture, or names an environment profile that does not exist.
        """
        context = self._context
        with library_path(context.rootdir, context.invocation_dir):
            book = context.collection.book_of(path)
            lecture = read_lecture(path, name=name, root=context.rootdir, book=book)
        if (profile := lecture.settings.env_profile) is not None:
            try:
                context.settings.environment.check_profile(profile)
            except SettingsError as exc:
                raise LectureReadError(name, None, f"{lecture.settings.origin('env_profile')}: {exc}") from exc
        replaced = replaced_flags(name, lecture.settings, context.settings)
        return replace(lecture, findings=(*lecture.findings, *replaced))

    def prepare(self, path: Path, name: str, variant: Variant = PLAIN) -> PreparedLecture:
        """
        Read a lecture's file and resolve its settings.

        Raises:
            LectureReadError: see :meth:`read`; or the variant has a value for a parameter that the lecture has not.
        """
        lecture = self.read(path, name)
        book = self._context.collection.book_settings(lecture.path)
        settings = self._context.settings.for_lecture(variant.settings.over(lecture.settings), book)
        # A lecture that is skipped needs no values.
        if not settings.skip_reason and variant.platform in {None, self._context.results.platform}:
            lecture = with_parameters(lecture, variant)
        return PreparedLecture(lecture=lecture, settings=settings, variant=variant)

    def prepare_cohort(self, spec: CohortSpec, path: Path, variant: Variant = PLAIN) -> Mapping[str, PreparedLecture]:
        """
        Read the lectures of a cohort, whose first one is in ``path``.

        Raises:
            LectureReadError: one of them cannot be read.
        """
        first = spec.lectures[0]
        names = dict.fromkeys(spec.lectures)
        root = self._context.rootdir
        return {name: self.prepare(path if name == first else root / name, name, variant) for name in names}

    def why_not_run(self, prepared: PreparedLecture) -> str:
        """Return the reason why a lecture is not run, or an empty string."""
        if prepared.settings.skip_reason:
            return prepared.settings.skip_reason
        platform, pinned = self._context.results.platform, prepared.variant.platform
        if pinned is not None and pinned != platform:
            return f"the variant {prepared.variant.name} is for the platform {pinned}, and this is {platform}"
        if reason := missing_gpu(prepared.settings, self._context.machine, self._context.launcher):
            return reason
        if not prepared.lecture.has_work:
            return f"nothing to run: {nothing_to_run(prepared.lecture)}"
        return ""
