"""Machines, readers' targets and priors of the settings."""

import re

import pytest

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.fleet import (
    BUILT_IN_TARGETS,
    MachineType,
    Prior,
    parse_machines,
    parse_priors,
    parse_targets,
)


def test_a_machine_is_measured_on_the_platform_of_its_name():
    table = {"price": 0.5, "cores": 8, "memory": "32 GB", "gpus": 1, "gpu-memory": "16 GB"}
    assert parse_machines({"g4dn": table}) == (
        MachineType(
            name="g4dn",
            price=0.5,
            core_count=8,
            memory_bytes=32 * 10**9,
            gpu_count=1,
            gpu_bytes=16 * 10**9,
            platform="g4dn",
        ),
    )


def test_built_in_targets_can_be_replaced_and_added_to():
    found = {item.name: item for item in parse_targets({"binder": {"memory": "1 GB"}, "lab": {"memory": "64 GB"}})}
    assert found["binder"].memory_bytes == 10**9
    assert set(found) == {item.name for item in BUILT_IN_TARGETS} | {"lab"}


def test_a_prior_is_an_interval_of_a_value():
    assert parse_priors({"p": {"of": "x", "between": [1, 2]}}) == (Prior(name="p", of="x", low=1, high=2),)


@pytest.mark.parametrize(
    ("parse", "tables", "message"),
    [
        (parse_machines, 5, "machines = 5 is not a table; expected [machines.NAME] with price, cores, "),
        (parse_machines, {"a": {"cost": 1}}, "[machines.a]: unknown key 'cost'; "),
        (parse_machines, {"a": {"price": -1}}, "[machines.a] price: -1 is not a price of an hour; "),
        (parse_machines, {"a": {"memory": 16}}, "[machines.a] memory: "),
        (parse_machines, {"a b": {}}, "[machines.a b]: {} cannot be used; "),
        (parse_targets, {"a": {"gpu": True}}, "[targets.a]: memory is missing; expected for example memory = '8 GB'"),
        (parse_targets, {"a": {"memory": "1 GB", "gpu": 1}}, "[targets.a] gpu: 1 is neither true nor false"),
        (parse_priors, {"a": {"of": "x"}}, "[priors.a]: expected of = 'the name of a value' and between = [1.8, 2.2]"),
        (parse_priors, {"a": {"of": "x", "between": [2, 1]}}, "[priors.a] between: [2, 1] is not an interval; "),
        (parse_priors, {"a": {"of": "x", "between": 2}}, "[priors.a] between: 2 is not an interval; "),
    ],
)
def test_tables_that_cannot_be_used(parse, tables, message):
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}"):
        parse(tables)
