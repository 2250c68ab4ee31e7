"""Which changed files a lecture depends on."""

import pytest
from support.git_repository import make_repository, write

from pytest_lecturecheck.repository.code_references import find_references
from pytest_lecturecheck.repository.environment_files import decides_environment
from pytest_lecturecheck.repository.local_files import find_changed_file
from pytest_lecturecheck.repository.tree_changes import read_changes

FILES = {
    "lectures/helper.py": "from tools import deep\n",
    "lectures/data/x.csv": "1",
    "lectures/other.csv": "1",
    "lectures/page.md": "text",
    "lectures/pkg/__init__.py": "from .inner import f\n",
    "lectures/pkg/inner.py": "f = open('table.txt')\n",
    "lectures/pkg/table.txt": "1",
    "src/tools/__init__.py": "",
    "src/tools/deep.py": "",
    ".gitignore": "*.out\n",
}


@pytest.fixture
def reason(tmp_path):
    root = make_repository(tmp_path, FILES)

    def ask(code, changes):
        write(root, changes)
        return find_changed_file(find_references([code]), root / "lectures", read_changes(root, "base"))

    return ask


@pytest.mark.parametrize(
    ("code", "changed", "said"),
    [
        ("import helper", "lectures/helper.py", "the module 'lectures/helper.py' differs"),
        ("import helper", "src/tools/deep.py", "the module 'src/tools/deep.py' differs"),
        ("import pkg", "lectures/pkg/inner.py", "the module 'lectures/pkg/inner.py' differs"),
        ("import pkg", "lectures/pkg/table.txt", "'lectures/pkg/table.txt' differs"),
        ("import numpy", "lectures/numpy.py", "the module 'lectures/numpy.py' differs"),
        ("open('data/x.csv')", "lectures/data/x.csv", "'lectures/data/x.csv' differs"),
        ("open(DATA / 'x.csv')\nDATA = 'data'", "lectures/data/x.csv", "'lectures/data/x.csv' differs"),
        ("f('data')", "lectures/data/new.csv", "'lectures/data/new.csv' differs"),
        ("glob.glob('data/*.csv')", "lectures/data/y.csv", "'lectures/data/y.csv' differs"),
        ("open('made.out')", "lectures/made.out", "'lectures/made.out' is not in the repository"),
        ("open(name())", "other/z.csv", "it computes the name of a file for open(), and 'other/z.csv' differs"),
    ],
)
def test_a_lecture_depends_on(reason, code, changed, said):
    assert reason(code, {changed: "# changed"}) == said


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("import helper", "lectures/other.csv"),
        ("import numpy", "lectures/data/x.csv"),
        ("open('data/x.csv')", "lectures/other.csv"),
        ("plt.plot(x, '.')", "lectures/page.md"),
        ("open(name())", "lectures/page.md"),
        ("open(name())", "README.md"),
    ],
)
def test_a_lecture_does_not_depend_on(reason, code, changed):
    assert reason(code, {changed: "# changed"}) == ""


def test_a_deleted_module_counts(tmp_path):
    root = make_repository(tmp_path, FILES)
    (root / "lectures" / "helper.py").unlink()
    found = find_changed_file(find_references(["import helper"]), root / "lectures", read_changes(root, "base"))
    assert found == "the module 'lectures/helper.py' differs"


def test_a_file_outside_of_the_repository_is_unknown(tmp_path):
    root = make_repository(tmp_path / "inner", FILES)
    (tmp_path / "far.csv").write_text("")
    found = find_changed_file(find_references(["open('../../far.csv')"]), root / "lectures", read_changes(root, "base"))
    assert found == "'../../far.csv' is outside of the repository"


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt", "docs/requirements-dev.txt", "dev-requirements.in", "environment.yml",
        "my-environment-gpu.yaml", "uv.lock", "pylock.toml", "pylock.gpu.toml", "binder/apt.txt",
        ".github/workflows/ci.yml", "constraints.txt", "Pipfile", "Project.toml", "Dockerfile",
    ],
)  # fmt: skip
def test_files_that_decide_about_the_environment(name):
    assert decides_environment(name)


@pytest.mark.parametrize("name", ["README.md", "lectures/intro.md", ".github/CONTRIBUTING.md", "data/requirements.csv"])
def test_files_that_do_not_decide_about_the_environment(name):
    assert not decides_environment(name)
