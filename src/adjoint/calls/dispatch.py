"""The path of unusual calls: converted arguments, `out=`, the topmost interpreter, good errors.

A plain call never comes here. `slow` converts the arguments to the schema's types, and hands the
operator to the topmost interpreter among them, or back to the eager function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from adjoint.core.devices import CPU, META, Device, existing_device
from adjoint.core.errors import (
    AdjointError,
    ArgumentError,
    DtypeError,
    GradError,
    IndexOutOfRange,
    InplaceError,
    LinAlgError,
    NumberRangeError,
    OutOfMemory,
    ShapeError,
    ValueRangeError,
)
from adjoint.core.promotion import check_inplace_cast
from adjoint.core.remembering import remembered
from adjoint.core.shapes import show
from adjoint.core.state import State, changed, current, seeing
from adjoint.core.storage import is_expanded
from adjoint.homes import meta, overrides
from adjoint.ops import arguments, binding, former
from adjoint.ops.operator import Operator, operator
from adjoint.table.schema import Argument, Schema
from adjoint.tensor.nodes import before_write, count_write
from adjoint.tensor.tensor import Tensor, alias, is_plain

# Arguments that place a new tensor; checked here, and ignored by kernels.
_PLACES = {"device": (), "layout": ("strided",), "pin_memory": ("False", "True")}


def slow(op: Operator, args: tuple[Any, ...], extra: dict[str, Any]) -> Any:
    """Run an operator on any arguments that a user passed."""
    if seeing and current().function_modes:
        return overrides.ask_mode(overrides.function_of(op), *overrides.as_called(op, args, extra))
    if extra:
        return _with_extras(op, args, extra)
    for value, (_, _, types) in zip(args, op.wanted, strict=True):
        if type(value) not in types:
            if overrides.has_likeness(args):
                called = overrides.as_called(op, args)
                return overrides.ask_classes(overrides.function_of(op), *called)
            place = _unknown_fill(op, args)
            if place is not None:
                return _filled_later(op, args, place)
            values = arguments.bind(op, args)
            break
    else:  # nothing to convert, as in most calls inside a transform
        values = list(args)
    if op.takes_place:
        place = _place(op, values)
        if place is META:
            return meta.run(op, values)
        if place is CPU and not any(op.row.differentiable_outputs):  # it reads only shapes
            values = [meta.with_memory(v) for v in values]
    return run(op, values)


def in_former_order(op: Operator, args: tuple[Any, ...], extra: dict[str, Any]) -> Any:
    """Run an operator on more positional arguments than it has: they may be in a former order."""
    found = former.reordered(op.row, op.schema, args)
    if found is None:
        raise ArgumentError(
            f"{op.name}() takes {op.positional} positional arguments, got {len(args)}: {op.schema}"
        )
    return op.function(*found[0], **found[1], **extra)


_ZEROS = (False, 0, 0.0, 0j)  # zeros by category of dtype


def _unknown_fill(op: Operator, args: tuple[Any, ...]) -> int | None:
    """The index of the fill value of a new tensor, if that is a tensor on the tape or of a
    transform: `full_like(x, y.sum())` in a traced function.
    """
    fills = op.row.fills
    if fills not in op.schema.names:
        return None
    place = op.schema.names.index(fills)
    value = args[place]
    unknown = isinstance(value, Tensor) and (value.home is not None or value.requires_grad)
    return place if unknown and not op.schema.arguments[place].type.is_tensor else None


def _filled_later(op: Operator, args: tuple[Any, ...], place: int) -> Any:
    """A new tensor that is then filled with a tensor of one element, with its derivative."""
    value = args[place]
    if value.numel() != 1:
        raise ArgumentError(
            f"{op.name}: {op.row.fills} must be a number, got a tensor of shape {show(value.shape)}"
        )
    zero = _ZEROS[value.dtype.category]
    made = slow(op, (*args[:place], zero, *args[place + 1 :]), {})
    return slow(operator("fill", "Tensor"), (made, value.reshape(())), {})


@remembered
def _place_arguments(schema: Schema) -> tuple[tuple[int, Argument], ...]:
    """The arguments that place a new tensor, with their indices."""
    return tuple(
        (i, a) for i, a in enumerate(schema.arguments) if a.name in _PLACES and not a.type.is_tensor
    )


def _place(op: Operator, values: list[Any]) -> Device | None:
    """Check device and layout, remove them from `values`, and return the device, if one is given.

    A tensor made from no other tensor is made on the default device. Memory is never pinned:
    `pin_memory` concerns copies to other devices.
    """
    device = None if op.schema.tensors else current().default_device
    for i, argument in _place_arguments(op.schema):
        given, values[i] = values[i], None
        if given is None:
            continue
        if argument.name == "device":
            device = given
        elif argument.name == "layout" and op.row.texts.get("layouts") == "makes":
            values[i] = given
        elif str(given).removeprefix("ad.").removeprefix("torch.") not in _PLACES[argument.name]:
            known = ", ".join(repr(a) for a in _PLACES[argument.name])
            raise ArgumentError(
                f"{op.name}: there is no {argument.name}={given!r} here; use {known}"
            )
    if device is None:
        return None
    return META if existing_device(op.name, device).type == "meta" else CPU


def again(op: Operator, values: list[Any]) -> Any:
    """Run an operator again, on arguments one level below those of its first run."""
    for value in values:
        if type(value) is list or (isinstance(value, Tensor) and value.home is not None):
            return run(op, values)
    return op.function(*values) if op.positional == len(values) else op.call(values)


def run(op: Operator, values: list[Any]) -> Any:
    """Run an operator on converted arguments, by the topmost interpreter."""
    interpreter = None
    for value in values:
        if isinstance(value, Tensor):
            found = value.home
        else:
            found = topmost(value) if type(value) is list else None
        if found is not None and (interpreter is None or found.height > interpreter.height):
            interpreter = found
    if interpreter is not None and interpreter.sees_all:
        return interpreter.process(op, values)
    if seeing and (now := current()).seen:
        return _run_seen(op, values, now, interpreter)
    return _run(op, values, interpreter)


def _run_seen(op: Operator, values: list[Any], now: State, interpreter: Any) -> Any:
    """Let autocast choose the precision. The parts of an operator are not cast again, unless it has
    no kernel and no rule: then the rule of each part applies.
    """
    rule = op.row.texts.get("autocast")
    is_open = now.autocast is not None and now.autocast.enabled
    if rule == "parts" and is_open:
        return binding.decomposition(op.row)(*values)
    if rule is None and op.row.decompose and not op.row.kernel:
        return _run(op, values, interpreter)
    if rule in ("lower", "float32", "widest") and is_open:
        assert now.autocast is not None
        values = now.autocast.cast(rule, values)
        interpreter = topmost(values)
    with changed(seen=False):
        return _run(op, values, interpreter)


def _run(op: Operator, values: list[Any], interpreter: Any) -> Any:
    """Run an operator by an interpreter, or by the eager one."""
    if op.row.decompose and not op.row.kernel and not op.schema.replaces:
        try:
            return binding.decomposition(op.row)(*values)
        except UNUSUAL as error:
            raise_explained(op, error, tuple(values))
    levels = current().levels
    if levels and op.row.random:  # the innermost transform decides which samples share numbers
        return levels[-1].random(op, values)
    if levels and op.row.creates and (interpreter is None or interpreter.height < levels[0].height):
        return _create(op, values)
    if interpreter is not None:
        return (enclosing(interpreter) if regions else interpreter).process(op, values)
    return op.call([_plain_value(v) for v in values])


# Open traces of branches and loop bodies, of all contexts: while there are none, an operator pays
# only for testing an empty list.
regions: list[Any] = []


def enclosing(interpreter: Any) -> Any:
    """The interpreter of an operator: the traced branch, even if all tensors are from outside."""
    for level in reversed(current().levels):
        if level.encloses:
            return level if level.height > interpreter.height else interpreter
    return interpreter


def region_of_write(interpreter: Any, target: Any) -> Any:
    """The interpreter of a write: the branch or body being traced, if the tensor is older."""
    view = None if target.extra is None else target.extra.view
    for level in reversed(current().levels):
        if level in regions:
            made = level.was_made_inside(target if view is None else view.base)
            return interpreter if made or level.height <= interpreter.height else level
    return interpreter


def _create(op: Operator, values: list[Any]) -> Any:
    """Create a tensor inside transforms, lifted to each level, so that it may be written to."""
    outer = current().levels
    start = max((i for i, level in enumerate(outer) if level.creates), default=-1)
    with changed(levels=()):
        made = (
            op.call([_plain_value(v) for v in values])
            if start < 0
            else outer[start].process(op, values)
        )
    if isinstance(made, Tensor):
        for level in outer[start + 1 :]:
            made = level.created(made)
    return made


def height(values: Sequence[Any]) -> int:
    """The height of the highest level among the arguments; 0 for the eager one."""
    top = topmost(values)
    return 0 if top is None else top.height


def topmost(values: Sequence[Any]) -> Any:
    """The interpreter of the highest level among the arguments; None for the eager one."""
    top = None
    for value in values:
        if isinstance(value, Tensor):
            found = value.home
        elif type(value) is list:
            found = topmost(value)
        else:
            continue
        if found is not None and (top is None or found.height > top.height):
            top = found
    return top


def _plain_value(value: Any) -> Any:
    if isinstance(value, Tensor) and type(value) is not Tensor:
        return alias(value, value.edge)
    return [_plain_value(v) for v in value] if type(value) is list else value


def _with_extras(op: Operator, args: tuple[Any, ...], extra: dict[str, Any]) -> Any:
    out = extra.pop("out", None)
    requires_grad = extra.pop("requires_grad", False)
    values = list(args)
    names = op.schema.names
    for key, value in arguments.rename(op.schema, extra).items():
        if key not in names:
            raise ArgumentError(
                f"{op.name}() has no argument {key!r}; its signature is {op.schema}"
            )
        position = names.index(key)
        argument = op.schema.arguments[position]
        absent = arguments.MISSING if not argument.type.is_optional else None
        if values[position] is not absent and not argument.has_default:
            raise ArgumentError(f"{op.name}() got {key!r} twice")
        values[position] = value
    result = slow(op, tuple(values), {})
    if out is not None:
        return _write_out(op.name, result, out)
    return result.requires_grad_() if requires_grad else result


def _write_out(what: str, result: Any, out: Any) -> Any:
    if isinstance(result, (tuple, list)):
        if len(out) != len(result):
            raise ArgumentError(f"{what}: out= needs {len(result)} tensors, got {len(out)}")
        return type(result)(_write_out(what, r, o) for r, o in zip(result, out, strict=True))
    if not isinstance(out, Tensor):
        raise ArgumentError(f"{what}: out= must be a tensor, got {arguments.describe(out)}")
    if not isinstance(result, Tensor):
        raise ArgumentError(f"{what}: the result is a number, which out= cannot hold; drop out=")
    if current().recording and (out.edge is not None or result.edge is not None):
        raise GradError(f"{what}: out= cannot be differentiated; drop out=, or use no_grad()")
    for tensor in (out, result):
        if tensor.home is not None and not tensor.home.takes_out:
            raise GradError(
                f"{what}: out= cannot be differentiated inside {tensor.home.name}; drop out="
            )
    check_inplace_cast(what, result.dtype, out.dtype)
    plain = out.home is None
    if plain and is_expanded(out.value):
        raise InplaceError(
            f"{what}: several elements of out= share one place in memory (it was expanded)"
        )
    before_write(out, f"{what} with out=")
    if out.shape != result.shape:
        if not plain or (out.numel() and not (out.extra is None or out.extra.view is None)):
            kind = "a view" if plain else f"a tensor inside {out.home.name}"
            raise ShapeError(
                f"{what}: out= is {kind} of shape {show(out.shape)}, the result is "
                f"{show(result.shape)}"
            )
        try:
            out.value = np.empty(result.shape, out.value.dtype)
        except MemoryError as error:
            raise OutOfMemory(f"{what}: {error}") from None
    if plain and result.home is None:
        np.copyto(out.value, result.value, casting="unsafe")
        count_write(out, what)
        return out
    return out.copy_(result)  # copy_ carries tangents and batches


def same_dtype(arrays: tuple[Any, ...]) -> bool:
    """Whether all arrays that are not None have one dtype."""
    present = [a.dtype for a in arrays if a is not None]
    return all(d is present[0] for d in present)


def all_plain(values: Any) -> bool:
    """Whether this is a list of plain tensors."""
    return type(values) is list and all(type(v) is Tensor and v.home is None for v in values)


def all_plain_or_none(values: Any) -> bool:
    """Whether this is a list of plain tensors and None."""
    return type(values) is list and all(v is None or is_plain(v) for v in values)


def recover(op: Operator, error: Exception, args: tuple[Any, ...]) -> Any:
    """After a kernel failed: run it again if a floating point warning was raised, else explain."""
    try:
        if isinstance(error, (RuntimeWarning, FloatingPointError)):
            with np.errstate(all="ignore"):
                return op.parts.compute(*args)
        raise_explained(op, error, args)
    finally:
        del error  # the error holds this frame: without this, both live until a collection


# Errors that excessive sizes and numbers cause, also in decompositions.
UNUSUAL = (MemoryError, OverflowError, ZeroDivisionError)
_EXPLAINED: dict[type, type[AdjointError]] = {
    np.linalg.LinAlgError: LinAlgError,
    ValueError: ShapeError,
    IndexError: IndexOutOfRange,
    TypeError: DtypeError,
    MemoryError: OutOfMemory,
    OverflowError: NumberRangeError,
    ZeroDivisionError: ValueRangeError,
    KeyError: ValueRangeError,
}


def raise_explained(op: Operator, error: Exception, args: tuple[Any, ...]) -> NoReturn:
    """Raise the error of the shape rule in place of a kernel's, or the kernel's, explained."""
    explanation = None
    try:
        if isinstance(error, (AdjointError, RecursionError, NotImplementedError)):
            raise error
        if not isinstance(error, UNUSUAL):
            explanation = meta.explain(op, args)
        if explanation is not None:
            raise explanation from None
        kind = next((o for theirs, o in _EXPLAINED.items() if isinstance(error, theirs)), None)
        if kind is None:
            raise error
        given = ", ".join(_describe(a) for a in args)
        said = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise kind(f"{op.name}({given}): {said}") from error
    finally:
        del error, explanation  # as in `recover`


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype.name}[{show(value.shape)}]"
    return (
        arguments.describe(value)
        if not isinstance(value, (int, float, bool, tuple))
        else repr(value)
    )
