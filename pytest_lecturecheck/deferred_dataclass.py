"""
Data classes whose methods are compiled when they are first needed.

:func:`dataclasses.dataclass` compiles up to six methods for each class, which takes about half a millisecond. A session
loads over two hundred data classes, makes objects of fewer than half of them, compares few and prints none. The
standard decorator still writes every method. Type checkers see it, and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]

_FIELDS = "__dataclass_fields__"
_CONSTRUCTION = ("__init__", "__replace__", "__dataclass_params__", _FIELDS)
_COMPARISON = ("__eq__", "__hash__", "__repr__")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False
    ) -> Callable[[type[Any]], type[Any]]:
        """
        Make a data class as :func:`dataclasses.dataclass` does.

        Raises:
            TypeError: the class has bases, or no slots are asked for.
        """

        def wrap(cls: type[Any]) -> type[Any]:
            if cls.__bases__ != (object,) or not slots:
                msg = f"{cls.__qualname__}: expected slots=True and no bases; use the decorator of dataclasses"
                raise TypeError(msg)
            return _Deferred(cls, frozen=frozen, kw_only=kw_only).made

        return wrap


class _Deferred:
    """
    A class with slots, and the class as it was written.

    Attributes:
        made: the class with slots.
    """

    def __init__(self, cls: type[Any], **options: bool) -> None:
        self._written = {name: value for name, value in vars(cls).items() if name not in {"__dict__", "__weakref__"}}
        self._options = options
        names = tuple(self._written.get("__annotations__", ()))
        # A default would stand where the slot has to be.
        kept = {name: value for name, value in self._written.items() if name not in names}
        first: dict[str, Any] = {
            "__slots__": names,
            "__match_args__": () if options["kw_only"] else names,
            _FIELDS: _FirstFields(self),
            **self._first_methods(),
        }
        if options["frozen"]:
            first |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
            first |= {"__getstate__": _get_state, "__setstate__": _set_state}
        else:
            first["__hash__"] = None
        self.made = type(cls.__name__, (), {**first, **kept})
        self.made.__qualname__ = cls.__qualname__

    def _first_methods(self) -> dict[str, Any]:
        """Return methods that have themselves replaced by those of the standard decorator, and call them."""

        def __init__(value: Any, /, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - the method that it stands for
            self.complete(_CONSTRUCTION)
            value.__init__(*args, **kwargs)

        def __eq__(value: Any, other: object, /) -> Any:  # noqa: N807
            self.complete(_COMPARISON)
            return value.__eq__(other)

        def __hash__(value: Any) -> int:  # noqa: N807
            self.complete(_COMPARISON)
            return hash(value)

        def __repr__(value: Any) -> str:  # noqa: N807
            self.complete(_COMPARISON)
            return repr(value)

        return {function.__name__: function for function in (__init__, __eq__, __hash__, __repr__)}

    def complete(self, names: tuple[str, ...]) -> None:
        """Give the class the attributes that the standard decorator makes; harmless when done twice."""
        compares = names is _COMPARISON
        # Without a docstring the decorator would inspect the signature to write one.
        template = type(self.made.__name__, (), {**self._written, "__doc__": self.made.__name__})
        dataclasses.dataclass(init=not compares, repr=compares, eq=compares, **self._options)(template)
        for name in names:
            if name in vars(template) and name not in self._written:
                setattr(self.made, name, vars(template)[name])


class _FirstFields:
    """Stands for the fields of a class until somebody asks for them."""

    def __init__(self, deferred: _Deferred) -> None:
        self._deferred = deferred

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        self._deferred.complete(_CONSTRUCTION)
        return getattr(owner, _FIELDS)


def _refuse_set(_value: object, name: str, _new: object) -> NoReturn:
    msg = f"cannot assign to field {name!r}"
    raise dataclasses.FrozenInstanceError(msg)


def _refuse_delete(_value: object, name: str) -> NoReturn:
    msg = f"cannot delete field {name!r}"
    raise dataclasses.FrozenInstanceError(msg)


def _get_state(value: Any) -> list[Any]:
    return [getattr(value, name) for name in value.__slots__]


def _set_state(value: Any, state: list[Any]) -> None:
    for name, item in zip(value.__slots__, state, strict=True):
        object.__setattr__(value, name, item)
