"""
Write arrays and tables of numbers without pickle.

Standard library only; NumPy, SciPy, pandas and JAX are looked up in ``sys.modules`` and never imported.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

_PLAIN_KINDS = "biufcmMSUV"
_FRAME_KINDS = "biufcmM"


def array_kind(value: Any) -> str:
    """Return how an array is saved without pickle ("numpy", "sparse", "pandas", "jax"), or an empty string."""
    numpy, sparse = sys.modules.get("numpy"), sys.modules.get("scipy.sparse")
    pandas, jax = sys.modules.get("pandas"), sys.modules.get("jax")
    with contextlib.suppress(Exception):
        if numpy is not None and type(value) is numpy.ndarray:
            return "numpy" if value.dtype.kind in _PLAIN_KINDS and not value.dtype.hasobject else ""
        if sparse is not None and sparse.issparse(value):
            is_scipy = type(value).__module__.startswith("scipy.sparse")
            return "sparse" if is_scipy and value.format in {"csr", "csc", "bsr", "dia", "coo"} else ""
        if pandas is not None and type(value) in (pandas.DataFrame, pandas.Series):
            return "pandas" if _is_plain_frame(pandas, value) else ""
        if jax is not None and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            return "jax" if value.is_fully_addressable and value.dtype.kind in "biufc" else ""
    return ""


def _is_plain_frame(pandas: Any, value: Any) -> bool:
    frame = value.to_frame() if type(value) is pandas.Series else value
    labels = [*frame.columns, frame.columns.name, frame.index.name, *([value.name] if frame is not value else [])]
    dtypes = [*frame.dtypes, frame.index.dtype]
    return (
        not isinstance(frame.columns, pandas.MultiIndex)
        and not isinstance(frame.index, pandas.MultiIndex)
        and not frame.attrs
        and all(label is None or type(label) in (str, int) for label in labels)
        and all(getattr(dtype, "kind", "O") in _FRAME_KINDS and type(dtype).__module__ != "pandas" for dtype in dtypes)
        and all(isinstance(dtype, sys.modules["numpy"].dtype) for dtype in dtypes)
        and getattr(frame.index, "freq", None) is None
    )


def size_of_array(kind: str, value: Any) -> int:
    """Return the bytes of an array of a kind."""
    if kind == "sparse":
        parts = (getattr(value, part, None) for part in ("data", "indices", "indptr", "row", "col", "offsets"))
        return sum(int(getattr(part, "nbytes", 0)) for part in parts)
    if kind == "pandas":
        used = value.memory_usage()
        return int(used if isinstance(used, int) else used.sum())
    return int(value.nbytes)


def write_array(kind: str, value: Any, path: str) -> dict[str, Any]:
    """Write an array; return what a reader needs besides the file."""
    numpy = sys.modules["numpy"]
    if kind == "sparse":
        sys.modules["scipy.sparse"].save_npz(path, value, compressed=False)
        return {}
    if kind == "pandas":
        return _write_frame(numpy, value, path)
    with open(path, "wb") as file:  # noqa: PTH123 - as above
        numpy.save(file, numpy.asarray(value), allow_pickle=False)
    return {}


def _write_frame(numpy: Any, value: Any, path: str) -> dict[str, Any]:
    is_series = not hasattr(value, "columns")
    frame = value.to_frame() if is_series else value
    index = frame.index
    is_range = type(index).__name__ == "RangeIndex"
    parts = {f"c{position}": frame.iloc[:, position].to_numpy() for position in range(frame.shape[1])}
    if not is_range:
        parts["index"] = index.to_numpy()
    numpy.savez(path, **parts)
    return {
        "columns": list(frame.columns),
        "columns_name": frame.columns.name,
        "range": [index.start, index.stop, index.step] if is_range else None,
        "index_name": index.name,
        "is_series": is_series,
        "series_name": value.name if is_series else None,
    }
