"""
The rules in order; the first that matches decides.

What we did ourselves comes first (a cap, time limits: whatever error or signal came of that), and kills for memory that
are on record; a kernel that was never ready; then what the cell raised, then how the process ended. To add evidence,
add a rule before the weaker one that it makes obsolete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from pytest_lecturecheck.diagnosis import (
    cell_errors,
    deaths,
    memory_errors,
    network,
    no_answers,
    oom_kills,
    scheduler_ends,
    shadowing,
    timeouts,
)
from pytest_lecturecheck.diagnosis.cause import Cause
from pytest_lecturecheck.diagnosis.gpu import driver as driver_errors
from pytest_lecturecheck.diagnosis.gpu import own_pool as device_pools
from pytest_lecturecheck.diagnosis.gpu import taken_by_others as device_memory
from pytest_lecturecheck.diagnosis.program_words import in_words_of_program
from pytest_lecturecheck.diagnosis.ulimits import with_ulimit
from pytest_lecturecheck.model.evidence import Evidence

Rule: TypeAlias = Callable[[Evidence], Cause | None]

RULES: Final[tuple[Rule, ...]] = (
    oom_kills.find_stop_at_cap,
    timeouts.find_startup_timeout,
    scheduler_ends.find_scheduler_end,
    oom_kills.find_oom_kill,
    shadowing.find_shadowing_file,
    deaths.find_death_at_start,
    no_answers.find_no_answer,
    timeouts.find_timeout,
    cell_errors.find_input_request,
    cell_errors.find_exit_request,
    network.find_missing_network,
    memory_errors.find_superlu_limit,
    memory_errors.find_impossible_request,
    memory_errors.find_exhausted_memory,
    memory_errors.find_limit_while_free,
    memory_errors.find_other_memory_error,
    driver_errors.find_driver_error,
    device_memory.find_held_memory,
    device_pools.find_fragmented_pool,
    device_pools.find_filled_card,
    cell_errors.find_library_out_of_memory,
    cell_errors.find_unusable_device,
    oom_kills.find_child_end,
    cell_errors.find_cell_error,
    deaths.find_kill,
    deaths.find_native_out_of_memory,
    deaths.find_signal,
    deaths.find_exit_code,
)


def find_cause(evidence: Evidence) -> Cause:
    """Return the cause of a bad end; the first rule that matches decides."""
    for rule in RULES:
        if (cause := rule(evidence)) is not None:
            return in_words_of_program(with_ulimit(cause, evidence), evidence)
    return in_words_of_program(deaths.find_nothing(evidence), evidence)
