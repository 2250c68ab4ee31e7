"""
Load the state of a replay folder into a namespace.

This file stands alone: it needs the standard library. NumPy, SciPy, pandas, JAX and cloudpickle are needed where the
state has their values.

Unpickling runs code of whoever made the folder. Load a folder only if you trust that person.
"""

from __future__ import annotations

import importlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any


def load_state(folder: str, namespace: dict[str, Any]) -> None:
    """
    Put the saved names into ``namespace``, and print which could not be saved.

    Args:
        folder: the folder that holds ``state.json``.
        namespace: the globals of the notebook.
    """
    data = Path(folder)
    state = json.loads((data / "state.json").read_text("ascii"))
    if state["jax_x64"]:
        importlib.import_module("jax").config.update("jax_enable_x64", state["jax_x64"])
    loaded: dict[str, Any] = dict(state["values"])
    for name, module in state["modules"].items():
        loaded[name] = importlib.import_module(module)
    for item in state["arrays"]:
        loaded[item["name"]] = loaded[item["same_as"]] if "same_as" in item else _array(data, item)
    namespace.update(loaded)
    if state["pickled"]:
        _load_pickle(data / "state.pkl", state, namespace, loaded)
    for name, why in state["missing"].items():
        namespace.pop(name, None)
        print(f"not saved: {name} ({why})")  # noqa: T201 - the notebook shows it


def _array(data: Path, item: dict[str, Any]) -> Any:
    path, kind = data / Path(item["file"]).name, item["kind"]
    if kind == "sparse":
        return importlib.import_module("scipy.sparse").load_npz(path)
    values = importlib.import_module("numpy").load(path, allow_pickle=False)
    if kind == "jax":
        return importlib.import_module("jax.numpy").asarray(values)
    return _frame(values, item) if kind == "pandas" else values


def _frame(values: Any, item: dict[str, Any]) -> Any:
    pandas = importlib.import_module("pandas")
    columns = {position: values[f"c{position}"] for position in range(len(item["columns"]))}
    index = pandas.RangeIndex(*item["range"]) if item["range"] else pandas.Index(values["index"])
    index.name = item["index_name"]
    frame = pandas.DataFrame(columns, index=index)
    if item["is_series"]:
        return frame[0].rename(item["series_name"])
    frame.columns = pandas.Index(item["columns"], name=item["columns_name"])
    return frame


def _load_pickle(path: Path, state: dict[str, Any], namespace: dict[str, Any], loaded: dict[str, Any]) -> None:
    here = ".".join(map(str, sys.version_info[:2]))
    if not state["python"].startswith(f"{here}."):
        print(f"saved with Python {state['python']}, loaded with {here}: functions may not work")  # noqa: T201 - as above

    class Loader(pickle.Unpickler):
        """Resolves references to what was saved in another way."""

        def persistent_load(self, reference: Any) -> Any:
            kind, name = reference
            return namespace if kind == "globals" else loaded.get(name)

    with path.open("rb") as file:
        namespace.update(Loader(file).load())
