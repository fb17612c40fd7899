"""Records are frozen dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from adjoint.core.records import record, structure


@record
class Point:
    """A point."""

    x: int
    y: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)
    note: str = dataclasses.field(default="", compare=False, repr=False)
    kind: ClassVar[str] = "plain"


@record
class Weighted(Point):
    weight: float = 1.0


@record
class Shown:
    x: int

    def __repr__(self) -> str:
        return f"<{self.x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown)


@dataclasses.dataclass(frozen=True)
class Plain:
    x: int
    y: int = 0


@record
class Quick:
    x: int
    y: int = 0


@dataclasses.dataclass
class PlainBox:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)


@structure
class Box:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)


def test_a_structure_changes_as_a_dataclass_does() -> None:
    box = Box(1)
    box.y.append(2)
    box.x = 3
    assert box == Box(3, [2]) != Box(3)
    assert repr(box) == repr(PlainBox(3, [2])).replace("PlainBox", "Box")
    assert Box(1).y is not Box(1).y
    with pytest.raises(TypeError, match="unhashable"):
        hash(box)


def test_a_record_compares_hashes_and_shows_as_a_dataclass_does() -> None:
    assert repr(Quick(1)) == repr(Plain(1)).replace("Plain", "Quick")
    assert hash(Quick(1, 2)) == hash(Plain(1, 2))
    assert Quick(1) == Quick(1, 0) != Quick(1, 1)
    assert Quick(1) != Plain(1)
    assert Quick.__match_args__ == Plain.__match_args__
    assert dataclasses.asdict(Quick(1)) == {"x": 1, "y": 0}


def test_fields_have_defaults_of_their_own_and_may_not_count() -> None:
    one, other = Point(1, note="a"), Point(1, note="b")
    assert one == other
    assert one.tags == []
    assert one.tags is not other.tags
    assert repr(one) == "Point(x=1, y=0, tags=[])"
    assert [f.name for f in dataclasses.fields(one)] == ["x", "y", "tags", "note"]


def test_a_record_inherits_fields() -> None:
    heavy = Weighted(1, weight=2.0)
    assert heavy == dataclasses.replace(Weighted(1), weight=2.0)
    assert repr(heavy) == "Weighted(x=1, y=0, tags=[], weight=2.0)"
    assert heavy != Point(1)


def test_methods_of_the_class_stay() -> None:
    assert repr(Shown(3)) == "<3>"
    assert Shown(1) == Shown(2)
    assert hash(Shown(1)) == hash((1,))


@pytest.mark.parametrize("change", [lambda p: setattr(p, "x", 2), lambda p: delattr(p, "x")])
def test_a_record_does_not_change(change: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot change 'x' of a Point"):
        change(Point(1))


@pytest.mark.parametrize("arguments", [(), (1, 2, [], "", 5)])
def test_a_record_refuses_wrong_arguments(arguments: Any) -> None:
    with pytest.raises(TypeError):
        Point(*arguments)


def test_records_are_copied_and_pickled() -> None:
    point = Point(1, tags=["a"])
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
