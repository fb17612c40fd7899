"""Users' overrides of operators: `__torch_function__` of classes, and modes that see every call.

The names and the order are PyTorch's: the innermost mode is asked first, then the classes of the
arguments, the most derived first. While a mode's or a class's function runs, that mode is not
asked again, so that it may call the operator itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from adjoint.core.state import State, changed, current
from adjoint.ops import arguments
from adjoint.ops.operator import Operator, packet
from adjoint.tensor.modes import Mode, SeenMode
from adjoint.tensor.tensor import Tensor


class TorchFunctionMode(SeenMode):
    """Sees the call of every operator inside a `with` block, whatever its arguments are.

    Derive from it and define `__torch_function__(self, func, types, args=(), kwargs=None)`, which
    may call `func(*args, **(kwargs or {}))`, or do otherwise. Functions that are made of several
    operators are seen as these.

    >>> import adjoint as ad
    >>> class Names(ad.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     y = ad.ones(2).sin()
    ones
    sin
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines __torch_function__")

    def changes(self, before: State) -> dict[str, Any]:
        return {"function_modes": (*before.function_modes, self), "seen": True}

    def _clone(self) -> Any:
        return self


class DisableTorchFunctionSubclass(Mode):
    """Run operators on users' tensors as on plain ones, without their `__torch_function__`."""

    def changes(self, before: State) -> dict[str, Any]:
        return {"asks_classes": False}


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """The same, and without modes that see calls."""

    def changes(self, before: State) -> dict[str, Any]:
        return super().changes(before) | {"function_modes": ()}


def ask_mode(function: Callable[..., Any], args: Any, keywords: dict[str, Any]) -> Any:
    """Hand a call to the innermost mode, which is not asked meanwhile."""
    now = current()
    *outer, mode = now.function_modes
    seen = bool(outer or now.autocast or now.default_device)
    with changed(function_modes=tuple(outer), seen=seen):
        kinds = _kinds([*args, *keywords.values()])
        result = mode.__torch_function__(function, kinds, args, keywords)
    if result is NotImplemented:
        raise _refused(function, (type(mode),))
    return result


def ask_classes(
    function: Callable[..., Any], args: Any, keywords: dict[str, Any], relevant: Any = None
) -> Any:
    """Ask the overriding classes of the relevant arguments in turn; the first answer counts."""
    found = overriding([*args, *keywords.values()] if relevant is None else relevant)
    kinds = tuple(type(a) for a in found)
    for argument in found:
        result = argument.__torch_function__(function, kinds, args, keywords)
        if result is not NotImplemented:
            return result
    raise _refused(function, kinds)


def _refused(function: Callable[..., Any], kinds: tuple[type, ...]) -> TypeError:
    names = ", ".join(k.__name__ for k in kinds)
    name = getattr(function, "__name__", function)
    return TypeError(f"{name}: __torch_function__ of {names} returned NotImplemented")


def overrides(value: Any) -> bool:
    """Whether the class of a value has a `__torch_function__` of its own that may be asked."""
    found = getattr(type(value), "__torch_function__", None)
    if found is None or not current().asks_classes or is_of_torch(found):
        return False
    default: Any = Tensor.__torch_function__
    return getattr(found, "__func__", found) is not default.__func__


def is_of_torch(function: Any) -> bool:
    """Whether a function is PyTorch's own, which takes no tensors of ours."""
    owner = getattr(function, "__objclass__", function)  # a method in C has its class
    return (getattr(owner, "__module__", None) or "").partition(".")[0] == "torch"


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """The values inside lists and tuples, in order; a list that holds itself is looked at once."""
    waiting, seen = [iter(values)], set[int]()
    while waiting:
        value = next(waiting[-1], waiting)
        if value is waiting:
            waiting.pop()
        elif not isinstance(value, (list, tuple)):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            waiting.append(iter(value))


def overriding(values: Iterable[Any]) -> list[Any]:
    """One argument of each class that overrides, subclasses before their parents."""
    found: list[Any] = []
    for each in _flat(values):
        if overrides(each) and all(type(each) is not type(f) for f in found):
            before = (i for i, f in enumerate(found) if issubclass(type(each), type(f)))
            found.insert(next(before, len(found)), each)
    return found


def has_likeness(values: Iterable[Any]) -> bool:
    """Whether there is an object that is no tensor and has a `__torch_function__`."""
    return any(not isinstance(v, Tensor) and overrides(v) for v in _flat(values))


def _kinds(values: Iterable[Any]) -> tuple[type, ...]:
    return tuple(type(v) for v in overriding(values))


def as_called(
    op: Operator, values: Any, extra: dict[str, Any] | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as a user would give them: without defaults that end the list."""
    schema = op.schema.arguments
    count = op.positional
    keywords = {
        a.name: v
        for a, v in zip(schema[count:], values[count:], strict=True)
        if v is not arguments.MISSING and v is not None and not _is_default(a, v)
    }
    positional = list(values[:count])
    while positional and (
        positional[-1] is arguments.MISSING
        or (
            schema[len(positional) - 1].has_default
            and _is_default(schema[len(positional) - 1], positional[-1])
        )
    ):
        positional.pop()
    return tuple(positional), keywords | (extra or {})


def _is_default(argument: Any, value: Any) -> bool:
    if not argument.has_default or isinstance(value, Tensor):
        return False
    return value is argument.default or bool(value == argument.default)


def function_of(op: Operator) -> Callable[..., Any]:
    """The public function of an operator, as the user called it: `ad.add`, `Tensor.add_`."""
    return packet(op.name).function


# -- torch.overrides ---------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a class among the arguments, or a mode, wants to see the call.

    >>> import adjoint as ad
    >>> ad.overrides.has_torch_function((ad.ones(2), 3))
    False
    """
    return bool(current().function_modes or overriding(relevant_args))


def has_torch_function_unary(argument: Any) -> bool:
    """As `has_torch_function`, for one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*args: Any) -> bool:
    """As `has_torch_function`, for separate arguments."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Hand a call of `public_api` to the innermost mode, or to the classes of the arguments."""
    if current().function_modes:
        return ask_mode(public_api, args, kwargs)
    return ask_classes(public_api, args, kwargs, relevant_args)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """Decorate a function so that modes and classes of its arguments may take its calls.

    `dispatcher` takes the same arguments and returns those whose classes are asked.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return wrap


def is_tensor_like(inp: Any) -> bool:
    """Whether a value is a tensor, or of a class with `__torch_function__`.

    >>> import adjoint as ad
    >>> ad.overrides.is_tensor_like(ad.ones(2)), ad.overrides.is_tensor_like([1.0])
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")
