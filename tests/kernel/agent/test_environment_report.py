"""What an interpreter's environment consists of, without loading it."""

import json

import pytest

from pytest_lecturecheck.kernel.agent.environment_report import describe_environment, parse_build_config
from pytest_lecturecheck.kernel.process.environment_facts import clean_environment, read_environment

MESON = """
CONFIG = _cleanup({
    "Build Dependencies": {
        "blas": {"name": "scipy-openblas", "found": bool("True".lower()), "version": "0.3.27"},
        "lapack": {"name": "dep4391", "found": True, "version": "unknown"},
    },
})
"""
DISTUTILS = """
blas_ilp64_opt_info={}
blas_opt_info={'libraries': ['mkl_rt', 'pthread', 'mkl_rt'], 'library_dirs': ['/home/ann/lib']}
lapack_opt_info={'libraries': ['lapack', 'blas']}
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MESON, {"blas": "scipy-openblas 0.3.27", "lapack": "dep4391"}),
        (DISTUTILS, {"blas": "mkl_rt pthread", "lapack": "lapack blas"}),
        ("def broken(", {}),
    ],
)
def test_build_configurations_name_blas_and_lapack(text, found):
    assert parse_build_config(text) == found


def write_distribution(folder, name, **files):
    made = folder / f"{name}.dist-info"
    made.mkdir(parents=True)
    for file, text in files.items():
        (made / file.replace("__", ".")).write_text(text, encoding="utf-8")


def test_distributions_have_versions_and_origins_and_no_paths(tmp_path):
    address = json.dumps({"url": "file:///home/ann/mine", "dir_info": {"editable": True}})
    write_distribution(tmp_path / "site-packages", "numpy-2.1.0", INSTALLER="pip\n")
    write_distribution(tmp_path / "site-packages", "My_Package-1.0", INSTALLER="uv", direct_url__json=address)
    (tmp_path / "dist-packages" / "lxml-4.9.egg-info").mkdir(parents=True)

    found = describe_environment([tmp_path / "site-packages", tmp_path / "dist-packages"])

    assert found["distributions"] == {
        "numpy": "2.1.0 (pip)",
        "my-package": "1.0 (uv, local folder)",
        "lxml": "4.9 (system)",
    }
    assert "ann" not in json.dumps(found)
    assert found["facts"]["Python"].startswith("CPython 3.")


def test_unknown_shapes_from_an_interpreter_are_dropped():
    sent = {"facts": {"Python": "CPython 3.12.1", "other": "x", "C library": 3}, "distributions": {"a\nb": "1"}}

    found = clean_environment(sent)

    assert dict(found.facts) == {"Python": "CPython 3.12.1"}
    assert [name for name in found.distributions if "\n" in name] == []
    assert clean_environment(None) == clean_environment({})


def test_programs_that_do_not_answer_are_an_empty_environment():
    assert not read_environment(["/bin/false"], {}).facts
    assert not read_environment([], {}).facts
