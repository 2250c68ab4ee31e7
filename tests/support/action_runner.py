"""A stand-in for GitHub's runner: the steps of a composite action, in order, with the files of GitHub Actions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
_BLOCK = re.compile(r"^(?P<name>[\w-]+)<<(?P<mark>\S+)\n(?P<value>.*?)\n?(?P=mark)$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^([\w-]+)=(.*)$", re.MULTILINE)
_COMPARISON = re.compile(r"(?P<name>[\w.-]+) (?P<sign>[!=]=) '(?P<text>[^']*)'")
_SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"], "bash -l {0}": ["bash", "-l"]}


@dataclass
class Job:
    """What a job left: output and status of each step that ran, outputs of the action, the summary."""

    statuses: dict[str, int] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    variables: str = ""


class ActionRunner:
    """
    Runs a composite action in a workspace.

    Args:
        action: its folder.
        base: a folder for what the runner, the cache service and the artifacts hold.
        environment: variables of GitHub.
    """

    def __init__(self, action: Path, base: Path, environment: Mapping[str, str]) -> None:
        self.action, self.base = action, base
        self.definition = yaml.safe_load((action / "action.yml").read_text(encoding="utf-8"))
        self.caches, self.artifacts = base / "caches", base / "artifacts"
        home = base / "home"
        home.mkdir(parents=True)
        # As a login shell of Debian does for root.
        (home / ".bash_profile").write_text('export PATH="/usr/local/bin:/usr/bin:/bin"\n', encoding="utf-8")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOME": str(home), "PATH": path, "GIT_CONFIG_NOSYSTEM": "1", "GITHUB_ACTION_PATH": str(action)}
        self.environment = {**os.environ, **own, **environment}

    def run(self, workspace: Path, inputs: Mapping[str, str], until: str = "", **environment: str) -> Job:
        """Run all steps whose condition holds, or those up to a named one, and return what they left."""
        job, outputs, failed = Job(), {}, False
        values = {name: str(item.get("default", "")) for name, item in self.definition["inputs"].items()} | dict(inputs)
        known = {f"inputs.{name}": text for name, text in values.items()}
        known |= {"github.token": "secret-token"}
        known = {name: self._filled(text, known) for name, text in known.items()}
        for number, step in enumerate(self.definition["runs"]["steps"]):
            names = known | outputs
            if not self._holds(step.get("if", ""), names, failed=failed):
                continue
            name = step["name"]
            folder = self.base / "files" / f"{number}-{len(list(self.base.glob('files/*')))}"
            folder.mkdir(parents=True)
            files = {f"GITHUB_{kind}": str(folder / kind) for kind in ("OUTPUT", "STEP_SUMMARY", "ENV")}
            if "run" in step:
                done = self._shell(step, names, workspace, {**environment, **files, "GITHUB_WORKSPACE": str(workspace)})
                job.statuses[name], job.printed[name] = done.returncode, done.stdout
                failed = failed or done.returncode != 0
            else:
                job.statuses[name] = 0
                done_outputs = self._use(step, names, workspace)
                job.printed[name] = done_outputs
            text = {kind: path.read_text() if (path := folder / kind).exists() else "" for kind in ("OUTPUT", "ENV")}
            job.variables += text["ENV"]
            job.summary += path.read_text() if (path := folder / "STEP_SUMMARY").exists() else ""
            if "id" in step:
                found = {match["name"]: match["value"] for match in _BLOCK.finditer(text["OUTPUT"])}
                found |= dict(_ROW.findall(_BLOCK.sub("", text["OUTPUT"])))
                outputs |= {f"steps.{step['id']}.outputs.{key}": value for key, value in found.items()}
            if name == until:
                break
        for key, item in self.definition["outputs"].items():
            job.outputs[key] = self._filled(item["value"], known | outputs)
        return job

    def _shell(
        self, step: Mapping[str, Any], names: Mapping[str, str], workspace: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        script = self.base / "script.sh"
        script.write_text(step["run"], encoding="utf-8")
        own = {key: self._filled(text, names) for key, text in step.get("env", {}).items()}
        return subprocess.run(
            [*_SHELLS[step["shell"]], str(script)],
            cwd=workspace,
            env={**self.environment, **environment, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def _use(self, step: Mapping[str, Any], names: Mapping[str, str], workspace: Path) -> str:
        """Do what actions/cache and actions/upload-artifact do."""
        values = {key: self._filled(str(text), names) for key, text in step["with"].items()}
        action = step["uses"].partition("@")[0]
        paths = [workspace / path for path in values["path"].split() if (workspace / path).exists()]
        if action == "actions/cache/restore":
            return self._restore(values, workspace)
        target = {
            "actions/cache/save": self.caches / values.get("key", "") / values["path"],
            "actions/upload-artifact": self.artifacts / values.get("name", ""),
        }[action]
        for path in paths:
            place = target if action == "actions/cache/save" else target / path.name
            if path.is_dir():
                shutil.copytree(path, place, dirs_exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
        return ""

    def _restore(self, values: Mapping[str, str], workspace: Path) -> str:
        for prefix in (values["key"], *values["restore-keys"].splitlines()):
            for folder in sorted(self.caches.glob(f"{prefix}*"), key=lambda path: path.stat().st_mtime, reverse=True):
                shutil.copytree(folder, workspace, dirs_exist_ok=True)
                return folder.name
        return ""

    @staticmethod
    def _filled(text: str, names: Mapping[str, str]) -> str:
        return _EXPRESSION.sub(lambda match: names.get(match[1], ""), text)

    @staticmethod
    def _holds(condition: str, names: Mapping[str, str], *, failed: bool) -> bool:
        parts = [part for part in condition.split(" && ") if part]
        if failed and "always()" not in parts:
            return False
        for part in parts:
            if part == "always()":
                continue
            found = _COMPARISON.fullmatch(part)
            assert found is not None, f"the runner does not know {part!r}"
            if (names.get(found["name"], "") == found["text"]) != (found["sign"] == "=="):
                return False
        return True
