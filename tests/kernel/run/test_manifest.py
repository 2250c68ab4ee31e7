"""The manifest of a run: what lies beneath equal package versions."""

import platform
import sys

import pytest

from pytest_lecturecheck.kernel.process.interpreter_version import read_interpreter_version
from pytest_lecturecheck.kernel.run.manifest_log import python_finding, with_blas
from pytest_lecturecheck.model.manifest import EnvironmentFacts, Fact, Manifest, join_manifest
from pytest_lecturecheck.model.platform import Software

OPENBLAS = "scipy-openblas 0.3.31"


def test_failed_and_killed_lectures_have_a_manifest_too(bench):
    failed = bench.run("import numpy as np; np.ones((300, 300)) @ np.ones((300, 300)); 1 / 0")
    killed = bench.run("import os; os.kill(os.getpid(), 9)")

    assert "blas" in failed.manifest.fact(Fact.LOADED_BLAS)
    assert failed.manifest.fact(Fact.NUMPY_BLAS)
    assert "numpy" in failed.manifest.distributions
    assert "numpy" in failed.software.packages
    assert killed.manifest.fact(Fact.PYTHON) == failed.manifest.fact(Fact.PYTHON)


def test_blas_is_named_without_threadpoolctl():
    manifest = Manifest(facts={Fact.NUMPY_BLAS.value: OPENBLAS, Fact.LOADED_BLAS.value: "blas 3.11.0 (system)"})
    software = Software(packages={"numpy": "2.1.0"})

    assert with_blas(software, manifest).blas == (f"{OPENBLAS} in numpy", "loaded: blas 3.11.0 (system)")
    assert with_blas(Software(packages={"rich": "1"}), manifest).blas == ()


@pytest.mark.parametrize(
    ("libraries", "allocator"),
    [({"c": "6 (system)"}, "glibc 2.36 malloc"), ({"jemalloc": "2 (system)"}, "jemalloc")],
)
def test_the_allocator_follows_from_the_loaded_libraries(libraries, allocator):
    environment = EnvironmentFacts(facts={Fact.LIBC.value: "glibc 2.36"})

    assert join_manifest({}, environment, libraries).fact(Fact.ALLOCATOR) == allocator


@pytest.mark.parametrize(
    ("written", "message"),
    [("3.14.0", "written with Python 3.14, run with 3.11"), ("3.11.2", None), (314, None), ("", None)],
)
def test_another_python_than_the_notebooks_is_a_finding(written, message):
    manifest = Manifest(facts={Fact.PYTHON.value: "CPython 3.11.7"})
    found = python_finding({"language_info": {"name": "python", "version": written}}, manifest)

    assert (found.message if found else None) == message


def test_interpreters_of_programs_are_asked_for_their_version(tmp_path):
    assert read_interpreter_version(sys.executable, tmp_path) == f"Python {platform.python_version()}"
    assert read_interpreter_version("make", tmp_path) == ""
    assert read_interpreter_version("./Rscript", tmp_path) == ""
