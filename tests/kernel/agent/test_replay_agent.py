"""What of a namespace a cell reads, and how it is saved and loaded again."""

import json
import subprocess
import sys
import types
from textwrap import dedent

import numpy as np
import pytest
import scipy.sparse
from IPython.core.inputtransformer2 import TransformerManager

from pytest_lecturecheck.kernel.agent import replay_agent
from pytest_lecturecheck.kernel.agent.replay_agent import NO_CLOUDPICKLE, StateSaver, names_read
from pytest_lecturecheck.store.replay.load_state import load_state

PLENTY = 10**8
MODEL = """
    import numpy as np
    scale = lambda x: x * factor
    factor = 3
    A = np.ones((20, 20))
    class Model:
        def __init__(self, n):
            self.n, self.data = n, A
        def run(self):
            return float(helper(self.data)[: self.n].sum())
    def helper(M):
        return scale(M) @ M
    model = Model(4)
    unused = np.ones(3)
    """


def namespace_of(source):
    namespace = {"__name__": "__main__"}
    exec(dedent(source), namespace)
    return namespace


def shell_of(namespace):
    return types.SimpleNamespace(user_ns=namespace, transform_cell=TransformerManager().transform_cell)


def read_by(cell, **names):
    return names_read(shell_of(names), cell)


def save(namespace, cell, folder, limit=PLENTY):
    data = folder / "data"
    data.mkdir(exist_ok=True)
    return StateSaver(namespace, str(data), limit).save(names_read(shell_of(namespace), cell))


def load(folder):
    namespace = {"__name__": "__main__"}
    load_state(str(folder / "data"), namespace)
    return namespace


# -- names ----------------------------------------------------------------------------------------


def test_names_that_a_cell_only_sets_are_not_read():
    assert read_by("a = 1\nb += 1\nc[0] = d", a=0, b=0, c=[0], d=0, e=0) == ["b", "d", "c"]


@pytest.mark.parametrize(
    "cell", ["%%time\nx + 1", "%timeit -n 2 x + 1", "!echo {x}", "f'{x}'", "%%bash\necho $x", "[x for _ in y]"]
)
def test_names_inside_magics_and_strings_are_read(cell):
    assert "x" in read_by(cell, x=1)


def test_history_of_ipython_is_never_read():
    assert read_by("In, Out, _, _3, _i, get_ipython, x", In=[], Out={}, _=1, _3=2, _i="", get_ipython=0, x=1) == ["x"]


def test_functions_classes_and_instances_are_followed():
    names = names_read(shell_of(namespace_of(MODEL)), "model.run()")
    assert set(names) == {"model", "helper", "scale", "factor", "A"}


def test_attributes_of_the_same_name_are_not_read():
    namespace = namespace_of("def f(x): return x.data\ndata = 1")
    assert names_read(shell_of(namespace), "f(1)") == ["f"]


# -- saving and loading ---------------------------------------------------------------------------


def test_a_model_runs_as_before_after_loading(tmp_path):
    namespace = namespace_of(MODEL)
    state = save(namespace, "model.run()", tmp_path)
    again = load(tmp_path)
    assert again["model"].run() == namespace["model"].run()
    assert (state["missing"], "unused" in again) == ({}, False)
    # What was one array is one array, and functions see what the cell changes.
    assert again["model"].data is again["A"]
    again["factor"] = 0
    assert again["model"].run() == 0


def test_what_cannot_be_saved_is_named_and_the_rest_is_saved(tmp_path, capsys):
    namespace = namespace_of("""
        gen = (i for i in range(3))
        square = lambda x: x * x
        class Late: pass
        def noisy(x):
            log.write("x")
            return square(x)
        """)
    with (tmp_path / "log.txt").open("w") as namespace["log"]:
        state = save(namespace, "noisy(2), gen, Late", tmp_path)
    assert state["missing"] == {"gen": "cannot pickle 'generator' object", "log": "it is an open file"}
    again = load(tmp_path)
    assert (again["square"](3), again["Late"]().__class__.__name__) == (9, "Late")
    assert "noisy" in again
    assert not {"gen", "log"} & set(again)
    assert "not saved: log (it is an open file)" in capsys.readouterr().out


def test_a_file_open_for_reading_is_not_read(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("content")
    with path.open() as file:
        state = save({"file": file}, "file", tmp_path)
        assert (state["missing"], file.tell()) == ({"file": "it is an open file"}, 0)


def test_without_cloudpickle_plain_values_are_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_agent, "_cloudpickle", lambda: None)
    namespace = namespace_of(MODEL)
    namespace["table"] = {"a": [1, 2]}
    state = save(namespace, "A, factor, scale, Model, table", tmp_path)
    assert state["missing"] == {"scale": NO_CLOUDPICKLE, "Model": NO_CLOUDPICKLE, "helper": NO_CLOUDPICKLE}
    assert state["has_cloudpickle"] is False
    again = load(tmp_path)
    assert (again["factor"], again["table"], again["A"].sum()) == (3, {"a": [1, 2]}, 400)


def test_values_above_the_limit_are_named(tmp_path):
    namespace = {"large": np.ones(1000), "small": np.ones(10), "text": "x" * 20_000}
    state = save(namespace, "large, small, text", tmp_path, limit=1000)
    assert state["missing"]["large"] == "it has 8,000 bytes, and 1,000 bytes of the limit are left"
    assert "bytes, which are left of the limit" in state["missing"]["text"]
    assert set(load(tmp_path)) == {"__name__", "small"}


def test_values_that_only_together_exceed_the_limit(tmp_path):
    namespace = {"one": "x" * 20_000, "two": "y" * 30_000}
    assert set(save(namespace, "one, two", tmp_path, limit=40_000)["missing"]) == {"two"}
    assert load(tmp_path)["one"] == namespace["one"]


def test_two_names_of_one_array_stay_one_array(tmp_path):
    array = np.arange(6.0).reshape(2, 3, order="F")
    save({"a": array, "b": array}, "a, b", tmp_path)
    again = load(tmp_path)
    assert again["a"] is again["b"]
    assert again["a"].flags.f_contiguous


@pytest.mark.parametrize("value", [np.array([{}, None]), np.ma.masked_array([1, 2], [0, 1])])
def test_arrays_that_need_pickle_are_pickled(tmp_path, value):
    assert replay_agent.array_kind(value) == ""
    state = save({"value": value}, "value", tmp_path)
    assert list(state["pickled"]) == ["value"]
    assert repr(load(tmp_path)["value"]) == repr(value)


def test_sparse_matrices_keep_stored_zeros(tmp_path):
    made = scipy.sparse.csc_array((np.array([2.0, 0.0]), [0, 1], [0, 1, 2]), shape=(2, 2))
    state = save({"S": made}, "S", tmp_path)
    assert (state["arrays"][0]["kind"], state["pickled"]) == ("sparse", {})
    assert load(tmp_path)["S"].nnz == 2


def test_frames_of_numbers_and_dates_need_no_pickle(tmp_path):
    import pandas as pd  # noqa: PLC0415 - takes half a second

    days = pd.to_datetime(["2026-01-01", "2026-01-03"])
    frame = pd.DataFrame({"a": [1, 2], "day": days, 3: [0.5, 1.5]}, index=pd.Index([7, 9], name="key"))
    names = {"frame": frame, "column": frame["a"], "words": pd.DataFrame({"w": ["x", "y"]})}
    state = save(names, "frame, column, words", tmp_path)
    assert list(state["pickled"]) == ["words"]
    again = load(tmp_path)
    pd.testing.assert_frame_equal(again["frame"], frame)
    pd.testing.assert_series_equal(again["column"], frame["a"])


JAX_SCRIPT = """
import sys
import jax
from pytest_lecturecheck.kernel.agent.replay_agent import StateSaver
from pytest_lecturecheck.store.replay.load_state import load_state
state = StateSaver({"J": jax.numpy.arange(3.0)}, sys.argv[1], 10**8).save(["J"])
again = {"__name__": "__main__"}
load_state(sys.argv[1], again)
print(isinstance(again["J"], jax.Array), again["J"].tolist(), state["pickled"])
"""


def test_arrays_of_jax_come_back_as_such(tmp_path):
    """In a process of its own: a process that has loaded JAX must not fork, and other tests fork this one."""
    script = [sys.executable, "-c", JAX_SCRIPT, str(tmp_path)]
    found = subprocess.run(script, capture_output=True, text=True, check=True)
    assert found.stdout == "True [0.0, 1.0, 2.0] {}\n"


def test_a_fault_is_an_answer(tmp_path):
    answer = tmp_path / "answer"
    replay_agent.capture(str(answer), None, "x", str(tmp_path), 1)
    assert "user_ns" in json.loads(answer.read_text())["error"]
