"""Variants of a lecture as a session runs them."""

import json

import pytest

LECTURE = """---
kernelspec:
  name: python3
---

```{code-cell}
:tags: [parameters]

size = 1
```

```{code-cell}
import os
print(size, os.environ.get("JAX_ENABLE_X64"))
if size == 3:
    1 / 0
```
"""
GPU = "gpu,precision=f64,size=2"
SETTINGS = """
[axes]
device = ["cpu", "gpu"]
precision = ["f32", "f64"]
size = [2, 3]
"""


@pytest.fixture
def repository(pytester):
    (pytester.path / "a.md").write_text(LECTURE)
    (pytester.path / "lecturecheck.toml").write_text(SETTINGS)
    return pytester


def kept_runs(pytester):
    (path,) = (pytester.path / ".lecturecheck" / "runs").glob("*.json")
    return [entry["run"] for entry in json.loads(path.read_text())["runs"]]


def test_variants_run_in_turn_with_their_values(repository):
    result = repository.runpytest_inprocess(
        "--lecture-budget", "--lecture-no-leases", "--lecture-runs", "2", "-k", "f64 and (cpu or 2)", "-v"
    )
    result.assert_outcomes(passed=1, failed=1, skipped=1, deselected=5)
    result.stdout.fnmatch_lines(["a.md:16", "  skipped: needs a GPU (axis device=gpu), and there is none here"])
    runs = {(run["variant"], run.get("repeat", 1)): run for run in kept_runs(repository)}
    small, large, card = (f"device={rest}" for rest in ("cpu,precision=f64,size=2", "cpu,precision=f64,size=3", GPU))
    assert sorted(runs) == [(small, 1), (small, 2), (large, 1), (card, 1)]
    assert [runs[small, repeat]["compile_cache"] for repeat in (1, 2)] == ["cold", "warm"]
    assert runs[small, 1]["environment"]["JAX_ENABLE_X64"] == "1"
    assert runs[small, 1]["started"] <= runs[large, 1]["started"] <= runs[small, 2]["started"]


def test_budgets_are_recorded_for_each_variant(repository):
    arguments = ["--lecture-no-leases", "-n", "2", "--lecture-variants", "device=cpu,size=2"]
    recorded = repository.runpytest_inprocess("--lecture-record", "--lecture-runs", "1", *arguments)
    recorded.assert_outcomes(passed=2)
    (budgets,) = (repository.path / "lecture-budgets").iterdir()
    assert '[lectures."a.md".variants."device=cpu,precision=f64,size=2"]' in budgets.read_text()
    node_id = "a.md::lecture[device=cpu,precision=f32,size=2]"
    checked = repository.runpytest_inprocess("--lecture-budget", "--lecture-no-leases", node_id)
    checked.assert_outcomes(passed=1)
    checked.stdout.fnmatch_lines(["1 lecture: 1 within; *"])


def test_what_is_skipped_needs_no_parameters(pytester):
    text = LECTURE.replace(":tags: [parameters]\n", "")
    (pytester.path / "elsewhere.md").write_text(text)
    (pytester.path / "never.md").write_text(text.replace("---\n\n", "lecturecheck: {skip: no data}\n---\n\n", 1))
    settings = '[variant.t4]\nplatform = "linux-x86_64-tesla_t4"\nparameters = { size = 2 }\n'
    (pytester.path / "lecturecheck.toml").write_text(settings)
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-no-leases")
    result.assert_outcomes(skipped=2)
