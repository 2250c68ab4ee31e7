"""
The stamp beside an entry: in which environment it was made, and what was measured.

The keys of books know neither versions nor platform. A stamp is a JSON file in the folder ``lecturecheck`` of the
cache. It names the digest of the entry that it describes: an entry that a build has replaced since has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.book_cache.port import BookCacheError, FileAccess
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_text

FOLDER: Final = "lecturecheck"
_SCHEMA: Final = 1
_MOST_DIFFERENCES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedEnvironment:
    """
    Where an entry was made.

    Attributes:
        platform: platform label.
        system: operating system and architecture ("Linux x86_64").
        accelerators: model names of the GPUs.
        python: the kernel's interpreter ("CPython 3.13.1"), or an empty string for other languages.
        packages: name to version of what the lecture imported, as far as it can be looked up without a kernel.
        variables: variables of the kernel, of a fixed list, that change memory or results.
    """

    platform: str
    system: str
    accelerators: tuple[str, ...] = ()
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """
    What is known of an entry.

    Attributes:
        digest: digest of the entry.
        lecture: the lecture's name.
        made: date and time, ISO 8601 in UTC.
        version: version of this package.
        environment: where it was made.
        values: what was measured and reported in that run, by name.
    """

    digest: str
    lecture: str
    made: str
    version: str
    environment: StampedEnvironment
    values: Mapping[str, float] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """Return the stamp as JSON would hold it."""
        return {"schema": _SCHEMA, **asdict(self)}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Stamp:
        """
        Read a stamp from plain types.

        Raises:
            TypeError, KeyError, ValueError: it is none.
        """
        if data["schema"] != _SCHEMA:
            msg = f"its schema is {data['schema']!r}; expected {_SCHEMA}"
            raise ValueError(msg)
        environment = dict(data["environment"])
        environment["accelerators"] = tuple(map(str, environment["accelerators"]))
        for name in ("packages", "variables"):
            environment[name] = {str(key): str(value) for key, value in dict(environment[name]).items()}
        return cls(
            digest=str(data["digest"]),
            lecture=str(data["lecture"]),
            made=str(data["made"]),
            version=str(data["version"]),
            environment=StampedEnvironment(**environment),
            values={str(key): float(value) for key, value in dict(data["values"]).items()},
        )


def read_stamp(folder: Path, key: str) -> Stamp | None:
    """
    Return the stamp of a key, or ``None`` if there is none.

    Raises:
        BookCacheError: it cannot be read.
    """
    path = _path(folder, key)
    try:
        return Stamp.from_plain(json.loads(read_plain_text(path, most_bytes=MOST_SETTINGS_BYTES)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        msg = f"{path} cannot be read: {exc}; remove it"
        raise BookCacheError(msg) from exc


def write_stamp(folder: Path, key: str, stamp: Stamp, files: FileAccess) -> None:
    """
    Write the stamp of a key.

    Raises:
        OSError: it cannot be written.
    """
    files.write(_path(folder, key), f"{json.dumps(stamp.to_plain(), indent=1, sort_keys=True)}\n")


def _path(folder: Path, key: str) -> Path:
    return folder / FOLDER / f"{key}.json"


def describe_differences(
    there: StampedEnvironment, here: StampedEnvironment, version_of: Callable[[str], str | None]
) -> str:
    """
    Describe how the environment of an entry differs from the one here; empty if it does not.

    Args:
        there: where the entry was made.
        here: the environment here; its packages are not looked at.
        version_of: returns the version of a package here, or ``None`` if it is not installed.
    """
    found = list(_differences(there, here, version_of))
    rest = len(found) - _MOST_DIFFERENCES
    return ", ".join(found[:_MOST_DIFFERENCES]) + (f" and {rest} more" if rest > 0 else "")


def _differences(
    there: StampedEnvironment, here: StampedEnvironment, version_of: Callable[[str], str | None]
) -> Iterator[str]:
    for name, before, now in (
        ("platform", there.platform, here.platform),
        ("system", there.system, here.system),
        ("GPUs", ", ".join(there.accelerators) or "none", ", ".join(here.accelerators) or "none"),
    ):
        if before != now:
            yield f"{name} {before} there and {now} here"
    # Of another interpreter only the first two parts of its version are known.
    if here.python and there.python != here.python and not there.python.startswith(f"{here.python}."):
        yield f"{there.python or 'no Python'} there and {here.python} here"
    for name, version in sorted(there.packages.items()):
        now_version = version_of(name)
        if now_version != version:
            yield f"{name} {version} there and {now_version or 'none'} here"
    for name in sorted({*there.variables, *here.variables}):
        before, now = there.variables.get(name, "unset"), here.variables.get(name, "unset")
        if before != now:
            yield f"{name}={before} there and {now} here"
