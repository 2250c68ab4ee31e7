"""Read workflows of GitHub Actions as values that know their lines. Nothing in them is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_text

_MOST_DEPTH: Final = 60
_MOST_NODES: Final = 100_000
_FOLDER: Final = Path(".github", "workflows")


class Table(dict[str, Any]):
    """A mapping of YAML whose values are text, lists and tables; ``lines`` has the line of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}

    def table(self, key: str) -> Table:
        """Return the table under a key, or an empty one."""
        found = self.get(key)
        return found if isinstance(found, Table) else Table()

    def text(self, key: str) -> str:
        """Return the text under a key, or an empty string."""
        found = self.get(key)
        return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One step.

    Attributes:
        line: line on which it begins.
        name: its name, or an empty string.
        uses: the action that it calls, or an empty string.
        inputs: inputs of that action.
        script: the shell script that it runs, or an empty string.
        script_line: line of the script's first line.
        shell: the shell as the workflow names it; empty for the default of the runner.
        condition: text of ``if``.
        env: its variables.
        continues: whether its failure is ignored.
        lines: lines of its keys.
    """

    line: int
    name: str = ""
    uses: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    script: str = ""
    script_line: int = 0
    shell: str = ""
    condition: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    continues: bool = False
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job of a workflow; ``line`` is that of its id, and ``timeout_minutes`` is ``None`` if there is none."""

    line: int
    name: str
    runner: str
    runner_line: int
    timeout_minutes: float | None
    timeout_line: int
    steps: tuple[Step, ...]
    writes_pages: bool
    continues: bool
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow file; ``shown`` is its path from the repository's top."""

    shown: str
    triggers: frozenset[str]
    pushes_tags: bool
    jobs: tuple[Job, ...]


def read_workflows(root: Path) -> list[Workflow]:
    """
    Read the workflows of a repository, sorted by name.

    Raises:
        SettingsError: there are none, or one cannot be read; the message names file and line.
    """
    paths = _workflow_paths(root)
    if not paths:
        msg = f"{root / _FOLDER}: no workflow was found; expected .yml files, such as those of GitHub Actions"
        raise SettingsError(msg)
    return [read_workflow(path, path.relative_to(root).as_posix()) for path in paths]


def has_workflows(root: Path) -> bool:
    """Return True if a repository has workflows of GitHub Actions."""
    return bool(_workflow_paths(root))


def _workflow_paths(root: Path) -> list[Path]:
    return sorted(path for path in (root / _FOLDER).glob("*") if path.suffix in {".yml", ".yaml"})


def read_workflow(path: Path, shown: str) -> Workflow:
    """
    Read one workflow.

    Raises:
        SettingsError: it is no YAML, or no mapping.
    """
    import yaml  # noqa: PLC0415 - only for the audit

    try:
        text = read_plain_text(path, most_bytes=MOST_SETTINGS_BYTES, encoding="utf-8-sig")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = _Values().value_of(node)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as exc:
        msg = f"{shown}: cannot be read as YAML: {' '.join(str(exc).split())}"
        raise SettingsError(msg) from exc
    if not isinstance(document, Table):
        msg = f"{shown}: it is not a mapping; expected a workflow with on and jobs"
        raise SettingsError(msg)
    events = document.get("on")
    names = list(events) if isinstance(events, Table | list) else [str(events or "")]
    push = events.table("push") if isinstance(events, Table) else Table()
    jobs = document.table("jobs")
    shell = document.table("defaults").table("run").text("shell")
    pages = document.table("permissions").text("pages") == "write"
    return Workflow(
        shown=shown,
        triggers=frozenset(str(name) for name in names),
        pushes_tags="tags" in push,
        jobs=tuple(
            _job(name, jobs.lines[name], jobs.table(name), shell, document.table("env"), pages=pages) for name in jobs
        ),
    )


def _job(name: str, line: int, table: Table, shell: str, env: Table, *, pages: bool) -> Job:
    steps = table.get("steps")
    runner = table.get("runs-on", "")
    labels = runner if isinstance(runner, list) else [runner]
    on_windows = any("windows" in str(label).lower() for label in labels)
    own_shell = table.table("defaults").table("run").text("shell") or shell or ("pwsh" if on_windows else "")
    permissions = table.table("permissions")
    return Job(
        line=line,
        name=name,
        runner=" ".join(label for label in labels if isinstance(label, str)),
        runner_line=table.lines.get("runs-on", line),
        timeout_minutes=_number(table.text("timeout-minutes")),
        timeout_line=table.lines.get("timeout-minutes", line),
        steps=tuple(_steps(steps if isinstance(steps, list) else [], own_shell, line)),
        writes_pages=permissions.text("pages") == "write" if permissions else pages,
        continues=table.text("continue-on-error") == "true",
        env={**_texts(env), **_texts(table.table("env"))},
    )


def _steps(items: list[Any], shell: str, line: int) -> Iterator[Step]:
    for item in items:
        if not isinstance(item, Table):
            continue
        yield Step(
            line=min(item.lines.values(), default=line),
            name=item.text("name"),
            uses=item.text("uses"),
            inputs=_texts(item.table("with")),
            script=item.text("run"),
            script_line=item.lines.get("run value", 0),
            shell=item.text("shell") or shell,
            condition=item.text("if"),
            env=_texts(item.table("env")),
            continues=item.text("continue-on-error") == "true",
            lines=item.lines,
        )


def _texts(table: Table) -> dict[str, str]:
    return {key: value for key, value in table.items() if isinstance(value, str)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


class _Values:
    """Builds the value of a document. Each node is counted, because aliases of aliases grow without bound."""

    def __init__(self) -> None:
        self._count = 0

    def value_of(self, node: Any, depth: int = 0) -> Any:
        """Return a node as text, list or :class:`Table`; scalars stay text, because ``on`` would become a boolean."""
        self._count += 1
        if depth > _MOST_DEPTH or self._count > _MOST_NODES:
            msg = "it is nested too deeply" if depth > _MOST_DEPTH else f"it has more than {_MOST_NODES:,} values"
            raise ValueError(msg)
        if node is None:
            return ""
        if node.id == "scalar":
            return str(node.value)
        if node.id == "sequence":
            return [self.value_of(item, depth + 1) for item in node.value]
        table = Table()
        for key, value in node.value:
            name = str(key.value)
            table[name] = self.value_of(value, depth + 1)
            table.lines[name] = key.start_mark.line + 1
            # A block begins on the line after its mark.
            is_block = getattr(value, "style", None) in {"|", ">"}
            table.lines[f"{name} value"] = value.start_mark.line + (2 if is_block else 1)
        return table
