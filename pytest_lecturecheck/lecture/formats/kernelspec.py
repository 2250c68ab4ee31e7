"""Read the kernel that a notebook's metadata names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_lecturecheck.errors import LectureReadError

_EXPECTED: Final = {"name": "the name of a kernel", "language": "the name of a language", "display_name": "text"}
# Prefixes of usual kernel names, for a kernelspec without a language.
_LANGUAGES: Final = (
    ("python", "python"),
    ("xpython", "python"),
    ("julia", "julia"),
    ("octave", "octave"),
    ("bash", "bash"),
)
_PYTHON: Final = frozenset({"", "python", "python3", "ipython", "ipython3"})


def read_kernelspec(
    metadata: Mapping[str, Any], *, name: str, where: str, key_lines: Mapping[str, int]
) -> tuple[str | None, str]:
    """
    Return the name of the kernelspec and its language, which is empty if unknown.

    A kernelspec of the wrong kind is an error: to ignore it would run the lecture in Python and record a budget for it.

    Args:
        metadata: the notebook's metadata as plain types.
        name: the file as the user knows it.
        where: what the format calls its metadata ("front matter", "notebook metadata").
        key_lines: 1-based line of each metadata key, by dotted name, where known.

    Returns:
        Name, or ``None`` if no kernelspec is named; language.

    Raises:
        LectureReadError: the kernelspec or one of its values is of the wrong kind, or only a language is named.
    """
    fault = _find_fault(metadata)
    if fault is not None:
        key, reason = fault
        raise LectureReadError(name, key_lines.get(key, key_lines.get("kernelspec")), f"{where} {key} {reason}")
    spec = metadata.get("kernelspec") or {}
    return (spec.get("name") or "").strip() or None, _language(metadata, spec)


def language_of_kernel(name: str) -> str:
    """Return the language of a kernel with a usual name, or an empty string."""
    lowered = name.strip().lower()
    if lowered in {"ir", "irkernel", "xr"}:
        return "r"
    return next((language for start, language in _LANGUAGES if lowered.startswith(start)), "")


def _find_fault(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the key at fault and what is wrong with it."""
    spec = metadata.get("kernelspec")
    if spec is None:
        spec = {}
    if not isinstance(spec, dict):
        return "kernelspec", f"is {spec!r}; expected a table with the name of a kernel under 'name'"
    for key in ("name", "language", "display_name"):
        value = spec.get(key)
        if value is not None and not isinstance(value, str):
            return f"kernelspec.{key}", f"is {value!r}; expected {_EXPECTED[key]}"
    if (spec.get("name") or "").strip():
        return None
    if spec and "name" not in spec and not _is_python(metadata, spec):
        return "kernelspec", f"has no 'name' (it has {', '.join(sorted(spec))}); expected the name of a kernel"
    language = _language(metadata, spec)
    own = metadata.get("lecturecheck")
    names_kernel = isinstance(own, dict) and bool(own.get("kernel"))
    if language.strip().lower() not in _PYTHON and not names_kernel:
        key = "kernelspec.language" if spec.get("language") else "language_info.name"
        return key, f"is {language!r} but no kernelspec is named; expected the name of a kernel under 'kernelspec'"
    return None


def _is_python(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """Return True if a kernelspec without a name can only mean a Python kernel, as nbclient takes it to."""
    language = _language(metadata, spec).strip() or (spec.get("display_name") or "").strip().partition(" ")[0]
    return language != "" and language.lower() in _PYTHON


def _language(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    language_info = metadata.get("language_info")
    found = language_info.get("name") if isinstance(language_info, dict) else None
    return spec.get("language") or (found if isinstance(found, str) else "")
