"""
Failures of the network, however a library wraps them: for causes, and for what is worth remembering.

Libraries raise exceptions of their own when a download fails (``RemoteDataError``, ``LocalEntryNotFoundError``, a plain
``OSError``). Their class says nothing, so the text decides, and the exceptions that the traceback chains to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import error_text, in_brackets
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line

_READ_LENGTH: Final = 4000
_LONGEST_HOST: Final = 100
_SHORT_CHARS: Final = 100
# Nobody writes these by accident: getaddrinfo on Linux, macOS, Windows and musl, urllib3, aiohttp, curl and git.
_UNMISTAKABLE: Final = re.compile(
    r"Name or service not known|Temporary failure in name resolution|nodename nor servname provided|"
    r"getaddrinfo failed|Name does not resolve|No address associated with hostname|"
    r"Max retries exceeded with url|Failed to establish a new connection|Failed to resolve '|"
    r"Could not resolve host|Cannot connect to host \S+:[0-9]+|NameResolutionError|"
    r"A socket operation was attempted to an unreachable|"
    # Hugging Face, whose own exceptions hide the one of the network.
    r"We couldn't connect to '|trying to locate the files? on the Hub|Couldn't reach (?:'|https?://)|"
    r"Cannot reach https?://\S+: offline mode is enabled"
)
# These count only with the number of the error, or in an error of the network's own.
_ERRNO: Final = re.compile(r"\[(?:Errno|WinError) (?:101|110|113|10051|10060|10065|51|60|65)\] ")
_NO_ANSWER: Final = re.compile(
    r"Network is unreachable|No route to host|(?:[Cc]onnection|[Rr]ead|operation) timed out|"
    r"connect timeout|ConnectTimeout|ReadTimeout|did not properly respond"
)
_NETWORK_ERRORS: Final = re.compile(
    r"gaierror|herror|URLError|ConnectionError|ConnectError|ConnectTimeout(?:Error)?|ConnectionRefusedError|"
    r"NewConnectionError|MaxRetryError|NameResolutionError|ClientConnector(?:DNS)?Error|ClientConnectionError|ProxyError|"
    r"DNSError|ReadTimeout(?:Error)?|PoolTimeout|TransportError"
)
# A server answered, but not with what was wanted; another day it may.
_ANSWERED: Final = re.compile(
    r"HTTPError|HTTPStatusError|HfHubHTTPError|RemoteDataError|ChunkedEncodingError|IncompleteRead|RemoteDisconnected|"
    r"ReadError|RemoteProtocolError|SSLError|SSLEOFError|SSLCertVerificationError|YFRateLimitError|"
    r"ConnectionResetError|ConnectionAbortedError|BrokenPipeError|Timeout|TimeoutError|timeout"
)
_HTTP_STATUS: Final = re.compile(
    r"(?:HTTP Error|HTTP status|status code:?|[Cc]lient [Ee]rror:?|[Ss]erver [Ee]rror:?) [45][0-9]{2}\b"
)
# Mistakes of the code are what they say, also where they happen while a failed download is handled.
_MISTAKES: Final = frozenset(
    {
        "NameError",
        "UnboundLocalError",
        "SyntaxError",
        "ZeroDivisionError",
        "AssertionError",
        "TypeError",
        "AttributeError",
    }
)
# The last line of each exception that a traceback shows: "urllib.error.URLError: <urlopen error ...>".
_CHAINED: Final = re.compile(r"(?P<name>[A-Za-z_][\w.]{0,200}): (?P<value>.*)")
_HOST: Final = re.compile(
    r"host='(?P<pool>[^']{1,253})'|Failed to resolve '(?P<resolve>[^']{1,253})'|"
    r"Could not resolve host: (?P<curl>[\w.-]{1,253})|Cannot connect to host (?P<aiohttp>[\w.-]{1,253}):|"
    r"https?://(?:[^/@\s'\"]*@)?(?P<url>[\w.-]{1,253})"
)
_ADVICE: Final = "a run without network needs the data beside the lecture, or fetched in a step before it"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFailure:
    """
    A failure of the network behind an exception.

    Attributes:
        host: the host that was asked, or an empty string where the text names none.
        text: the exception that shows it, as one line.
        is_answered: whether a server answered, though not with what was wanted.
    """

    host: str
    text: str
    is_answered: bool


def find_network_failure(error: CellError) -> NetworkFailure | None:
    """Return the network failure behind an exception of any class, or ``None``."""
    found = list(_chain(error))
    for is_failure, is_answered in ((_is_without_answer, False), (_is_answered, True)):
        shown = next((item for item in found if is_failure(item)), None)
        if shown is not None:
            host = _host([shown.value, *(item.value for item in found)])
            return NetworkFailure(host=host, text=error_text(shown), is_answered=is_answered)
    return None


def find_missing_network(evidence: Evidence) -> Cause | None:
    """Recognise hosts that could not be resolved or reached; an answer, such as "404 Not Found", is none of these."""
    error = evidence.error
    failure = find_network_failure(error) if error is not None else None
    if error is None or failure is None or failure.is_answered:
        return None
    raised, short = error_text(error), _short(error)
    lines = [raised] if short != raised else []
    if failure.text != raised:
        lines.append(f"because of {failure.text}")
    return Cause(
        kind=CauseKind.NETWORK,
        headline=f"no answer from {failure.host or 'the network'}: {short}{in_brackets(evidence)}",
        evidence=tuple(lines),
        advice=(_ADVICE,),
    )


def _short(error: CellError) -> str:
    """Return the error as text; of a long one that quotes requests and objects, only what it says of the network."""
    text = error_text(error)
    reason = _UNMISTAKABLE.search(error.value) or _NO_ANSWER.search(error.value)
    return text if len(text) <= _SHORT_CHARS or reason is None else f"{one_line(error.name)}: {reason.group()}"


def _chain(error: CellError) -> Iterator[CellError]:
    """Yield the exception itself, then those that its traceback shows before it."""
    yield error
    if _class_name(error) in _MISTAKES:
        return
    for part in error.traceback:
        for line in part.splitlines():
            if match := _CHAINED.fullmatch(line.strip()[:_READ_LENGTH]):
                yield CellError(name=match["name"], value=match["value"])


def _class_name(error: CellError) -> str:
    return error.name.rsplit(".", 1)[-1]


def _is_without_answer(error: CellError) -> bool:
    text = error.value[:_READ_LENGTH]
    if _UNMISTAKABLE.search(text) or (_ERRNO.search(text) and _NO_ANSWER.search(text)):
        return True
    return _NETWORK_ERRORS.fullmatch(_class_name(error)) is not None and _NO_ANSWER.search(text) is not None


def _is_answered(error: CellError) -> bool:
    name = _class_name(error)
    is_network = _ANSWERED.fullmatch(name) is not None or _NETWORK_ERRORS.fullmatch(name) is not None
    return is_network or _HTTP_STATUS.search(error.value[:_READ_LENGTH]) is not None


def _host(texts: list[str]) -> str:
    for text in texts:
        if match := _HOST.search(text[:_READ_LENGTH]):
            return one_line(next(filter(None, match.groups())), _LONGEST_HOST)
    return ""
