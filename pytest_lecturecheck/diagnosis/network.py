"""Errors of cells that asked the network and got no answer."""

from __future__ import annotations

import re
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import error_text, in_brackets
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line

# getaddrinfo and connect in the words of Linux, macOS and Windows, urllib3 and curl.
_NO_ANSWER: Final = re.compile(
    r"Name or service not known|Temporary failure in name resolution|nodename nor servname provided|"
    r"getaddrinfo failed|Name does not resolve|Network is unreachable|No route to host|"
    r"A socket operation was attempted to an unreachable|Max retries exceeded with url|Could not resolve host"
)
_ERRORS: Final = re.compile(
    r"gaierror|URLError|OSError|ConnectionError|ConnectError|ConnectTimeout|NewConnectionError|MaxRetryError|"
    r"NameResolutionError|ClientConnector(?:DNS)?Error|ProxyError|DNSError"
)
_HOST: Final = re.compile(r"host='([^']+)'|https?://([^/\s'\"<>]+)|Could not resolve host: (\S+)")
_HOST_CHARS: Final = 100
_SHORT_CHARS: Final = 100
_ADVICE: Final = "a run without network needs the data beside the lecture, or fetched in a step before it"


def find_missing_network(evidence: Evidence) -> Cause | None:
    """Recognise hosts that could not be resolved or reached; an answer, such as "404 Not Found", is none of these."""
    error = evidence.error
    if error is None or not _ERRORS.fullmatch(error.name.rsplit(".", 1)[-1]) or not _NO_ANSWER.search(error.value):
        return None
    named = _HOST.search(error.value)
    host = one_line(next(text for text in named.groups() if text), _HOST_CHARS) if named is not None else ""
    return Cause(
        kind=CauseKind.NETWORK,
        headline=f"no answer from {host or 'the network'}: {_short(error)}{in_brackets(evidence)}",
        evidence=(error_text(error),) if _short(error) != error_text(error) else (),
        advice=(_ADVICE,),
    )


def _short(error: CellError) -> str:
    """Return the error as text, or what it says of the network alone where it also quotes requests and objects."""
    text, reason = error_text(error), _NO_ANSWER.search(error.value)
    if len(text) <= _SHORT_CHARS or reason is None:
        return text
    return f"{one_line(error.name)}: {reason.group()}"
