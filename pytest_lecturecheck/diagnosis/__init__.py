"""Say what a bad end means, as strongly as its evidence allows and no more. Pure."""

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.requests import MemoryPlace, MemoryRequest
from pytest_lecturecheck.diagnosis.rules import RULES, Rule, diagnose

__all__ = ["RULES", "Cause", "CauseKind", "MemoryPlace", "MemoryRequest", "Rule", "diagnose"]
