"""Failures of the network behind exceptions of any class, for causes and for what is worth remembering."""

from __future__ import annotations

import pytest

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.diagnosis.network import find_network_failure
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence

UNRESOLVED = "<urlopen error [Errno -2] Name or service not known>"
POOL = (
    "HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x (Caused by "
    "NameResolutionError(\"Failed to resolve 'huggingface.co' ([Errno -3] Temporary failure in name resolution)\"))"
)
ADVICE = ("a run without network needs the data beside the lecture, or fetched in a step before it",)
# As ipykernel sends a chain of exceptions, shortened.
CHAIN = (
    "---------------------------------------------------------------------------",
    "gaierror                                  Traceback (most recent call last)",
    "File /env/lib/python3.11/socket.py:962, in getaddrinfo(host, port)",
    "--> 962 for res in _socket.getaddrinfo(host, port, family, type, proto, flags):",
    "gaierror: [Errno -3] Temporary failure in name resolution",
    "",
    "The above exception was the direct cause of the following exception:",
    "",
    "MaxRetryError                             Traceback (most recent call last)",
    f"MaxRetryError: {POOL}",
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    "RemoteDataError                           Traceback (most recent call last)",
    "Cell In[4], line 2",
    "RemoteDataError: the table cannot be had",
)


def raised(name, value, traceback=()):
    error = CellError(name=name, value=value, traceback=traceback)
    return diagnose(Evidence(cell_number=4, line=92, error=error))


def test_a_host_that_cannot_be_resolved():
    cause = raised("URLError", UNRESOLVED)
    assert cause.kind is CauseKind.NETWORK
    assert cause.headline == f"no answer from the network: URLError: {UNRESOLVED} (code cell 4, line 92)"
    assert (cause.evidence, cause.advice) == ((), ADVICE)


@pytest.mark.parametrize(
    "text",
    [
        "We couldn't connect to 'https://huggingface.co' to load the files",
        "An error happened while trying to locate the file on the Hub and we cannot find the requested files",
        "Cannot reach https://huggingface.co/api/models: offline mode is enabled",
        "Couldn't reach 'imdb' on the Hub (ConnectionError)",
    ],
)
def test_the_words_of_hugging_face_count_without_a_chain(text):
    assert raised("OSError", text).kind is CauseKind.NETWORK


def test_an_exception_of_a_library_is_explained_by_the_chain():
    cause = raised("RemoteDataError", "the table cannot be had", CHAIN)
    assert cause.kind is CauseKind.NETWORK
    assert (
        cause.headline
        == "no answer from huggingface.co: RemoteDataError: the table cannot be had (code cell 4, line 92)"
    )
    assert cause.evidence == ("because of gaierror: [Errno -3] Temporary failure in name resolution",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gaierror", "[Errno 8] nodename nor servname provided, or not known"),
        ("socket.gaierror", "[Errno 11001] getaddrinfo failed"),
        ("ConnectionError", "HTTPSConnectionPool(host='a.b', port=443): Max retries exceeded with url: /x"),
        ("OSError", "[Errno 101] Network is unreachable"),
        ("ClientConnectorError", "Cannot connect to host a.b:443 ssl:default [Name or service not known]"),
        ("ReadTimeout", "HTTPSConnectionPool(host='a.b', port=443): Read timed out. (read timeout=10)"),
        ("OSError", f"We couldn't connect to 'https://huggingface.co' to load the files: {POOL}"),
        ("LocalEntryNotFoundError", f"An error happened while trying to locate the file: {POOL}"),
        ("CalledProcessError", "fatal: unable to access 'https://a.b/x.git/': Could not resolve host: a.b"),
        ("ValueError", UNRESOLVED),
    ],
)
def test_the_text_decides_whatever_the_class(name, value):
    assert raised(name, value).kind is CauseKind.NETWORK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPError", "HTTP Error 404: Not Found"),
        ("ConnectionRefusedError", "[Errno 111] Connection refused"),
        ("OSError", "[Errno 2] No such file or directory: 'data.csv'"),
        ("ValueError", "No route to host in this graph"),
        ("RuntimeError", "the operation timed out"),
    ],
)
def test_an_answer_and_other_errors_are_what_they_say(name, value):
    cause = raised(name, value)
    assert (cause.kind, cause.headline) == (CauseKind.CELL_ERROR, f"{name}: {value} (code cell 4, line 92)")


def test_a_mistake_while_a_failed_download_is_handled_is_a_mistake():
    assert raised("NameError", "name 'backup' is not defined", CHAIN).kind is CauseKind.CELL_ERROR


@pytest.mark.parametrize(
    ("name", "value", "is_answered"),
    [
        ("HTTPError", "HTTP Error 503: Service Unavailable", True),
        ("RemoteDataError", "Unable to read URL", True),
        ("APIError", "status code: 502", True),
        ("URLError", UNRESOLVED, False),
    ],
)
def test_answered_and_unanswered_requests_are_distinguished(name, value, is_answered):
    assert find_network_failure(CellError(name=name, value=value)).is_answered is is_answered


def test_an_error_of_the_code_is_no_failure_of_the_network():
    assert find_network_failure(CellError(name="KeyError", value="'url'")) is None


LONG = (
    "HTTPSConnectionPool(host='data.example.org', port=443): Max retries exceeded with url: /x/y.csv (Caused by "
    "NameResolutionError(\"<urllib3.connection.HTTPSConnection object at 0x7f11>: Failed to resolve 'data.example.org' "
    '([Errno -2] Name or service not known)"))'
)


def test_a_long_error_is_reduced_to_its_host():
    cause = raised("requests.exceptions.ConnectionError", LONG)
    assert cause.headline == (
        "no answer from data.example.org: requests.exceptions.ConnectionError: Max retries exceeded with url "
        "(code cell 4, line 92)"
    )
    assert cause.evidence == (f"requests.exceptions.ConnectionError: {LONG}",)
