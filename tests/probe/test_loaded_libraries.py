"""Native libraries of a process as names and versions."""

from types import SimpleNamespace

import pytest

from pytest_lecturecheck.probe.loaded_libraries import _mapped_files, parse_library_name, parse_maps, parse_paths

WHEEL = "/home/ann/venv/lib/python3.12/site-packages"
MAPS = "\n".join(
    f"7f0000000000-7f0000001000 r-xp 00000000 fe:01 77 {' ' * 20}{path}"
    for path in (
        f"{WHEEL}/numpy.libs/libscipy_openblas64_-ff651d7f.so",
        f"{WHEEL}/numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so",
        f"{WHEEL}/jaxlib/libjax_common.so",
        "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0",
        "/opt/conda/lib/libmkl_rt.so.2",
        "/home/ann/data/library.bin",
        "[heap]",
        "/usr/lib/x86_64-linux-gnu/libm.so.6 (deleted)",
    )
)


def test_only_names_versions_and_origins_are_kept():
    found = parse_maps(MAPS)

    assert found == {
        "scipy_openblas64_": "(with numpy)",
        "jax_common": "(with jaxlib)",
        "blas": "3.11.0 (system)",
        "mkl_rt": "2 (environment)",
        "m": "6 (system)",
    }
    assert "ann" not in str(found)


def test_libraries_of_windows_have_names_and_origins():
    folder = "C:\\Users\\ann\\venv\\Lib\\site-packages"
    paths = [
        f"{folder}\\numpy.libs\\libscipy_openblas64_-ff651d7f.dll",
        f"{folder}\\numpy\\_core\\_multiarray_umath.cp312-win_amd64.pyd",
        "C:\\Windows\\System32\\KERNEL32.DLL",
        "C:\\Users\\ann\\data.bin",
    ]
    found = parse_paths(paths)

    assert found == {"scipy_openblas64_": "(with numpy)", "KERNEL32": "(system)"}


def test_a_system_that_shows_no_files_has_no_libraries():
    assert _mapped_files(lambda _pid: SimpleNamespace(), 1) == []
    shown = SimpleNamespace(memory_maps=lambda: [SimpleNamespace(path="/usr/lib/libm.so.6")])
    assert _mapped_files(lambda _pid: shown, 1) == ["/usr/lib/libm.so.6"]


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("libopenblas64_p-r0-0cf96a72.3.23.dev.so", ("openblas64_p", "r0.3.23.dev")),
        ("libgfortran-040039e1-0352e75f.so.5.0.0", ("gfortran", "5.0.0")),
        ("libopenblasp-r0.3.21.so", ("openblasp", "r0.3.21")),
        ("libstdc++.so.6.0.30", ("stdc++", "6.0.30")),
        ("libomp.dylib", ("omp", "")),
        ("libnotes.txt", None),
    ],
)
def test_library_names_and_versions(file, parts):
    assert parse_library_name(file) == parts
