"""Changes of a budget file."""

from __future__ import annotations

from pytest_lecturecheck.budget.recording import BudgetChange
from pytest_lecturecheck.model.metric import Metric


def change(
    lecture="lectures/intro.md", variant="", metric=Metric.PEAK_FOOTPRINT, old_limit=None, new_limit=None, **rest
):
    return BudgetChange(
        lecture=lecture, variant=variant, metric=metric, old_limit=old_limit, new_limit=new_limit, **rest
    )
