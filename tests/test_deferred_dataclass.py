"""Data classes whose methods are made late behave like those of the standard decorator."""

import copy
import dataclasses
import inspect
import pickle
import re
import threading
from dataclasses import FrozenInstanceError, field
from pathlib import Path

import pytest

from pytest_lecturecheck import deferred_dataclass

STANDARD = dataclasses.dataclass
DECORATORS = {"standard": STANDARD, "deferred": deferred_dataclass.dataclass}


def written():
    class Written:
        """A point."""

        value: int
        other: str = "o"
        items: list[int] = field(default_factory=list)

        @property
        def double(self):
            return 2 * self.value

    Written.__qualname__ = "Written"
    return Written


def made(decorator, cls=None, **options):
    return decorator(slots=True, **options)(cls or written())


@pytest.fixture(params=DECORATORS.values(), ids=DECORATORS)
def decorator(request):
    return request.param


@STANDARD(frozen=True, slots=True, kw_only=True)
class Standard:
    """Found by pickle."""

    value: int
    names: tuple[str, ...] = ()


@deferred_dataclass.dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Found by pickle."""

    value: int
    names: tuple[str, ...] = ()


def test_objects_are_made_compared_and_printed(decorator):
    cls = made(decorator, frozen=True, kw_only=True)
    one = cls(value=1)
    assert (one.value, one.other, one.items, one.double) == (1, "o", [], 2)
    assert one.items is not cls(value=1).items
    assert one == cls(value=1) != cls(value=2)
    assert one != object()
    assert repr(one) == "Written(value=1, other='o', items=[])"
    assert not hasattr(one, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert hash(cls(value=1, items=())) == hash(cls(value=1, items=()))


@pytest.mark.parametrize("first", [repr, hash, dataclasses.fields, copy.copy, str])
def test_each_of_them_may_be_the_first(decorator, first):
    value = made(decorator, frozen=True, kw_only=True)(value=1, items=())
    first(value)
    assert dataclasses.replace(value, value=2).value == 2


def test_arguments_that_do_not_fit_are_refused(decorator):
    cls = made(decorator, frozen=True, kw_only=True)
    for arguments in ({}, {"value": 1, "unknown": 2}):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            cls(**arguments)
    with pytest.raises(TypeError, match="positional"):
        cls(1)


def test_frozen_objects_cannot_be_changed(decorator):
    value = made(decorator, frozen=True, kw_only=True)(value=1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'value'"):
        value.value = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'value'"):
        del value.value


def test_others_can_be_changed_and_have_no_hash(decorator):
    cls = made(decorator)
    value = cls(1, "p")
    value.value = 3
    assert (value, cls.__match_args__) == (cls(3, "p"), ("value", "other", "items"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_classes_say_what_they_are_before_anything_is_made(decorator):
    cls = made(decorator, frozen=True, kw_only=True)
    assert dataclasses.is_dataclass(cls)
    assert [item.name for item in dataclasses.fields(cls)] == ["value", "other", "items"]
    assert (cls.__doc__, cls.__qualname__, cls.__module__, cls.__match_args__) == ("A point.", "Written", __name__, ())
    assert list(inspect.signature(cls).parameters) == ["value", "other", "items"]


def test_what_a_class_defines_itself_is_kept(decorator):
    class Own:
        value: int

        def __init__(self, value):
            self.value = value + 1

        def __repr__(self):
            return "own"

        def __hash__(self):
            return 7

    value = made(decorator, Own)(1)
    assert (repr(value), value.value, hash(value)) == ("own", 2, 7)


def test_a_class_may_check_what_it_is_given(decorator):
    class Checked:
        value: int

        def __post_init__(self):
            if self.value < 0:
                msg = "negative"
                raise ValueError(msg)

    cls = made(decorator, Checked, frozen=True)
    with pytest.raises(ValueError, match="negative"):
        cls(-1)


@pytest.mark.parametrize("cls", [Standard, Deferred])
def test_objects_are_copied_and_pickled(cls):
    value = cls(value=1, names=("a",))
    assert copy.deepcopy(value) == copy.copy(value) == pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.asdict(value) == {"value": 1, "names": ("a",)}


def test_a_data_class_may_inherit_from_one(decorator):
    base = made(decorator, frozen=True, kw_only=True)
    below = STANDARD(frozen=True, kw_only=True)(type("Below", (base,), {"__annotations__": {"more": int}}))
    assert below(value=1, more=2) == below(value=1, other="o", more=2)


def test_several_threads_may_make_the_first_object():
    cls = made(DECORATORS["deferred"], frozen=True, kw_only=True)
    found = []
    threads = [threading.Thread(target=lambda: found.append(cls(value=1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cls(value=1)] * 8


def test_bases_and_a_dictionary_are_refused():
    for options, bases in (({"slots": True}, (written(),)), ({}, ())):
        with pytest.raises(TypeError, match="expected slots=True and no bases"):
            deferred_dataclass.dataclass(**options)(type("Odd", bases, {}))


def test_the_package_uses_it_wherever_it_can_be_imported():
    folder = Path(deferred_dataclass.__file__).parent
    standard = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text("utf-8"), re.MULTILINE)
    }
    # The page's module is copied into books.
    assert standard == {"page/budget_page.py"}
