"""Users' subclasses of the tensor: how operators run on them, and the class of the results.

An operator runs on plain tensors that share everything with the subclass's tensors, and its results
become tensors of the subclass. A class with a `__torch_function__` of its own is asked instead, as
in PyTorch. Fast functions never see a subclass: they ask for the plain class.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from adjoint.core.state import current
from adjoint.homes.overrides import as_called, ask_classes, function_of, is_of_torch, overriding
from adjoint.ops.kinks import is_limit
from adjoint.ops.operator import Operator
from adjoint.tensor.construct import tensor_from_data
from adjoint.tensor.home import Height, Home, new_tensor
from adjoint.tensor.nodes import Leaf, own_counter
from adjoint.tensor.tensor import Tensor, alias, data_of, is_plain, make


class SubclassInterpreter(Home):
    """Runs operators on tensors of users' classes; beneath every transform."""

    height = Height.SUBCLASS
    name = "a subclass of Tensor"
    sees_all = True

    def process(self, op: Operator, values: list[Any]) -> Any:
        """Ask the class, or run the operator on plain tensors."""
        if overriding(values):
            args, keywords = as_called(op, values)
            return ask_classes(function_of(op), args, keywords)
        if not current().asks_classes:
            return op.call(_PlainStandIns().of(values))
        return in_class(_class_among(values), op.call, values)

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        """Write to a plain tensor on the same memory, and take over its history."""
        return self.process(op, values)

    def detach(self, tensor: Tensor) -> Tensor:
        """A tensor of the same class, without history."""
        if overriding([tensor]):
            return ask_classes(Tensor.detach, (tensor,), {})
        return become(type(tensor), alias(tensor)) if current().asks_classes else alias(tensor)

    def is_limit(self, tensor: Tensor) -> bool:
        return _inside(tensor) is not None

    def of_class(self, tensor: Tensor, made: Tensor) -> Tensor:
        """The new plain tensor `made` in the class of `tensor`."""
        return become(type(tensor), made) if current().asks_classes else made

    def data(self, tensor: Tensor) -> Tensor:
        """A tensor of the same class on the same memory, whose writes are not counted."""
        if overriding([tensor]):
            return ask_classes(vars(Tensor)["data"].__get__, (tensor,), {})
        return become(type(tensor), data_of(tensor)) if current().asks_classes else data_of(tensor)


SUBCLASSES = SubclassInterpreter()


def is_subclass(kind: type) -> bool:
    """Whether a class of tensors is a user's, or a selective checkpoint's."""
    return isinstance(getattr(kind, "class_home", None), SubclassInterpreter)


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif type(value) is list:
            found += _tensors(value)
    return found


def _class_among(values: Any) -> Any:
    """The most derived user class among the arguments; of several, the first."""
    kinds = [type(t) for t in _tensors(values) if is_subclass(type(t))]
    return next(k for k in kinds if not any(issubclass(o, k) and o is not k for o in kinds))


class _PlainStandIns:
    """Plain tensors that stand for those of subclasses in one call."""

    def __init__(self) -> None:
        self.stands_for: dict[int, Tensor] = {}  # by the plain tensor
        self.keep: list[Tensor] = []  # kept alive, so that no other tensor gets its id

    def of(self, values: Any) -> Any:
        """The arguments with plain tensors in place of subclasses."""
        if isinstance(values, (list, tuple)):
            return type(values)(self.of(v) for v in values)
        if not isinstance(values, Tensor) or not is_subclass(type(values)):
            return values
        if _inside(values) is not None:  # from a kink: the tensor inside has the near tensor
            plain = values.companion
        else:
            own_counter(values)
            plain = alias(values, values.edge)
        plain.extra = values.more()  # views of either are views of both
        self.stands_for[id(plain)] = values
        self.keep.append(plain)
        return plain

    def results(self, kind: Any, results: Any) -> Any:
        """Results as tensors of a class."""
        if isinstance(results, (list, tuple)):
            return type(results)([self.results(kind, r) for r in results])
        if not isinstance(results, Tensor):
            return results
        known = self.stands_for.get(id(results))
        if known is not None:
            take_over(known, results)
            return known
        return become(kind, results, self.stands_for)


def _inside(tensor: Any) -> Any:
    """The tensor from a kink (limits.py) that a tensor of a user's class came from, if it did."""
    return getattr(tensor, "companion", None)


def take_over(target: Tensor, written: Tensor) -> None:
    """Let a tensor go on from the one that stood for it, and may have been written to."""
    if _inside(target) is written and not is_limit(written):
        del target.companion  # it was written to, and is ordinary now
    moved = written.value is not target.value  # by squeeze_, t_, …
    target.value, target.counter = written.value, written.counter
    if moved or target._base is None:
        target.edge = written.edge  # edges of other views were computed again from their base
    if moved and target._base is not None:
        target._base.more().views.append(weakref.ref(target))


def become(kind: Any, tensor: Tensor, stands_for: dict[int, Tensor] | None = None) -> Any:
    """A new tensor of a class that takes the place of a plain one, or of one from a kink."""
    if is_plain(tensor):
        return _retyped(kind, tensor, stands_for or {})
    if not is_limit(tensor):
        return tensor
    made = _retyped(kind, tensor, stands_for or {})
    made.companion = tensor
    return made


def as_class(kind: Any, value: Any, known: dict[int, Tensor]) -> Any:
    """A plain tensor as one of a class, which `known` remembers; other values unchanged."""
    if not is_plain(value):
        return value
    own_counter(value)
    made = _retyped(kind, alias(value, value.edge), {})
    made.extra = value.more()  # views of either are views of both
    known[id(made)] = value
    return made


def plainly(tensor: Tensor, known: dict[int, Tensor]) -> Tensor:
    """A tensor of a class as a plain one; if it stands for another tensor, that one."""
    found = known.get(id(tensor))
    return _retyped(Tensor, tensor, known) if found is None else found


def _retyped(kind: Any, tensor: Tensor, stands_for: dict[int, Tensor]) -> Any:
    """A new tensor of a class that takes the place of another one, in its views too."""
    made = new_tensor(kind.class_home, tensor.value, tensor.edge, kind)
    made.counter, made.extra = tensor.counter, tensor.extra
    view: Any = None if tensor.extra is None else tensor.extra.view
    if view is not None:
        base: Any = stands_for.get(id(view.base), view.base)
        view.base = base
        base.more().views.append(weakref.ref(made))
    return made


def in_class(kind: Any, function: Callable[[Any], Any], values: Any) -> Any:
    """Run a function on plain tensors; its results are of the class."""
    plain = _PlainStandIns()
    return plain.results(kind, function(plain.of(values)))


def default_torch_function(
    cls: Any,
    func: Callable[..., Any],
    types: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run `func` on plain tensors; the results are of this class. Override to do otherwise."""
    if is_of_torch(func):
        return NotImplemented  # PyTorch's own functions do not take our tensors, and say so then
    plain = _PlainStandIns()
    named = {k: plain.of(v) for k, v in (kwargs or {}).items()}
    return plain.results(cls, func(*plain.of(tuple(args)), **named))


def make_subclass(cls: Any, data: Any, require_grad: bool = False) -> Any:
    """A leaf of a user's class, on the memory of a tensor or from numbers."""
    made = become(cls, alias(data) if isinstance(data, Tensor) else make(tensor_from_data(data)))
    if require_grad:
        made.edge = Leaf(made)
    return made


def as_subclass(self: Tensor, cls: Any) -> Any:
    """The tensor, with its history, as one of a user's class."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass needs a subclass of Tensor, got {cls!r}")
    return become(cls, alias(self, self.edge)) if cls is not Tensor else alias(self, self.edge)


def install() -> None:
    """Let users derive classes from the tensor. Classes of ours are made before, or say how."""
    Tensor.subclass_home = SUBCLASSES
    Tensor.__torch_function__ = classmethod(default_torch_function)  # type: ignore[attr-defined]
    Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]
    Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]
