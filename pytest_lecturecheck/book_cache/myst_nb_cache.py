"""
The cache of myst-nb and Jupyter Book 1, through the library jupyter-cache (optional; extra ``book``).

Its key is the MD5 of the code cells (source and metadata) and of the notebook's kernelspec; it knows neither versions
nor platform. See ``JupyterCacheBase.create_hashed_notebook`` of jupyter-cache 1.0 and ``NotebookClientCache`` of
myst-nb 1.4.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.book_cache.port import BookCacheError, CachedEntry, FileAccess
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.lecture import Lecture

NOT_INSTALLED: Final = (
    "jupyter-cache is not installed beside pytest, so the cache of a Jupyter Book 1 or Sphinx book cannot be filled; "
    "install it with pip install 'pytest-lecturecheck[book]'"
)


def is_installed() -> bool:
    """Return True if the library is there; it is not loaded."""
    return find_spec("jupyter_cache") is not None


class MystNbCache:
    """
    A jupyter-cache folder.

    Args:
        folder: the folder; created with the first entry.
    """

    engine = "myst-nb"

    def __init__(self, folder: Path) -> None:
        """Open nothing yet."""
        self.folder = folder

    def key(self, lecture: Lecture, kernel_name: str) -> str:
        """Return the key of a lecture."""
        with self._opened() as cache:
            return _key(cache, _with_kernel(lecture.document, kernel_name))

    def body(self, lecture: Lecture, kernel_name: str, executed: ExecutedLecture) -> str:  # noqa: ARG002 - see BookCache
        """Return the notebook with its outputs as JSON."""
        return json.dumps(_with_kernel(executed.document, kernel_name))

    def find(self, key: str) -> CachedEntry | None:
        """Return the entry of a key, or ``None``."""
        if not (self.folder / "global.db").is_file():
            return None
        from jupyter_cache.cache.db import NbCacheRecord  # noqa: PLC0415 - optional, and slow to import

        with self._opened() as cache:
            try:
                NbCacheRecord.record_from_hashkey(key, cache.db)
            except KeyError:
                return None
        path = self._notebook(key)
        if not path.is_file():
            # A build would stop at such a record; the next entry replaces it.
            return None
        try:
            data = read_plain_bytes(path)
            cells = json.loads(data)["cells"]
            errors = [number for number, cell in enumerate(cells, start=1) if _shows_error(cell)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            msg = f"{path} cannot be read: {exc}; remove it, or the whole folder {self.folder}"
            raise BookCacheError(msg) from exc
        return CachedEntry(digest=hashlib.sha256(data).hexdigest(), cell_count=len(cells), error_cells=tuple(errors))

    def put(self, key: str, body: str, *, source: Path, seconds: float, files: FileAccess) -> str:
        """Put an entry into the cache, and return its digest."""
        import nbformat  # noqa: PLC0415 - loaded with the library

        # A notebook of version 4.4 has no cell ids, for which nbformat would otherwise warn.
        from_dict: Any = nbformat.from_dict
        notebook = from_dict(json.loads(body))
        with files.locked(self.folder), self._opened() as cache:
            if _key(cache, notebook) != key:
                msg = "the run changed the notebook's code or metadata, so that the build would not find the entry"
                raise BookCacheError(msg)
            self._put(cache, notebook, key, source, seconds)
            return hashlib.sha256(read_plain_bytes(self._notebook(key))).hexdigest()

    def _put(self, cache: Any, notebook: Any, key: str, source: Path, seconds: float) -> None:
        from jupyter_cache.base import CacheBundleIn  # noqa: PLC0415 - as above

        if not self._notebook(key).is_file():
            # What a process that was killed has left; the library would stop at the folder.
            shutil.rmtree(self._notebook(key).parent, ignore_errors=True)
        bundle = CacheBundleIn(notebook, str(source), data={"execution_seconds": round(seconds, 6)})
        try:
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        except BaseException:
            self._take_back(cache, key)
            raise

    def _take_back(self, cache: Any, key: str) -> None:
        """Remove a record whose notebook was not written: a build would stop there."""
        from jupyter_cache.cache.db import NbCacheRecord  # noqa: PLC0415 - as above

        try:
            record = NbCacheRecord.record_from_hashkey(key, cache.db)
        except KeyError:
            return
        NbCacheRecord.remove_records([record.pk], cache.db)
        shutil.rmtree(self._notebook(key).parent, ignore_errors=True)

    def _notebook(self, key: str) -> Path:
        return self.folder / "executed" / key / "base.ipynb"

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        from jupyter_cache import get_cache  # noqa: PLC0415 - optional, and slow to import
        from jupyter_cache.base import CachingError  # noqa: PLC0415 - as above
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - comes with the library

        cache = get_cache(self.folder)
        try:
            yield cache
        except (RuntimeError, CachingError, SQLAlchemyError) as exc:
            reason = str(exc).partition("\n")[0]
            msg = f"the book's cache {self.folder} cannot be used: {reason}; remove the folder, or name another one"
            raise BookCacheError(msg) from exc
        finally:
            # The library creates the database with the first access, and never closes it.
            if cache._db is not None:  # noqa: SLF001 - see above
                cache._db.dispose()  # noqa: SLF001 - see above


def _key(cache: Any, notebook: Any) -> str:
    try:
        key: str = cache.create_hashed_notebook(notebook)[1]
    except (TypeError, ValueError) as exc:
        # Options of a cell that JSON cannot hold, such as a date or a key that is no text.
        msg = f"the options of its cells cannot be written as JSON ({exc}); the build fails there, too"
        raise BookCacheError(msg) from exc
    return key


def _with_kernel(document: Any, kernel_name: str) -> Any:
    """Return the notebook with the kernel that the book takes for the one it names."""
    kernelspec = document.metadata.get("kernelspec")
    if not kernelspec or kernelspec.get("name") == kernel_name:
        return document
    document = copy.deepcopy(document)
    document.metadata["kernelspec"]["name"] = kernel_name
    return document


def _shows_error(cell: Any) -> bool:
    return any(output.get("output_type") == "error" for output in cell.get("outputs", ()))
