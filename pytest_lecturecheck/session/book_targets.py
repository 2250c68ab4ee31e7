"""Find the caches that a lecture belongs into, each with the page as the build of the book reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pytest_lecturecheck.book_cache.eligibility import BuildView, explain_page
from pytest_lecturecheck.book_cache.myst_nb_cache import NOT_INSTALLED, MystNbCache, is_installed
from pytest_lecturecheck.book_cache.mystmd_cache import MystmdCache
from pytest_lecturecheck.book_cache.port import BookCache
from pytest_lecturecheck.config.options import BookCacheRequest
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.lecture.book.configuration import read_mystmd_twin
from pytest_lecturecheck.lecture.book.pages import Book, BookEngine
from pytest_lecturecheck.lecture.book.unexecuted_pages import explain_unexecuted
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.lecture import Lecture, LectureFormat
from pytest_lecturecheck.session.lecture_reader import PreparedLecture
from pytest_lecturecheck.session.library_path import library_path
from pytest_lecturecheck.session.runtime_context import RuntimeContext

_DEFAULT_MODE = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTarget:
    """
    A cache that a lecture belongs into.

    Attributes:
        cache: the cache.
        view: the page as its build runs it.
    """

    cache: BookCache
    view: BuildView

    @property
    def kernel_name(self) -> str:
        """Return the kernel's name as keys need it."""
        return self.view.kernel_name or ""

    def key(self) -> str:
        """Return the lecture's key in this cache."""
        return self.cache.key(self.view.lecture, self.kernel_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTargets:
    """The caches of a lecture, and why others of its book cannot hold it."""

    targets: tuple[CacheTarget, ...] = ()
    obstacles: tuple[str, ...] = ()


def find_targets(context: RuntimeContext, prepared: PreparedLecture, request: BookCacheRequest) -> CacheTargets:
    """
    Return the caches that a lecture belongs into.

    Args:
        context: the session.
        prepared: the lecture.
        request: the folder that the user chose, if any.
    """
    lecture = prepared.lecture
    book = context.collection.book_of(lecture.path)
    if book is None:
        return CacheTargets(
            obstacles=("it belongs to no book: no folder above it has a _config.yml, myst.yml or conf.py",)
        )
    found: list[CacheTarget] = []
    obstacles: list[str] = []
    first = _target(context, book, lecture, request.folder)
    for result in (first, _twin_target(context, book, lecture)):
        if isinstance(result, str):
            obstacles += [result] if result else []
        elif obstacle := _page_obstacle(result, book) or _place_obstacle(context.rootdir, result, request.folder):
            obstacles.append(obstacle)
        else:
            found.append(result)
    return CacheTargets(targets=tuple(found), obstacles=tuple(obstacles))


def _page_obstacle(target: CacheTarget, book: Book) -> str:
    if obstacle := explain_page(target.view):
        return obstacle
    if target.cache.engine != BookEngine.MYST_NB:
        return ""
    lecture = target.view.lecture
    if explain_unexecuted(book, lecture.path, lecture.document.metadata):
        return "the build does not execute this page, because its front matter has neither file_format nor jupytext"
    own = target.view.lecture.metadata.get("mystnb")
    own_mode = own.get("execution_mode") if isinstance(own, Mapping) else None
    mode = own_mode or book.cache.mode or _DEFAULT_MODE
    if mode == "cache":
        return "" if is_installed() else NOT_INSTALLED
    origin = "its own mystnb.execution_mode" if own_mode else book.cache.mode_origin
    return f"{origin} is {mode!r}, so that the build does not look into the cache; set it to 'cache'"


def _place_obstacle(rootdir: Path, target: CacheTarget, chosen: Path | None) -> str:
    """Return why a folder is not written to: a book must not decide on what is outside of its project."""
    folder = Path(os.path.realpath(target.cache.folder))
    parents = (rootdir, *rootdir.parents)
    project = Path(os.path.realpath(next((parent for parent in parents if (parent / ".git").exists()), rootdir)))
    if chosen is not None or folder.is_relative_to(project):
        return ""
    return (
        f"the configuration of its book puts the cache outside of the project, into {folder}; if that is meant, name "
        "the folder with --lecture-cache DIR"
    )


def _target(context: RuntimeContext, book: Book, lecture: Lecture, folder: Path | None) -> CacheTarget:
    is_page = (
        lecture.format in {LectureFormat.IPYNB, LectureFormat.MYST} or book.custom_format(lecture.path) is not None
    )
    if book.engine is BookEngine.MYSTMD:
        view = BuildView(engine=book.engine, lecture=lecture, kernel_name=lecture.kernel_name, is_page=is_page)
        return CacheTarget(cache=MystmdCache(folder or book.folder / "_build" / "execute"), view=view)
    own = lecture.metadata.get("mystnb")
    in_temp = own.get("execution_in_temp") if isinstance(own, Mapping) else None
    view = BuildView(
        engine=book.engine,
        lecture=lecture,
        kernel_name=book.cache.kernel_name(lecture.kernel_name),
        runs_in_temp=bool(book.settings.run_in_temp if in_temp is None else in_temp),
        is_page=is_page,
    )
    if folder is None:
        # A relative path is relative to the folder in which the build is started.
        named = context.invocation_dir / book.cache.folder if book.cache.folder else None
        folder = named or book.folder / "_build" / ".jupyter_cache"
    return CacheTarget(cache=MystNbCache(folder), view=view)


def _twin_target(context: RuntimeContext, book: Book, lecture: Lecture) -> CacheTarget | str:
    """Return the target in the mystmd book of the same folder, why there is none, or an empty string."""
    try:
        twin = read_mystmd_twin(book)
        if twin is None or twin.why_excluded(lecture.path):
            return ""
        with library_path(context.rootdir, context.invocation_dir):
            page = read_lecture(lecture.path, name=lecture.name, root=context.rootdir, book=twin)
    except LectureCheckError as exc:
        return f"mystmd reads the page otherwise: {exc}"
    return _target(context, twin, page, None)
