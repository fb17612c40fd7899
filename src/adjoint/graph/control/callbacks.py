"""Python functions of arrays that a program calls: debug.print, debug.callback, pure_callback.

Where values are known the function is called at once: inside `grad` and `jvp` with the values only,
inside `vmap` once for each sample. A trace adds a node that calls the function when the graph runs;
compiled code calls back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.calls import dispatch
from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.dtypes import to_dtype
from adjoint.core.errors import ArgumentError, GradError, ShapeError
from adjoint.core.pytrees import TreeDef
from adjoint.core.records import record
from adjoint.core.shapes import show
from adjoint.core.source_lines import user_line
from adjoint.core.state import current
from adjoint.graph.control.regions import REGIONS, register
from adjoint.graph.control.scan import scan
from adjoint.graph.control.staging import Flat, fronts_of
from adjoint.graph.ir import Region, Type
from adjoint.graph.trace import TraceLevel
from adjoint.homes.forward import JvpLevel
from adjoint.homes.levels import GradLevel
from adjoint.homes.structures import undressed
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.batch import BatchLevel
from adjoint.transforms.dressing import dress_of

_METHODS = ("sequential", "expand_dims", "broadcast_all")


@record
class Host:
    """A user's function, with everything needed to call it on the values of tensors."""

    what: str  # for messages: "pure_callback"
    function: Callable[..., Any]
    structure: TreeDef  # of (args, keywords)
    leaves: tuple[Any, ...]  # of (args, keywords); None stands for a tensor
    places: tuple[int, ...]  # the positions of the tensors among the leaves
    out_structure: TreeDef
    types: tuple[Type, ...]  # of the results
    effect: bool  # whether it is called for its effect and returns nothing
    vmap_method: str = "sequential"

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def call(self, tensors: Flat) -> Flat:
        """Call the function with arrays, and return its results as tensors."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = array = np.array(tensor.array)  # the function may keep it
            array.flags.writeable = False
        args, keywords = pytrees.unflatten(self.structure, leaves)
        returned = self.function(*args, **keywords)
        if self.effect:
            return []
        same = pytrees.like(self.out_structure, returned, what=self.what, root="result")
        found = zip(pytrees.leaves(same), self.types, strict=True)
        return [self._result(value, kind) for value, kind in found]

    def _result(self, value: Any, kind: Type) -> Any:
        array = np.array(value.array if isinstance(value, Tensor) else value, kind.dtype.np)
        if array.shape != tuple(kind.shape):
            raise ShapeError(
                f"{self.what}: the function returned an array of shape {show(array.shape)}, and "
                f"result_shape_dtypes says {show(kind.shape)}"
            )
        return as_tensor(array)


def run(host: Host, operands: Flat) -> Flat:
    """Call a host function now, or add a node to the trace that calls it later."""
    level = dispatch.topmost(operands)
    if level is not None and dispatch.regions:
        level = dispatch.enclosing(level)
    if isinstance(level, (GradLevel, JvpLevel)):
        if not host.effect and not all(map(level.is_idle, operands)):
            raise _no_derivative(host)
        with level.outside():
            results = run(host, [level.below(t) for t in operands])
        return [level.lift(r) for r in results]
    if isinstance(level, BatchLevel):
        return _batched(level, host, operands)
    if not isinstance(level, TraceLevel):
        level = next((each for each in reversed(current().levels) if each.creates), None)
    if level is not None:
        return _node(level, host, operands)
    if not host.effect and current().recording and any(t.edge is not None for t in operands):
        raise _no_derivative(host)
    return host.call(operands)


def _no_derivative(host: Host) -> GradError:
    return GradError(
        f"{host.what}: {host!r} is a function of arrays and has no derivative; give it one with "
        "ad.custom_jvp or ad.custom_vjp, or detach() its arguments"
    )


def _node(level: Any, host: Host, operands: Flat) -> Flat:
    values = tuple([level.value(t) for t in operands])
    name = "effect" if host.effect else "callback"
    node = level.graph.add(REGIONS[name], (host, values), host.types)
    node.place = user_line()
    return [level.lift(v) for v in node.outputs]


def _batched(level: BatchLevel, host: Host, operands: Flat) -> Flat:
    fronts, has = fronts_of(level, operands)
    with level.outside():
        if host.vmap_method == "sequential":
            results = _one_by_one(level, host, fronts, has)
        else:
            results = _all_at_once(level, host, fronts, has)
    return [level.lift(r, 0) for r in results]


def _one_by_one(level: BatchLevel, host: Host, fronts: Flat, has: list[bool]) -> Flat:
    if not any(has):
        return [r.expand((level.size, *r.shape)) for r in run(host, fronts)]

    def step(carry: Any, rows: Flat) -> Any:
        samples = iter(rows)
        return carry, run(host, [next(samples) if h else f for f, h in zip(fronts, has)])

    return scan(step, (), [f for f, h in zip(fronts, has) if h])[1]


def _all_at_once(level: BatchLevel, host: Host, fronts: Flat, has: list[bool]) -> Flat:
    spread = [f if h else f.unsqueeze(0) for f, h in zip(fronts, has)]
    if host.vmap_method == "broadcast_all":
        spread = [f.expand((level.size, *f.shape[1:])) for f in spread]
    types = tuple([replace(t, shape=(level.size, *t.shape)) for t in host.types])
    return run(replace(host, types=types), spread)


def call(
    what: str,
    function: Callable[..., Any],
    results: Any,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    effect: bool,
    vmap_method: str = "sequential",
) -> Any:
    """Call a host function with the values of the tensors among its arguments."""
    if not callable(function):
        raise ArgumentError(f"{what}: needs a function, got {type(function).__name__}")
    if vmap_method not in _METHODS:
        raise ArgumentError(
            f"{what}: vmap_method must be one of {', '.join(_METHODS)}, got {vmap_method!r}"
        )
    given, structure = pytrees.flatten((args, keywords))
    dress, leaves = dress_of(given), [undressed(v) for v in given]
    places = tuple([i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)])
    examples, out_structure = pytrees.flatten(results, lambda v: hasattr(v, "shape"))
    types = tuple([Type(tuple(e.shape), to_dtype(e.dtype)) for e in examples])
    kept = tuple([None if i in places else leaf for i, leaf in enumerate(leaves)])
    host = Host(what, function, structure, kept, places, out_structure, types, effect, vmap_method)
    found = pytrees.unflatten(out_structure, run(host, [leaves[i] for i in places]))
    return dress.result(found)


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str = "sequential",
    **keywords: Any,
) -> Any:
    """Return `callback(*args)`, computed by any Python function of NumPy arrays.

    `result_shape_dtypes` are tensors or `ad.ShapeDtype(shape, dtype)` like the results. The
    function must depend on its arguments alone: a program may call it once, twice or not at all. It
    has no derivative; `ad.custom_jvp` gives it one. Inside `vmap` it is called for one sample after
    the other; with the method "expand_dims" or "broadcast_all" once, with a leading dimension that
    is 1, or repeated, where an argument is the same for all samples.

    >>> import adjoint as ad, numpy as np
    >>> sinc = lambda x: ad.pure_callback(np.sinc, x, x)
    >>> sinc(ad.tensor(0.5)), ad.compile(ad.vmap(sinc))(ad.tensor([0.0, 0.5]))
    (tensor(0.6366), tensor([1.0000, 0.6366]))
    """
    return call("pure_callback", callback, result_shape_dtypes, args, keywords, False, vmap_method)


def _run_node(_: Any, args: Any) -> Any:
    host, operands = args
    return run(host, list(operands))


register(Region("callback", _run_node), lambda node: node.args[0].types)
register(Region("effect", _run_node, effect=True), lambda node: [])
