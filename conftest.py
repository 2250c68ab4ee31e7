"""What holds for every test, whichever folder it is in; the lectures in fixtures/ run without the tests' packages."""

import os
import signal
from importlib.util import find_spec

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is for a job that a script runs in the background, and programs that it starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # Nothing is timed here: a busy machine must not fail a property, nor slow examples of one. A gate draws the same
    # examples every time, so that it fails for a change and not by luck; `make test-explore` draws many new ones, and
    # each failure that it finds becomes an explicit example of its test.
    settings.register_profile(
        "gate", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile(
        "explore", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile(os.environ.get("LECTURECHECK_HYPOTHESIS", "gate"))


@pytest.fixture(autouse=True)
def _no_runner(monkeypatch):
    """Keep sessions that tests start from writing to the summary of the job that runs the tests."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
