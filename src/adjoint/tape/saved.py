"""The values that a node has saved: `grad_fn._saved_self`, `grad_fn._raw_saved_self`.

A saved tensor can be given hooks of its own: it is packed at once, and unpacked whenever the node
needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.errors import GradError
from adjoint.tape import observe
from adjoint.tape.saving import RESULT, TENSOR, TENSORS
from adjoint.tensor.nodes import Node


class SavedTensor:
    """A tensor in a node, as it was saved; `register_hooks` changes how it is kept."""

    __slots__ = ()

    def __init__(self, *_: Any) -> None:
        raise GradError("SavedTensor: nodes make these; look at grad_fn._raw_saved_…")


class _SavedByRow(SavedTensor):
    """A saved tensor of an operator's node."""

    __slots__ = ("node", "number", "place")

    def register_hooks(
        self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]
    ) -> None:
        """Pack the saved tensor now, and unpack it when it is needed."""
        node = self.node
        observe.check_kept(node)
        assert node.saved is not None
        values = list(node.saved)
        value = values[self.number] if self.place is None else values[self.number][self.place]
        if type(value) is observe.Packed:
            raise GradError(f"{node.name()}: hooks have been set on this saved tensor already")
        packed = observe.pack_value(value, pack_hook, unpack_hook)
        if self.place is None:
            values[self.number] = packed
        else:
            values[self.number] = [*values[self.number]]
            values[self.number][self.place] = packed
        node.saved, node.home = tuple(values), observe.PACKED


def raw(node: Node, number: int, place: int | None) -> SavedTensor:
    """The tensor at a place of a node's saved values; `place`: in a list of tensors there."""
    made = object.__new__(_SavedByRow)
    made.node, made.number, made.place = node, number, place
    return made


def saved_attribute(node: Node, name: str) -> Any:
    """The value of `_saved_<name>` or `_raw_saved_<name>` of a node."""
    is_raw = name.startswith("_raw_")
    wanted = name.removeprefix("_raw").removeprefix("_saved_")
    names = node.rule.saved_names
    if wanted not in names:
        raise AttributeError(f"{node.name()} has no {name!r}; it has saved {', '.join(names)}")
    number = names.index(wanted)
    kind = node.rule.saves[number].kind  # type: ignore[attr-defined] - rules that save have it
    if not is_raw:
        value = observe.unpack(node, node.rule, True)[number]
        return tuple(value) if kind == TENSORS else value
    if kind not in (TENSOR, RESULT, TENSORS):
        raise AttributeError(f"{node.name()}: {wanted} is not a tensor; look at _saved_{wanted}")
    observe.check_kept(node)
    assert node.saved is not None
    value = node.saved[number]
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(raw(node, number, i) for i in range(len(value)))
    return raw(node, number, None)
