"""Care for saved values: versions, saved-tensor hooks, anomaly traces, unpacking."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from adjoint.core.errors import ArgumentError, GradError, HookError, InplaceError
from adjoint.core.source_lines import show_place, source_of
from adjoint.core.state import OFF, changed, current
from adjoint.tape import backward_passes
from adjoint.tape.saving import RESULT, TENSOR, TENSORS
from adjoint.tensor.nodes import Counter, Node, Output, counters_of, version
from adjoint.tensor.tensor import Tensor, alias, make


class Packed:
    """A saved tensor in the form that a user's pack hook returned."""

    __slots__ = ("edge", "packed", "unpack_hook")

    def __init__(self, packed: Any, unpack_hook: Callable[..., Any], edge: Any) -> None:
        self.packed = packed
        self.unpack_hook = unpack_hook
        self.edge = edge

    def unpack(self) -> Tensor:
        tensor = self.unpack_hook(self.packed)
        if not isinstance(tensor, Tensor):
            raise ArgumentError(
                f"saved_tensors_hooks: unpack must return a tensor, got {type(tensor).__name__}"
            )
        if self.edge is None and tensor.edge is None:
            return tensor
        return alias(tensor, self.edge)


class _PackedSavesHome:
    """The home of nodes with packed saved values; a node with a home never runs its raw rule."""

    def below(self, value: Any) -> Any:
        return value

    def result(self, value: Any, edge: Any, node: Node, number: int) -> Any:
        return make(value, edge=edge) if not isinstance(value, Tensor) else value


PACKED = _PackedSavesHome()


@contextmanager
def unpacked_once(node: Node) -> Generator[None]:
    """Unpack a node's packed values once for a block that reads them twice."""
    packed = node.saved
    node.saved = tuple(_once(v) for v in packed or ())
    try:
        yield
    finally:
        node.saved = packed


def _once(value: Any) -> Any:
    if type(value) is list:
        return [_once(v) for v in value]
    if type(value) is not Packed:
        return value
    unpacked = functools.cache(lambda: value.unpack_hook(value.packed))
    return Packed(value.packed, lambda _: unpacked(), value.edge)


def versions_of(rule: Any, saved: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The versions of saved tensors, lists flattened; None where all are 0."""
    versions: list[int] = []
    for save, value in zip(rule.saves, saved, strict=False):
        if save.kind == TENSOR:
            versions.append(0 if value is None else version(value))
        elif save.kind == TENSORS:
            versions += [0 if t is None else version(t) for t in value or ()]
    return tuple(versions) if any(versions) else None


def watch(node: Node, outs: tuple[Any, ...]) -> None:
    """Store in a node the counters of the results that it saves, down to the memory."""
    flat = [t for out in outs for t in (out if isinstance(out, (list, tuple)) else [out])]
    node.counters = tuple(c for t in flat for c in counters_of(t))
    expected = tuple(c.count for c in node.counters)
    if any(expected):
        node.more().expected = expected


def check_versions(node: Node) -> None:
    """Raise if a saved value was changed in place since it was saved."""
    rule: Any = node.rule
    tensors: list[Any] = []  # the arguments that the node saved; None for an absent one
    for save, value in zip(rule.saves, node.saved or (), strict=False):
        if save.kind == TENSOR:
            tensors.append(value)
        elif save.kind == TENSORS:
            tensors.extend(value or ())
    for tensor, expected in zip(tensors, node.versions or (0,) * len(tensors), strict=True):
        if isinstance(tensor, Tensor) and version(tensor) != expected:
            raise_changed(node, next(c for c in counters_of(tensor) if c.count))
    if not rule.first_counter:  # no result is saved
        return
    pairs = zip(rule.saves, node.saved or (), strict=False)
    if any(s.kind == RESULT and type(v) is not Packed for s, v in pairs):
        counts = (node.extra and node.extra.expected) or (0,) * len(node.counters)
        for counter, expected in zip(node.counters, counts, strict=True):
            if counter.count != expected:
                raise_changed(node, counter)


def raise_changed(node: Node, counter: Counter) -> None:
    """Raise because a value that `node` saved was written to."""
    text = source_of(node.place)
    raise InplaceError(
        f"a value needed for backward of {_operator_name(node)} (saved at {show_place(node.place)}"
        f"{f': {text}' if text else ''}) was changed in place by {counter.by} "
        f"({show_place(counter.place)}). Use the out-of-place operator there, or clone() the "
        "value before; where the code is not yours, "
        "ad.autograd.graph.allow_mutation_on_saved_tensors() keeps a copy."
    )


def _operator_name(node: Node) -> str:
    row = getattr(node.rule, "row", None)
    return row.name if row is not None else node.rule.name


def check_kept(node: Node) -> None:
    """Raise if the saved values of a node were freed."""
    if node.saved is None:
        raise GradError(
            f"backward a second time through {node.rule.name}, or a look at what it saved: a first "
            "pass freed its saved values. Specify retain_graph=True in the first backward or grad."
        )


def unpack(node: Node, rule: Any, graph: bool) -> list[Any]:
    """The saved values as tensors; if `graph`, with their own history, for a second backward."""
    if node.saved is None:
        check_kept(node)
    assert node.saved is not None
    check_versions(node)
    values: list[Any] = []
    for save, value in zip(rule.saves, node.saved, strict=False):
        if value is None:
            values.append(None)
        elif save.kind == RESULT:
            tracked = graph and rule.row.differentiable_outputs[save.number]
            values.append(_result(node, value, save.number, graph, tracked))
        elif save.kind == TENSOR:
            if graph:
                _check_attached(node, rule.row, save.source, value)
            values.append(_input(node, value, graph))
        elif save.kind == TENSORS:
            values.append([None if v is None else _input(node, v, graph) for v in value])
        else:
            values.append(value)
    values.extend(node.saved[len(rule.saves) :])
    return values


def _check_attached(node: Node, row: Any, source: str, value: Any) -> None:
    """Raise if an argument had a history when it was saved and has lost it since."""
    if type(value) is Packed or value.edge is not None:
        return
    for argument, edge in zip(row.differentiable, node.next, strict=False):
        if argument.type.is_list:
            return  # edges and arguments no longer correspond
        if argument.name == source and isinstance(edge, (Node, Output)):
            raise InplaceError(
                f"a value needed for a second derivative of {_operator_name(node)} (saved at "
                f"{show_place(node.place)}) was cut off from its history by detach_(); use "
                "detach() there"
            )


def _input(node: Node, value: Any, graph: bool) -> Any:
    if type(value) is Packed:
        value = value.unpack()
    if graph:
        return value
    if node.home is not None and node.home is not PACKED:
        return node.home.below(value)
    # a linear pass records, but must not record the history of saved values
    return alias(value) if current().recording and value.edge is not None else value


def _result(node: Node, value: Any, number: int, graph: bool, tracked: bool) -> Any:
    if type(value) is list:
        return [_result(node, v, i, graph, tracked) for i, v in enumerate(value)]
    edge: Any = (node if node.outputs is None else Output(node, number)) if tracked else None
    if type(value) is Packed:
        value = value.unpack().value
    if node.home is not None:
        return (
            node.home.result(value, edge, node, number)
            if graph or node.home is PACKED or not isinstance(value, Tensor)
            else node.home.below(value)
        )
    made = make(value, edge=edge)
    rule: Any = node.rule
    made.counter = node.counters[rule.first_counter.get(number, number)]
    return made


def observe(node: Node) -> None:
    """Apply anomaly mode, saved-tensor hooks and creation hooks to a new node."""
    obey_modes(node)
    announce(node)


def announce(node: Node) -> None:
    """Call the hooks of new nodes, the outermost first."""
    hooks = current().node_hooks
    if not hooks:
        return
    with changed(node_hooks=(_refuse,)):
        for hook in hooks:
            if hook(node) is not None:
                raise HookError("node_creation_hook: the hook must return None.")


def _refuse(node: Node) -> None:
    raise HookError(
        f"node_creation_hook: {node.name()} was recorded from inside a node creation hook; compute "
        "under no_grad() there."
    )


def obey_modes(node: Node) -> None:
    """Apply anomaly mode and saved-tensor hooks to a new node."""
    state = current()
    if state.anomaly:
        extra = node.more()
        extra.trace = traceback.extract_stack()[:-2]
        run = backward_passes.innermost()
        extra.parent = None if run is None else run.node
    if state.saved_hooks and node.saved:
        pack, unpack_hook = state.saved_hooks[-1]
        packed = [
            pack_value(v, pack, unpack_hook, _counter(node, s))
            if s.kind in (TENSOR, TENSORS, RESULT)
            else v
            for s, v in zip(getattr(node.rule, "saves", ()), node.saved, strict=False)
        ]
        node.saved = (*packed, *node.saved[len(packed) :])
        node.home = PACKED


def _counter(node: Node, save: Any) -> Counter | None:
    """The counter of a saved result; None if the entry is no result."""
    if save.kind != RESULT:
        return None
    rule: Any = node.rule
    return node.counters[rule.first_counter.get(save.number, save.number)]


def pack_value(
    value: Any,
    pack: Callable[..., Any],
    unpack_hook: Callable[..., Any],
    counter: Counter | None = None,
) -> Any:
    """Pack a saved tensor, a list of tensors, or the array of a result with a user's hook."""
    if value is None:
        return None
    if isinstance(value, list):
        return [pack_value(v, pack, unpack_hook) for v in value]
    is_tensor = isinstance(value, Tensor)
    given = alias(value) if is_tensor else make(value)
    if counter is not None:
        given.counter = counter
    before = version(given)
    with changed(recording=OFF):
        packed = pack(given)
    if version(given) != before:
        raise InplaceError(
            "saved_tensors_hooks: the pack hook changes its argument in place, which is memory "
            "that others use; change a clone() of it"
        )
    return Packed(packed, unpack_hook, value.edge if is_tensor else None)
