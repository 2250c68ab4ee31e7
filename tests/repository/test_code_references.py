"""What code refers to: modules, names of files, and what cannot be known."""

import pytest

from pytest_lecturecheck.repository.code_references import find_quoted, find_references


def test_imports_are_found_wherever_they_are():
    inner = "def f():\n    from e import g\n    from . import h\n    from ..i import *"
    found = find_references(["import a.b, c as d", inner])
    assert found.modules == {"a.b", "c", "e", "e.g", ".", ".h", "..i"}
    assert not found.uncertain


def test_text_of_several_lines_and_addresses_are_no_names():
    found = find_references(['x = "data/x.csv"\n"""a\nb"""\ny = "https://host/z.csv"; z = "."'])
    assert found.names == {"data/x.csv"}


@pytest.mark.parametrize(
    "code",
    [
        "import pandas as pd\nname = 'a.csv'\npd.read_csv(name)",
        "url = 'https://host/'\npd.read_csv(url + part)",
        "pd.read_csv(f'https://host/{part}.csv')",
        "with open('a.json') as file:\n    json.load(file)",
        "np.load(io.BytesIO(requests.get(url).content))",
        "for name in ['a', 'b']:\n    open(name)",
        "open(os.path.join('data', 'a.csv'))",
        "open(Path('data') / 'a.csv')",
        "%matplotlib inline\n!pip install numpy\n!nvidia-smi\nx = 1",
        "%%time\nx = 1",
        "await f()",
        "print?\n?print",
        "%load_ext autoreload\n%autoreload 2",
        "x = 5\nx %2",
    ],
)
def test_what_can_be_known_is_certain(code):
    assert not find_references([code]).uncertain


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def load(name):\n    return pd.read_csv(name)", "it computes the name of a file for read_csv()"),
        ("pd.read_csv(f'{x()}.csv')", "it computes the name of a file for read_csv()"),
        ("open(unknown)", "it computes the name of a file for open()"),
        ("os.listdir()", "it lists a folder with listdir()"),
        ("os.listdir('.')", "it lists a folder with listdir()"),
        ("importlib.import_module(name)", "it calls import_module()"),
        ("subprocess.run(['make'])", "it calls run()"),
        ("%run helper.py", "it runs '%run helper.py'"),
        ("!python helper.py", "it runs '!python helper.py'"),
        ("x = !cat a.csv", "it runs '!cat a.csv'"),
        ("!pip install -e ..", "it installs from a folder ('pip install -e ..')"),
        ("%%bash\ncat a.csv", "a cell begins with %%bash"),
        ("for for", "a cell is not plain Python"),
    ],
)
def test_what_cannot_be_known_has_a_reason(code, reason):
    assert find_references([code]).uncertain == reason


def test_words_of_shell_lines_are_names():
    assert {"a.csv", "helper.py"} <= find_references(["!python helper.py a.csv"]).names


def test_a_name_is_known_in_all_cells():
    assert not find_references(["name = 'a.csv'", "open(name)"]).uncertain


def test_other_languages_have_quoted_names_only():
    found = find_quoted(["x = read(\"a.csv\") # 'b.csv'"])
    assert found.names == {"a.csv", "b.csv"}
    assert found.uncertain == "the lecture's language is not Python"


def test_deep_nesting_is_uncertain():
    assert find_references(["(" * 500 + ")" * 500]).uncertain
