import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.messages.agent_reply import clean_payload

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
NAMES = st.sampled_from(["shell_lines", "threads", "breakpoints", "error_line", "exit_asked", "software", "other"])


def test_what_the_agent_says_is_kept():
    said = {
        "shell_lines": [["ls", 2]],
        "replaced": ["numpy 1 -> 2"],
        "threads": [["Thread-1", 3]],
        "breakpoints": 1,
        "error_line": 4,
        "exit_asked": True,
        "software": {
            "python": "CPython 3",
            "packages": {"numpy": "2", "yaml": "6"},
            "distributions": {"yaml": "PyYAML"},
            "variables": {},
            "blas": ["openblas"],
        },
    }
    assert clean_payload(said) == {**said, "shell_lines": [("ls", 2)], "threads": [("Thread-1", 3)]}


@pytest.mark.parametrize(
    "said", [5, None, [], "x", {"threads": [1, 2]}, {"shell_lines": [["a", "b", "c"]], "threads": "zz"}]
)
def test_what_the_agent_would_not_say_is_dropped(said):
    assert not any(clean_payload(said).values())


def test_software_is_short_plain_text():
    said = {
        "python": "CPython\x1b[31m 3" + "x" * 10_000,
        "packages": {"a\n": "1\n2", "b": ["3"], "c": 4, **{f"p{number}": "1" for number in range(5000)}},
        "blas": ["openblas\x1b 1", 5, *["x" * 1000] * 100],
    }
    found = clean_payload({"software": said})["software"]
    assert found["python"] == "CPython [31m 3" + "x" * 186
    assert (found["packages"]["a"], len(found["packages"])) == ("1 2", 2000)
    assert not {"b", "c"} & set(found["packages"])
    assert found["blas"] == ["openblas 1", *["x" * 200] * 19]
    assert clean_payload({"software": {"packages": [1], "blas": {}}})["software"] == {
        "python": "",
        "packages": {},
        "distributions": {},
        "variables": {},
        "blas": [],
    }


def test_only_known_variables_are_kept():
    said = {"OMP_NUM_THREADS": "1", "SECRET": "x", "XLA_FLAGS": "--a\n--b" + "c" * 500, "MALLOC_CONF": 3}
    found = clean_payload({"software": {"variables": said}})["software"]["variables"]
    assert found == {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--a --b" + "c" * 193}


@given(st.dictionaries(NAMES, ANYTHING))
def test_anything_may_be_said(said):
    payload = clean_payload(said)
    assert all(isinstance(name, str) and isinstance(code, int) for name, code in payload.get("shell_lines", []))
    assert all(isinstance(name, str) and isinstance(request, int) for name, request in payload.get("threads", []))
