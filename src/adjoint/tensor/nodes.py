"""The tape: the node that an operator records, so that backward can pass through it.

An *edge* says where the gradient of a tensor goes: to a `Node` with one output, to an `Output` of a
node with several, or to a `Leaf` that accumulates. A tensor requires a gradient exactly if it has
an edge. Nodes are numbered as they are made, so a larger number never feeds a smaller one, and
backward only has to take the largest number first.

Note [Counters]: a write in place counts on the `Counter` of the tensor, which every other tensor on
the same memory shares. Most tensors are never written to and start with the one `ZERO`; they get a
counter of their own (`own_counter`) before a second tensor on the same memory is made, before the
first write, and when a node saves them as its result. So whoever saved a value holds, in the tensor
or next to the array, the counter that later writes increase, whatever becomes of the tensor in
between. A tensor of a transform holds one of the level below, which others may hold and write to:
its `version` is the sum of the counts down to the memory.
"""

from __future__ import annotations

import itertools
import traceback
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from numpy import ndarray

from adjoint.core.dtypes import OF
from adjoint.core.errors import GradError, InplaceError
from adjoint.core.source_lines import CallSite, caller
from adjoint.core.state import current

next_sequence = itertools.count(1).__next__


class Counter:
    """Counts the writes to a piece of memory, and remembers the place of the last one."""

    __slots__ = ("by", "count", "place")

    by: str  # "add_", from the first write on
    place: CallSite | None  # set from the first write on, too

    def __init__(self) -> None:
        self.count = 0


class InferenceCounter(Counter):
    """The counter of a tensor made in inference mode: outside the mode nobody may read its count.

    Note [Inference]: such a tensor is an ordinary one whose counter, which its views share, is of
    this class. Whoever saves a tensor for backward reads its count, and gets an error here, unless
    a transform inside the mode saves it, which needs it no longer than the mode lasts. Operators
    first test `inference_modes` (core/state.py), a list that is empty unless some context is in the
    mode, and then whether it is their own context.
    """

    __slots__ = ("writes",)

    def __init__(self) -> None:
        self.writes = 0

    @property
    def count(self) -> int:  # type: ignore[override]
        if current().inference:
            return self.writes
        raise GradError(
            "a tensor made in inference_mode does not track versions, and cannot be saved for "
            "backward; clone() it outside, and use the clone"
        )


def is_inference(tensor: Any) -> bool:
    """Whether a tensor, or the tensor that it holds at the bottom, was made in inference mode."""
    while isinstance(getattr(tensor.value, "counter", None), Counter):
        tensor = tensor.value
    return type(tensor.counter) is InferenceCounter


def mark_inference(result: Any) -> Any:
    """Make a new tensor, or a list of them, inference tensors, if this context is in the mode."""
    if current().inference:
        for tensor in result if type(result) is list else [result]:
            tensor.counter = InferenceCounter()
    return result


# Functions called with a counter before its memory is written to: tape/mutation.py.
savers: list[Any] = []


def before_write(tensor: Any, by: str) -> None:
    """Call the functions that await a write; raise if an inference tensor is written to outside."""
    for saver in savers:
        saver.before_write(tensor.counter)
    if type(tensor.counter) is InferenceCounter and not current().inference:
        raise InplaceError(
            f"{by}: a tensor made in inference_mode is changed in place outside of it; clone() it "
            "first"
        )


ZERO = Counter()  # shared by all tensors that were never written to; never changed


# How a rule treats structural zeros: Note [Structural zeros] in structural_zeros.py.
DROPS, KEEPS, MOVES, SELECTS = range(4)


class Rule:
    """How a kind of node passes gradients; made from a row, or by hand for the engine's own nodes.

    `raw` works on plain arrays, and is None if the rule cannot; `general` works on tensors. Both
    take the node, its output gradient (a list for several outputs) and which inputs need one.
    """

    __slots__ = (
        "general",
        "holds",
        "name",
        "numbers",
        "raw",
        "runs_on_nothing",
        "saved_names",
        "unary",
        "unmarked",
        "zeros",
    )

    def __init__(
        self,
        name: str,
        general: Callable[..., Any],
        raw: Callable[..., Any] | None = None,
        saved_names: tuple[str, ...] = (),
        holds: bool = True,
        zeros: int = DROPS,
    ) -> None:
        self.name = name  # "MulBackward"
        self.general = general
        self.raw = raw
        self.saved_names = saved_names
        for name in saved_names:
            _offer_saved(name)
        self.numbers = 0  # how many tensor arguments are Python numbers: inputs without an edge
        self.runs_on_nothing = False  # whether it runs even when no gradient reaches the node
        self.unary = False  # whether it is elementwise in its only tensor
        self.holds = holds  # whether its nodes hold tensors, which a backward pass frees
        self.zeros = zeros  # DROPS, KEEPS, MOVES or SELECTS
        self.unmarked: Callable[..., Any] | None = None  # `raw` before it marked zeros


class NodeExtra:
    """Attributes that few nodes have: hooks, versions of saved results, a forward traceback."""

    __slots__ = (
        "captures",
        "expected",
        "metadata",
        "near",
        "parent",
        "post_hooks",
        "pre_hooks",
        "tangents",
        "tensor_hooks",
        "trace",
    )

    def __init__(self) -> None:
        self.expected: tuple[int, ...] = ()  # counts of the node's counters, if not all are 0
        self.tensor_hooks: dict[int, dict[int, Callable[..., Any]]] = {}
        self.pre_hooks: dict[int, Callable[..., Any]] = {}
        self.post_hooks: dict[int, Callable[..., Any]] = {}
        self.captures: dict[int, Any] = {}  # of retain_grad: output number -> weak tensor
        self.tangents: dict[int, Any] = {}
        self.trace: list[traceback.FrameSummary] | None = None
        self.parent: Node | None = None  # whose backward made this one, in anomaly mode
        self.metadata: dict[str, Any] = {}
        self.near: Any = None  # the home of its values, if the node computes infinitely near a kink


class InputMetadata(NamedTuple):
    """The shape and dtype of a gradient, known before it arrives."""

    shape: tuple[int, ...]
    dtype: Any


class Node:
    """One recorded operator."""

    __slots__ = (
        "__weakref__",
        "counters",
        "dtype",
        "extra",
        "home",
        "next",
        "outputs",
        "place",
        "rule",
        "saved",
        "sequence",
        "shape",
        "versions",
    )

    rule: Rule
    next: tuple[Any, ...]  # an edge or None for each differentiable input
    saved: tuple[Any, ...] | None  # None once released
    versions: tuple[int, ...] | None  # of the saved tensors; None where all were 0
    counters: tuple[Counter, ...]  # counters of the saved results; unset if the rule saves none
    shape: tuple[int, ...]  # shape of the output
    dtype: Any
    outputs: tuple[tuple[tuple[int, ...], Any], ...] | None  # shape and dtype of each, if several
    sequence: int
    place: CallSite | None
    home: Any  # None for plain tensors, else the level that the node lives on
    extra: NodeExtra | None

    def __init__(
        self, rule: Rule, following: tuple[Any, ...], saved: tuple[Any, ...], shape: Any, dtype: Any
    ) -> None:
        self.rule = rule
        self.next = following
        self.saved = saved
        self.versions = None
        self.shape = shape
        self.dtype = dtype
        self.outputs = None
        self.sequence = next_sequence()
        self.place = None
        self.home = None
        self.extra = None

    def more(self) -> NodeExtra:
        """Return the extras, made on first use."""
        if self.extra is None:
            self.extra = NodeExtra()
        return self.extra

    def name(self) -> str:
        """'MulBackward', as PyTorch names its nodes."""
        return self.rule.name

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that gradients go to, with the number of the output there."""
        return (*(key(e) for e in self.next), *((None, 0),) * self.rule.numbers)

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """The shape and dtype of each gradient that the node takes."""
        outputs = ((self.shape, self.dtype),) if self.outputs is None else self.outputs
        return tuple(InputMetadata(tuple(shape), OF.get(d, d)) for shape, d in outputs)

    def _sequence_nr(self) -> int:
        """The number of the node; larger ones run first."""
        return self.sequence

    def __call__(self, *grads: Any) -> tuple[Any, ...]:
        """Return the gradients of the inputs, given those of the outputs."""
        count = 1 if self.outputs is None else len(self.outputs)
        if len(grads) != count:
            raise TypeError(f"{self.name()} takes {count} gradients of outputs, got {len(grads)}")
        needs = tuple(e is not None for e in self.next)
        given = grads[0] if self.outputs is None else list(grads)
        return tuple(self.rule.general(self, given, needs, True))

    @property
    def metadata(self) -> dict[str, Any]:
        return self.more().metadata

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node ran."""
        return Handle(self.more().post_hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_outputs)` before this node runs."""
        return Handle(self.more().pre_hooks, hook)

    saved_attribute: ClassVar[Callable[[Node, str], Any]]  # set by _wiring.py: saved.py is above

    def __dir__(self) -> list[str]:
        starts = ("_saved_", "_raw_saved_")
        own = (n for n in super().__dir__() if not n.startswith(starts))
        return [*own, *(f"{start}{n}" for n in self.rule.saved_names for start in starts)]

    def __repr__(self) -> str:
        return f"<{self.rule.name}>"


class _Saved:
    """The attribute `_saved_self` of nodes: an offer, as operators are on tensors (tensor.py)."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, node: Node | None, kind: Any = None) -> Any:
        return self if node is None else Node.saved_attribute(node, self.name)


def _offer_saved(name: str) -> None:
    """Give nodes the attribute of a saved value; it works on nodes whose rule saves that value."""
    for attribute in (f"_saved_{name}", f"_raw_saved_{name}"):
        if attribute not in vars(Node):
            setattr(Node, attribute, _Saved(attribute))


class Output:
    """The edge to one of several outputs of a node."""

    __slots__ = ("node", "number")

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number


OPEN, ENDED, CLOSED = (
    0,
    1,
    2,
)  # states of a leaf: the user's; of an ended transform; of an ended transform, must not be reached


class LeafHooks:
    """The hooks of a leaf, in the order in which they run."""

    __slots__ = ("accumulated", "after", "before", "metadata", "on_tensor")

    def __init__(self) -> None:
        self.on_tensor: dict[int, Callable[..., Any]] = {}  # hook(grad)
        self.before: dict[int, Callable[..., Any]] = {}  # hook((grad,)), before accumulation
        self.accumulated: dict[int, Callable[..., Any]] = {}  # hook(tensor)
        self.after: dict[int, Callable[..., Any]] = {}  # hook((), (grad,))
        self.metadata: dict[str, Any] = {}


class Leaf:
    """The edge of a leaf tensor: gradients end here, in `.grad`."""

    __slots__ = ("__weakref__", "closed", "dtype", "home", "hooks", "sequence", "shape", "tensor")

    watched: ClassVar[set[weakref.ref[Leaf]]] = set()  # all living leaves that have hooks

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)
        self.closed = OPEN  # see Note [Closed leaves] in pullback.py
        self.shape = tensor.value.shape
        self.dtype = tensor.value.dtype
        self.sequence = 0
        self.hooks: LeafHooks | None = None
        self.home: Any = None

    next: tuple[Any, ...] = ()

    def more(self) -> LeafHooks:
        """Return the hooks, made on first use."""
        if self.hooks is None:
            self.take_hooks(LeafHooks())
        assert self.hooks is not None
        return self.hooks

    def take_hooks(self, hooks: LeafHooks) -> None:
        """Take these hooks, and enter the leaf in `watched`, so that passes run them in time."""
        self.hooks = hooks
        Leaf.watched.add(weakref.ref(self, Leaf.watched.discard))

    @property
    def variable(self) -> Any:
        """The leaf tensor."""
        return self.tensor()

    @property
    def next_functions(self) -> tuple[()]:
        return ()

    @property
    def metadata(self) -> dict[str, Any]:
        return self.more().metadata

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        return (InputMetadata(tuple(self.shape), OF.get(self.dtype, self.dtype)),)

    def name(self) -> str:
        return "AccumulateGrad"

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook((), (grad,))` after the gradient was accumulated."""
        return Handle(self.more().after, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook((grad,))` before the gradient is accumulated; a tuple replaces it."""
        return Handle(self.more().before, hook)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class Refusal:
    """The edge of an input without a derivative: a gradient on its way to `edge` raises."""

    __slots__ = ("message", "next")

    def __init__(self, message: str, edge: Any = None) -> None:
        self.message = message
        self.next = (edge,)


class Handle:
    """Removes a hook: `handle.remove()`, or use it as a context.

    `marks` are further dictionaries with an entry for the hook under the same number.
    """

    _ids = itertools.count().__next__

    def __init__(
        self,
        hooks: dict[int, Callable[..., Any]],
        hook: Callable[..., Any],
        *marks: dict[int, bool],
    ) -> None:
        self.hooks = hooks
        self.marks = marks
        self.id = Handle._ids()
        hooks[self.id] = hook
        for mark in marks:
            mark[self.id] = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        Handle._ids = itertools.count(max(self.id, Handle._ids()) + 1).__next__  # no number twice

    def remove(self) -> None:
        """Take the hook away; doing it twice is harmless."""
        for known in (self.hooks, *self.marks):
            known.pop(self.id, None)

    def hooks_dict_ref(self) -> dict[int, Callable[..., Any]]:
        """The dictionary of hooks, by number, that holds this one; PyTorch's name."""
        return self.hooks

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


def own_counter(tensor: Any) -> Counter:
    """The counter of a tensor's memory, made now if it has none: Note [Counters]."""
    if tensor.counter is ZERO:
        tensor.counter = Counter()
    return tensor.counter


def count_write(tensor: Any, by: str, place: Any = None) -> None:
    """Count a write to a tensor by operator `by`; `place` is the user's line, if it is known."""
    counter = tensor.counter
    if counter is ZERO:
        counter = own_counter(tensor)
    if type(counter) is InferenceCounter:
        counter.writes += 1
    else:
        counter.count += 1
    counter.by, counter.place = by, place or caller()


def version(tensor: Any) -> int:
    """How often a tensor's memory was written to, on its level and on the levels below."""
    count, held = tensor.counter.count, tensor.value
    while type(held) is not ndarray and hasattr(held, "counter"):  # a traced value has none
        count, held = count + held.counter.count, held.value
    return count


def counters_of(tensor: Any) -> list[Counter]:
    """The counters of a tensor and of the tensors that it holds, down to the memory."""
    found, held = [own_counter(tensor)], tensor.value
    while type(held) is not ndarray and hasattr(held, "counter"):
        found.append(own_counter(held))
        held = held.value
    return found


class Watch:
    """Watches the memory of a saved tensor for later writes. Raises for inference tensors."""

    __slots__ = ("counters", "expected")

    def __init__(self, tensor: Any) -> None:
        self.counters = counters_of(tensor)
        self.expected = [self.seen(c) for c in self.counters]

    def changed(self) -> Counter | None:
        """The counter of a tensor that was written to since then, or None."""
        pairs = zip(self.counters, self.expected, strict=True)
        return next((c for c, count in pairs if self.seen(c) != count), None)

    @staticmethod
    def seen(counter: Counter) -> int:
        return counter.count


class CopyWatch(Watch):
    """Watches the memory of a copied tensor, which may be an inference tensor."""

    __slots__ = ()

    @staticmethod
    def seen(counter: Counter) -> int:
        return counter.writes if type(counter) is InferenceCounter else counter.count


def reaches(edge: Any, targets: Any) -> bool:
    """Whether gradients that arrive at `edge` go on to one of `targets`. Iterative."""
    wanted = {t.node if type(t) is Output else t for t in targets}
    known: set[Any] = set()
    stack = [edge]
    while stack:
        following = stack.pop()
        node = following.node if type(following) is Output else following
        if node is None or node in known:
            continue
        if node in wanted:
            return True
        known.add(node)
        stack.extend(node.next)
    return False


def node_of(edge: Any) -> Any:
    """The node, or the leaf, of an edge."""
    return edge.node if type(edge) is Output else edge


def key(edge: Any) -> tuple[Any, int]:
    """The node of an edge and the number of its output there."""
    return (edge.node, edge.number) if type(edge) is Output else (edge, 0)


def move(tensor: Any, edge: Any) -> None:
    """Give a tensor that was written to a new edge; its retain_grad() moves to the new edge.

    Hooks stay with the version that they were registered on.
    """
    extra = tensor.extra
    if extra is not None and extra.retains_grad:
        before, number = key(tensor.edge)
        if isinstance(before, Node):
            before.more().captures.pop(number, None)
        after, number = key(edge)
        if isinstance(after, Node):
            after.more().captures[number] = weakref.ref(tensor)
    tensor.edge = edge
