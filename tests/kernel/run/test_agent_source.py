"""Modules of the agent are sent to kernels whose environment does not have this package."""

import ast
import collections
from types import CodeType

import pytest

from pytest_lecturecheck.kernel.run.agent_source import agent_source, module_code


@pytest.mark.parametrize("name", ["capture_reader", "memory_levels", "memory_recorder", "replay_agent"])
def test_a_source_stands_alone(name):
    tree = ast.parse(agent_source(name))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name.startswith("pytest_lecturecheck")]
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    defined += [node.targets[0].id for node in tree.body if isinstance(node, ast.Assign)]
    assert [name for name, count in collections.Counter(defined).items() if count > 1] == []


def test_what_is_imported_twice_is_sent_once():
    # Both other modules of the levels import this one.
    assert agent_source("memory_levels").count("def memory_part(") == 1
    assert "def named_parts(" in agent_source("memory_levels")


def test_compiled_code_names_the_file_it_is_told_to():
    code = module_code("replies", "<shown>")
    inner = [item for item in code.co_consts if isinstance(item, CodeType)]
    assert {code.co_filename, *(item.co_filename for item in inner)} == {"<shown>"}
    namespace = {}
    exec(code, namespace)
    assert callable(namespace["attach_payload"])
