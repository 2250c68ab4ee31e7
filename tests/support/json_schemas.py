"""JSON Schemas of our files, made from the classes that are stored. Run as a script to write docs/schema anew."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.model.metric import Method, Metric, Unit
from pytest_lecturecheck.model.reported_value import NAME
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report import explanation, json_report
from pytest_lecturecheck.store.budget_file.budget_reader import SCHEMA as BUDGET_SCHEMA
from pytest_lecturecheck.store.budget_file.budget_values import (
    ENTRY,
    FIGURE,
    MACHINE,
    MACHINE_REQUIRED,
    METRICS,
    RULES,
    SOFTWARE,
    metric_table,
)
from pytest_lecturecheck.store.record_layout import RECORD_LAYOUTS, record_keys
from pytest_lecturecheck.store.runs import SCHEMA
from pytest_lecturecheck.verdict import Verdict, VerdictKind
from pytest_lecturecheck.verdict.history_lines import HistoryLine

FOLDER = Path(__file__).parents[2] / "docs" / "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT = {"type": "string"}
NUMBER = {"type": "number"}
# JSON has no infinity; records write these words.
FLOAT = {"anyOf": [NUMBER, {"enum": ["inf", "-inf", "nan"]}]}
MOMENT = {"type": "string", "description": "ISO 8601; empty if unknown"}


class RecordSchemas:
    """Schemas of dataclasses as :mod:`pytest_lecturecheck.store.record_writer` writes them; each class has one."""

    def __init__(self):
        self.definitions = {}

    def of(self, annotation):
        """Return the schema of a type."""
        simple = {
            str: TEXT,
            int: {"type": "integer"},
            float: FLOAT,
            bool: {"type": "boolean"},
            dt.date: {"type": "string", "format": "date"},
        }
        if annotation in simple:
            return simple[annotation]
        if typing.get_origin(annotation) is not None:
            return self._generic(typing.get_origin(annotation), typing.get_args(annotation))
        if issubclass(annotation, enum.StrEnum):
            return {"enum": [item.value for item in annotation]}
        if annotation.__name__ not in self.definitions:
            # A run holds runs.
            self.definitions[annotation.__name__] = {}
            self.definitions[annotation.__name__].update(self.object_of(annotation))
        return {"$ref": f"#/$defs/{annotation.__name__}"}

    def _generic(self, origin, arguments):
        if origin is tuple:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is Mapping:
            names = {} if arguments[0] is str else {"propertyNames": self.of(arguments[0])}
            return {"type": "object", **names, "additionalProperties": self.of(arguments[1])}
        # An attribute that is None is left out, or null.
        null = [{"type": "null"}] if types.NoneType in arguments else []
        return {"anyOf": [self.of(item) for item in arguments if item is not types.NoneType] + null}

    def object_of(self, cls, **more):
        """Return the schema of the record of a dataclass; ``more`` are keys that are required beside its own."""
        layout = RECORD_LAYOUTS.get(cls)
        properties, required = dict(more), list(more)
        for item in record_keys(cls):
            owner, name = item.attribute
            properties[item.key] = self.of(typing.get_type_hints(owner)[name])
            if not _has_default(owner, name) and not (layout and _has_default(cls, layout[item.key][0])):
                required.append(item.key)
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _has_default(cls, name):
    (found,) = [item for item in dataclasses.fields(cls) if item.name == name]
    return found.default is not dataclasses.MISSING or found.default_factory is not dataclasses.MISSING


def _document(name, title, body, definitions):
    head = {"$schema": DIALECT, "title": title}
    return name, {**head, **body, **({"$defs": dict(sorted(definitions.items()))} if definitions else {})}


def report_schema():
    schemas, version = RecordSchemas(), {"schema": {"const": SCHEMA}}
    entry = {
        "type": "object",
        "properties": {
            "run": schemas.object_of(Run, **version),
            "verdict": schemas.object_of(Verdict, **version),
            "seconds": NUMBER,
            "budget": schemas.object_of(LectureBudget, **version),
        },
        "required": ["run", "verdict", "seconds"],
        "additionalProperties": False,
    }
    # The package has a verdict on each metric that is declared.
    package = {"metric": schemas.of(Metric), "verdict": schemas.of(VerdictKind), "value": FLOAT, "limit": FLOAT}
    totals = {key: {"type": ["number", "string", "object", "array", "null"]} for key in json_report.totals([])}
    body = {
        "type": "object",
        "properties": {
            "schema": {"const": json_report.SCHEMA},
            "platform": TEXT,
            "session": TEXT,
            "ended": MOMENT,
            "mode": {"enum": ["check", "record", ""]},
            "version": TEXT,
            "commit": TEXT,
            "totals": {
                "type": "object",
                "properties": {**totals, "package": {"type": "array", "items": {"properties": package}}},
                "required": list(totals),
                "additionalProperties": False,
            },
            "runs": {"type": "array", "items": entry},
        },
        "required": ["schema", "platform", "totals", "runs"],
        "additionalProperties": False,
    }
    title = "The JSON report of pytest-lecturecheck, and its kept sessions"
    return _document("report.schema.json", title, body, schemas.definitions)


def history_schema():
    schemas = RecordSchemas()
    body = schemas.object_of(HistoryLine, schema={"const": SCHEMA})
    return _document("history.schema.json", "One line of the history of pytest-lecturecheck", body, schemas.definitions)


def budgets_schema():
    texts = {"type": "array", "items": TEXT}
    special = {
        **{key: {"type": "number", "minimum": 0} for key in ("memory_fraction", "time_factor")},
        **{key: {"type": "integer", "minimum": 0} for key in ("cores", "runs")},
        **dict.fromkeys(("accelerators", "blas", "packages", "relations", "variables"), texts),
        **dict.fromkeys(("at_least",), NUMBER),
        "recorded": {"type": "string", "format": "date", "description": "a local date of TOML"},
        "heaviest_cells": {
            "type": "array",
            "items": _table(
                ("cell", "line", "peak_footprint"), {"cell": {"type": "integer"}, "line": {"type": "integer"}}
            ),
        },
    }
    figure = _table(FIGURE, {**special, "limit": NUMBER, "seen": {"type": "array", "items": NUMBER}})
    metrics = {key: _metric(metric) for key, metric in METRICS.items()}
    entry = _table(ENTRY, special)
    entry["properties"] |= metrics
    entry["properties"]["figures"] = {
        "type": "object",
        "patternProperties": {f"^(?:{NAME.pattern})$": figure},
        "additionalProperties": False,
    }
    lecture = {**entry, "properties": {**entry["properties"], "variants": _named({"$ref": "#/$defs/variant"})}}
    machine = {**_table(MACHINE, special), "required": list(MACHINE_REQUIRED)}
    body = {
        "type": "object",
        "properties": {
            "schema": {"const": BUDGET_SCHEMA},
            "platform": TEXT,
            "rules": _table(RULES, special),
            "lectures": _named({"$ref": "#/$defs/lecture"}),
            "machines": _named({"$ref": "#/$defs/machine"}),
            "software": _named({"$ref": "#/$defs/software"}),
        },
        "required": ["schema"],
        "additionalProperties": False,
    }
    title = "A budget file of pytest-lecturecheck (TOML)"
    parts = {"lecture": lecture, "variant": entry, "machine": machine, "software": _table(SOFTWARE, special)}
    return _document("budgets.schema.json", title, body, parts)


def _named(schema):
    return {"type": "object", "additionalProperties": schema}


def _table(keys, special):
    properties = {key: special.get(key, TEXT) for key in keys}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _metric(metric):
    quantity = {"type": "integer", "minimum": 0} if metric.unit is Unit.COUNT else TEXT
    special = {
        "limit": quantity,
        "seen": {"type": "array", "items": quantity},
        "method": {"enum": [item.value for item in Method]},
        "by_hand": {"const": True},
    }
    return {"anyOf": [quantity, _table(metric_table(metric), special)]}


def explain_schema():
    nothing = {"type": "null"}
    texts = {"type": "array", "items": TEXT}
    limit = {"metric": {"enum": [item.value for item in Metric]}, "measured": NUMBER, "limit": NUMBER}
    failure = {
        **dict.fromkeys(("lecture", "variant", "platform", "headline"), TEXT),
        "verdict": {"enum": [item.value for item in VerdictKind]},
        "cause": {"anyOf": [{"enum": [item.value for item in CauseKind]}, nothing]},
        **{key: {"anyOf": [{"type": "integer"}, nothing]} for key in ("cell", "line")},
        "evidence": texts,
        "advice": texts,
        "limits": {"type": "array", "items": _whole(limit)},
        "next": {"type": "array", "items": _whole({"command": TEXT, "why": TEXT})},
    }
    body = {
        "schema": {"const": explanation.SCHEMA},
        "session": TEXT,
        "platform": TEXT,
        "runs": {"type": "integer"},
        "failures": {"type": "array", "items": _whole(failure)},
    }
    return _document("explain.schema.json", "The output of lecturecheck explain --json", _whole(body), {})


def _whole(properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCHEMAS = dict([report_schema(), history_schema(), budgets_schema(), explain_schema()])


def text_of(schema):
    return json.dumps(schema, indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    for file_name, made in SCHEMAS.items():
        (FOLDER / file_name).write_text(text_of(made), encoding="utf-8")
