"""
What code refers to outside of itself: modules, file names, and whether that can be known at all. Pure.

The syntax tree is read; nothing is executed. What cannot be known is ``uncertain`` with its reason, and whoever decides
from it has to expect any file.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

_LONGEST_NAME: Final = 400
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SHELL: Final = re.compile(r"^(?P<indent>\s*)(?:[\w, .\[\]'\"]+=\s*)?(?P<mark>!!?|%)(?=[\w./!{$])(?P<rest>.*)$")
_HELP: Final = re.compile(r"^\s*(?:\?{1,2}[\w.%*]+|%{0,2}[\w.]+\?{1,2})\s*$")
_WORD: Final = re.compile(r"[^\s'\"|;&<>()=,]+")
_PYTHON_MAGICS: Final = frozenset(
    {"%%time", "%%timeit", "%%capture", "%%prun", "%%memit", "%%mprun", "%%python", "%%px"}
)
_PAGE_MAGICS: Final = frozenset(
    {"%%html", "%%HTML", "%%javascript", "%%js", "%%latex", "%%markdown", "%%svg", "%%SVG", "%%file", "%%writefile"}
)
_QUIET_MAGICS: Final = frozenset(
    {
        "autoreload", "colors", "conda", "config", "dirs", "env", "lsmagic", "mamba", "matplotlib", "memit", "mprun",
        "pip", "precision", "prun", "pwd", "pylab", "reset", "set_env", "time", "timeit", "uv", "who", "whos", "xmode",
    }
)  # fmt: skip
_IMPORTING_MAGICS: Final = frozenset({"load_ext", "reload_ext"})
_QUIET_PROGRAMS: Final = frozenset(
    {
        "apt", "apt-get", "brew", "conda", "curl", "date", "df", "echo", "free", "hostname", "ls", "lscpu", "mamba",
        "mkdir", "nproc", "nvcc", "nvidia-smi", "pip", "pip3", "pwd", "quarto", "uname", "uv", "wget", "which",
        "whoami",
    }
)  # fmt: skip
"""Programs that run no file of the repository."""
_READERS: Final = frozenset(
    {
        "Dataset", "File", "Path", "PurePath", "ZipFile", "chdir", "connect", "copyfile", "fromfile",
        "genfromtxt", "glob", "iglob", "imread", "iterdir", "listdir", "load", "load_dataset", "loadmat", "loadtxt",
        "memmap", "open", "rglob", "safe_load", "scandir", "walk",
    }
)  # fmt: skip
_LISTING: Final = frozenset({"iterdir", "listdir", "scandir", "walk"})
_NO_FILE: Final = frozenset({"BytesIO", "StringIO", "get", "urlopen", "urlretrieve", "post", "DataReader", "download"})
"""Functions whose result holds no content of a local file."""
_JOINING: Final = frozenset({"format", "join"})
_PUT_TOGETHER: Final = (ast.Call, ast.JoinedStr, ast.BinOp, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.IfExp)
_RUNNING: Final = frozenset(
    {
        "Popen", "__import__", "check_call", "check_output", "eval", "exec", "import_module", "run_line_magic",
        "run_module", "run_path", "spec_from_file_location", "system",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """
    What code refers to.

    Attributes:
        modules: dotted names that are imported; relative ones begin with dots.
        names: text that may be the name of a file or a folder.
        uncertain: why anything else may be read as well, or an empty string.
    """

    modules: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    uncertain: str = ""


def find_references(cells: Iterable[str]) -> References:
    """Return what the Python code of cells refers to; shell lines and magics of IPython are understood."""
    plain = [_plain_python(cell) for cell in cells]
    names = {name for part in plain for name in part.names}
    modules = {name for part in plain for name in part.modules}
    reasons = [part.uncertain for part in plain if part.uncertain]
    trees: list[ast.AST] = []
    for part in plain:
        tree = _parse(part.code)
        if tree is None:
            reasons.append("a cell is not plain Python")
        else:
            trees.append(tree)
    reader = _TreeReader(trees)
    return References(
        modules=frozenset(modules | reader.modules),
        names=frozenset(name for name in (*names, *reader.names) if _may_name_file(name)),
        uncertain=next(iter([*reasons, *reader.reasons]), ""),
    )


def find_quoted(cells: Iterable[str]) -> References:
    """Return what code of another language quotes; nothing else of it can be known."""
    quoted = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'")
    names = {first or second for cell in cells for first, second in quoted.findall(cell)}
    return References(names=frozenset(filter(_may_name_file, names)), uncertain="the lecture's language is not Python")


def is_pattern(name: str) -> bool:
    """Return True if a name is a pattern of :mod:`glob` that could match some files, and is not mathematics."""
    return any(char in name for char in "*?[") and any(char in name for char in "./") and any(map(str.isalnum, name))


def _may_name_file(name: str) -> bool:
    return (
        0 < len(name) <= _LONGEST_NAME
        and not any(char in name for char in "\0\n")
        and any(char.isalnum() for char in name)
        and _ADDRESS.match(name) is None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlainCode:
    """Code without IPython's syntax, and what the removed lines referred to."""

    code: str
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    uncertain: str = ""


def _plain_python(cell: str) -> _PlainCode:
    rows = cell.replace("\\\n", " ").split("\n")
    first = next((index for index, row in enumerate(rows) if row.strip()), 0)
    if rows[first].startswith("%%"):
        magic, *words = rows[first].split()
        if magic in _PAGE_MAGICS:
            return _PlainCode(code="")
        if magic not in _PYTHON_MAGICS:
            found = tuple(_WORD.findall(cell))
            return _PlainCode(code="", names=found, uncertain=f"a cell begins with {magic}")
        rows[first] = ""
    kept, names, modules, uncertain = [], [], [], ""
    for row in rows:
        match = _SHELL.match(row)
        if match is None:
            kept.append(re.sub(r"\S.*", "pass", row) if _HELP.match(row) else row)
            continue
        kept.append(f"{match['indent']}pass")
        words = _WORD.findall(match["rest"])
        names += words
        if match["mark"] == "%" and words and words[0] in _IMPORTING_MAGICS:
            modules += words[1:]
        else:
            uncertain = uncertain or _why_uncertain(match["mark"], words, match["rest"])
    return _PlainCode(code="\n".join(kept), names=tuple(names), modules=tuple(modules), uncertain=uncertain)


def _why_uncertain(mark: str, words: Sequence[str], rest: str) -> str:
    """Return why a shell line or a magic may read or run any file of the repository, or an empty string."""
    if not words:
        return ""
    is_install = words[0] in {"pip", "pip3", "conda", "mamba", "uv"}
    if is_install and any(word.startswith((".", "/", "git+")) for word in words):
        return f"it installs from a folder ({rest.strip()[:60]!r})"
    known = _QUIET_PROGRAMS if mark.startswith("!") else _QUIET_MAGICS
    if words[0] in known:
        return ""
    return f"it runs {mark + rest.strip()[:60]!r}"


def _parse(code: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree: ast.AST = compile(code, "<cell>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


class _TreeReader:
    """Reads syntax trees; their names are one namespace, as in a kernel."""

    def __init__(self, trees: Sequence[ast.AST]) -> None:
        self.modules: set[str] = set()
        self.names: set[str] = set()
        self.reasons: list[str] = []
        self._bound: dict[str, list[ast.expr | None]] = {}
        try:
            nodes = [node for tree in trees for node in ast.walk(tree)]
            for node in nodes:
                self._bind(node)
            for node in nodes:
                self._read(node)
        except RecursionError:
            self.reasons.append("an expression is nested too deeply")

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            self.modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            # What is imported may be a module itself.
            joint = "" if base.endswith(".") else "."
            self.modules.update([base, *(f"{base}{joint}{alias.name}" for alias in node.names if alias.name != "*")])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.names.add(node.value)
        elif isinstance(node, ast.Call):
            self._read_call(node)

    def _read_call(self, node: ast.Call) -> None:
        name = _called(node)
        if name in _RUNNING or (name == "run" and "subprocess" in ast.dump(node.func)):
            self.reasons.append(f"it calls {name}()")
        elif name in _LISTING and not (node.args and _literal(node.args[0])):
            self.reasons.append(f"it lists a folder with {name}()")
        elif _is_reader(name) and node.args and not self._is_known(node.args[0], frozenset()):
            self.reasons.append(f"it computes the name of a file for {name}()")

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
            self._bind_target(node.target, node.value)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind_target(node.optional_vars, node.context_expr)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind_target(node.target, node.iter)
        elif isinstance(node, ast.arg):
            self._bound.setdefault(node.arg, []).append(None)

    def _bind_target(self, target: ast.expr, value: ast.expr | None) -> None:
        for inner in ast.walk(target):
            if isinstance(inner, ast.Name):
                self._bound.setdefault(inner.id, []).append(value)

    def _is_address(self, node: ast.expr) -> bool:
        """Return True if text begins with the scheme of an address, so that it names no local file."""
        first = _leftmost(node)
        values = self._bound.get(first.id, []) if isinstance(first, ast.Name) else [first]
        starts = [_leftmost(value) if value is not None else None for value in values]
        return bool(starts) and all(
            isinstance(start, ast.Constant) and isinstance(start.value, str) and _ADDRESS.match(start.value)
            for start in starts
        )

    def _is_known(self, node: ast.expr, seen: frozenset[str]) -> bool:
        """Return True if the value of an expression is made of text in the code, of addresses, or of opened files."""
        if self._is_address(node):
            return True
        if isinstance(node, ast.Name):
            values = self._bound.get(node.id, [])
            is_bound = all(value is not None and self._is_known(value, seen | {node.id}) for value in values)
            return node.id in seen or (bool(values) and is_bound)
        if isinstance(node, ast.Call) and _called(node) not in _JOINING:
            return _called(node) in _NO_FILE or _is_reader(_called(node))
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.FormattedValue | ast.Await):
            return self._is_known(node.value, seen)
        if isinstance(node, _PUT_TOGETHER):
            return all(self._is_known(part, seen) for part in _parts(node))
        return isinstance(node, ast.Constant)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    skip = node.func if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute) else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Constant)
    ):
        yield node.func.value
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr) and part is not skip and not (isinstance(node, ast.Call) and part is node.func):
            yield part


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_reader(name: str) -> bool:
    return name in _READERS or name.startswith(("read_", "scan_"))


def _literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and any(map(str.isalnum, node.value))


def _leftmost(node: ast.expr) -> ast.expr:
    """Return the first part of text that is put together."""
    while True:
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.JoinedStr) and node.values:
            node = node.values[0]
        elif isinstance(node, ast.FormattedValue):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return node
