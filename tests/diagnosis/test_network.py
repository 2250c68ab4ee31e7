from __future__ import annotations

import pytest

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence

UNRESOLVED = "<urlopen error [Errno -2] Name or service not known>"


def _raised(name, value):
    return diagnose(Evidence(cell_number=4, line=92, error=CellError(name=name, value=value)))


def test_a_host_that_cannot_be_resolved():
    cause = _raised("URLError", UNRESOLVED)
    assert cause.kind is CauseKind.NETWORK
    assert cause.headline == f"no answer from the network: URLError: {UNRESOLVED} (code cell 4, line 92)"
    assert cause.advice == ("a run without network needs the data beside the lecture, or fetched in a step before it",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gaierror", "[Errno 8] nodename nor servname provided, or not known"),
        ("socket.gaierror", "[Errno 11001] getaddrinfo failed"),
        ("ConnectionError", "HTTPSConnectionPool(host='a.b', port=443): Max retries exceeded with url: /x"),
        ("OSError", "[Errno 101] Network is unreachable"),
    ],
)
def test_other_words_for_it(name, value):
    assert _raised(name, value).kind is CauseKind.NETWORK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPError", "HTTP Error 404: Not Found"),
        ("ValueError", UNRESOLVED),
        ("OSError", "[Errno 2] No such file or directory: 'data.csv'"),
    ],
)
def test_an_answer_and_other_errors_are_what_they_say(name, value):
    cause = _raised(name, value)
    assert (cause.kind, cause.headline) == (CauseKind.CELL_ERROR, f"{name}: {value} (code cell 4, line 92)")


LONG = (
    "HTTPSConnectionPool(host='data.example.org', port=443): Max retries exceeded with url: /x/y.csv (Caused by "
    "NameResolutionError(\"<urllib3.connection.HTTPSConnection object at 0x7f11>: Failed to resolve 'data.example.org' "
    '([Errno -2] Name or service not known)"))'
)


def test_a_long_error_is_reduced_to_its_host():
    cause = _raised("requests.exceptions.ConnectionError", LONG)
    assert cause.headline == (
        "no answer from data.example.org: requests.exceptions.ConnectionError: Max retries exceeded with url "
        "(code cell 4, line 92)"
    )
    assert cause.evidence == (f"requests.exceptions.ConnectionError: {LONG}",)
