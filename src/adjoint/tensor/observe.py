"""Looking after what nodes save: versions, saved-tensor hooks, anomaly traces, unpacking."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from adjoint.core.errors import GradError, InplaceError
from adjoint.core.state import OFF, changed, current
from adjoint.tensor.saving import RESULT, TENSOR, TENSORS
from adjoint.tensor.tape import Node, Output, show_place, source_of
from adjoint.tensor.tensor import Tensor, make


class Packed:
    """A saved tensor as a user's pack hook left it."""

    __slots__ = ("edge", "packed", "unpack_hook")

    def __init__(self, packed: Any, unpack_hook: Callable[..., Any], edge: Any) -> None:
        self.packed = packed
        self.unpack_hook = unpack_hook
        self.edge = edge

    def unpack(self) -> Tensor:
        tensor = self.unpack_hook(self.packed)
        if not isinstance(tensor, Tensor):
            raise GradError(
                f"saved_tensors_hooks: unpack must return a tensor, got {type(tensor).__name__}"
            )
        return make(tensor.value, edge=self.edge)


class _PackedHome:
    """The home of nodes whose saved values are packed: keeps them off the raw path."""

    def below(self, value: Any) -> Any:
        return value

    def result(self, value: Any, edge: Any, node: Node, number: int) -> Any:
        return make(value, edge=edge) if not isinstance(value, Tensor) else value


PACKED = _PackedHome()


def versions_of(values: tuple[Any, ...]) -> tuple[int, ...]:
    """The versions of saved tensors, lists flattened."""
    return tuple(t.counter.count for t in _tensors(values))


def _tensors(values: tuple[Any, ...]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif type(value) is list:
            found.extend(t for t in value if isinstance(t, Tensor))
    return found


def check_versions(node: Node) -> None:
    """Raise if a saved value was changed in place since it was saved."""
    tensors = _tensors(node.saved or ())
    versions = node.versions or (0,) * len(tensors)
    if node.versions is not None and len(versions) != len(tensors):
        tensors, versions = _aligned(node)
    for tensor, version in zip(tensors, versions, strict=False):
        if tensor.counter.count != version:
            _changed(node, tensor.counter)
    if node.extra is not None:
        saves_results = any(s.kind == RESULT for s in getattr(node.rule, "saves", ()))
        for counter, expected in node.extra.counters.values():
            if saves_results and counter.count != expected:
                _changed(node, counter)


def _aligned(node: Node) -> tuple[list[Any], tuple[int, ...]]:
    """Arguments that were kept, with their versions: of several some may not have been needed, and
    results, which can be tensors of a level below, have none.
    """
    assert node.versions is not None
    assert node.saved is not None
    kept = [
        v
        for s, v in zip(getattr(node.rule, "saves", ()), node.saved, strict=False)
        if s.kind == TENSOR
    ]
    pairs = [(v, c) for v, c in zip(kept, node.versions, strict=False) if v is not None]
    return [v for v, _ in pairs], tuple(c for _, c in pairs)


def _changed(node: Node, counter: Any) -> None:
    text = source_of(node.place)
    raise InplaceError(
        f"a value needed for backward of {_operator_name(node)} (saved at {show_place(node.place)}"
        f"{f': {text}' if text else ''}) was changed in place by {counter.by or 'an operator'} "
        f"({show_place(counter.place)}). Use the out-of-place operator there, or clone() the "
        "value before."
    )


def _operator_name(node: Node) -> str:
    row = getattr(node.rule, "row", None)
    return row.name if row is not None else node.rule.name


def unpack(node: Node, rule: Any, graph: bool) -> list[Any]:
    """The saved values as tensors: with their own history if `graph`, for a backward of
    backward.
    """
    if node.saved is None:
        raise GradError(
            f"backward a second time through {rule.name}: its saved values were freed by the "
            "first pass. "
            "Call the first backward or grad with retain_graph=True."
        )
    if node.home is not PACKED:
        check_versions(node)
    values: list[Any] = []
    for save, value in zip(rule.saves, node.saved, strict=False):
        if value is None:
            values.append(None)
        elif save.kind == RESULT:
            tracked = graph and rule.row.differentiable_outputs[save.number]
            values.append(_result(node, value, save.number, graph, tracked))
        elif save.kind == TENSOR:
            values.append(_input(node, value, graph))
        elif save.kind == TENSORS:
            values.append([None if v is None else _input(node, v, graph) for v in value])
        else:
            values.append(value)
    values.extend(node.saved[len(rule.saves) :])
    return values


def _input(node: Node, value: Any, graph: bool) -> Any:
    if type(value) is Packed:
        return value.unpack()
    if graph:
        return value
    if node.home is not None:
        return node.home.below(value)
    # a pass that is linear in its gradients records, and must not record the saved values' history
    return make(value.value) if current().recording and value.edge is not None else value


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
    return make(value, edge=edge)


def observe(node: Node) -> None:
    """Do what anomaly mode and saved-tensor hooks ask for a new node."""
    state = current()
    if state.anomaly:
        node.more().trace = traceback.extract_stack()[:-2]
    if state.saved_hooks and node.saved:
        pack, unpack_hook = state.saved_hooks[-1]
        saves = getattr(node.rule, "saves", ())
        packed: list[Any] = []
        with changed(recording=OFF):
            for save, value in zip(saves, node.saved, strict=False):
                packed.append(_pack(save.kind, value, pack, unpack_hook))
        node.saved = (*packed, *node.saved[len(packed) :])
        node.home = PACKED


def _pack(kind: str, value: Any, pack: Callable[..., Any], unpack_hook: Callable[..., Any]) -> Any:
    if value is None:
        return None
    if kind == TENSOR:
        return Packed(pack(make(value.value)), unpack_hook, value.edge)
    if kind == TENSORS:
        return [None if v is None else _pack(TENSOR, v, pack, unpack_hook) for v in value]
    if kind == RESULT and not isinstance(value, list):
        return Packed(pack(make(value)), unpack_hook, None)
    return value
