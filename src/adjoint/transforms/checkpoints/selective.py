"""Selective checkpoints: a policy decides for each operator whether its result is kept.

Inside such a checkpoint the tensors have a class (`Watched`) whose operators run here. The first
run keeps the results that the policy wants; later runs take them instead of computing them, and
record only the node of the operator. Operators whose only tensors are closed over by the function
are not seen, and are computed again.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, GradError, InplaceError, ValueRangeError
from adjoint.core.state import current
from adjoint.homes.subclasses import SubclassInterpreter, as_class, in_class, plainly, take_over
from adjoint.ops import binding
from adjoint.ops.kinks import is_limit
from adjoint.ops.operator import Operator, Packet
from adjoint.tensor.home import Home
from adjoint.tensor.nodes import Watch
from adjoint.tensor.tensor import Tensor, alias, make


class CheckpointPolicy(enum.Enum):
    """The fate of an operator's result; MUST and PREFER mean the same here."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """The first argument of a policy."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute  # whether this is a later run


_active: ContextVar[Any] = ContextVar("selective checkpoint", default=None)


class _Watching(SubclassInterpreter):
    """Hands operators to the current run."""

    detach, data = Home.detach, Home.data  # detached tensors are not watched

    def process(self, op: Operator, values: list[Any]) -> Any:
        row, run = op.row, _active.get()
        if row.decompose and not row.reverse and not row.forward:
            composed = binding.decomposition(row)
            return composed(*values) if run is None else run.composite(op, composed, values)
        if run is None or not _can_be_kept(op):
            return in_class(Watched, op.call, values)
        return run.process(op, values)


class Watched(Tensor):
    """A tensor inside a selective checkpoint."""

    class_home = _Watching()


def _can_be_kept(op: Operator) -> bool:
    """Whether an operator returns new tensors, and adds nothing at kinks or repeated values."""
    near = "fan" in op.row.texts or "kink" in op.row.texts
    plain = all(r.type.is_tensor and not r.type.is_list for r in op.schema.returns)
    return plain and not near and not op.schema.is_view and not op.schema.mutates


class _KeptResults:
    """The tensors that one call of an operator returned."""

    def __init__(self, results: Any, may_change: bool) -> None:
        self.several = isinstance(results, tuple)
        tensors = list(results) if self.several else [results]
        # without history, which would make a cycle
        self.tensors = [make(t.value.copy()) if may_change else alias(t) for t in tensors]
        self.watches = [Watch(t) for t in self.tensors]

    def results(self, op: Operator) -> Any:
        if any(w.changed() is not None for w in self.watches):
            raise InplaceError(
                f"checkpoint: a result of {op.full_name} that the policy keeps has been mutated; "
                "use the out-of-place operator, or allow_cache_entry_mutation=True"
            )
        return tuple(self.tensors) if self.several else self.tensors[0]


class _PolicyRun(AbstractContextManager[None]):
    """The context of a run of the function: the first one or a later one."""

    def __init__(self, policy: Callable[..., Any], kept: Any, may_change: bool) -> None:
        self.policy, self.kept, self.may_change = policy, kept, may_change
        self.tokens: list[Any] = []

    is_recompute = False
    whole = False  # whether a decomposed operator is kept whole, with its parts

    def __enter__(self) -> None:
        self.tokens.append(_active.set(self))

    def __exit__(self, *_: Any) -> None:
        _active.reset(self.tokens.pop())

    def saves(self, op: Operator, values: list[Any]) -> bool:
        """Whether the policy keeps the result of an operator."""
        if self.whole:
            return True
        context = SelectiveCheckpointContext(is_recompute=self.is_recompute)
        answer = self.policy(context, op, *values)
        return answer in _SAVED if isinstance(answer, CheckpointPolicy) else bool(answer)

    def composite(self, op: Operator, composed: Callable[..., Any], values: list[Any]) -> Any:
        """Run a decomposed operator; if it is kept, the results of its parts are kept."""
        before, self.whole = self.whole, self.saves(op, values)
        try:
            return composed(*values)
        finally:
            self.whole = before

    def watching(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run on watched tensors."""

        def watched(*args: Any, **keywords: Any) -> Any:
            known: dict[int, Tensor] = {}
            given = pytrees.map(lambda v: as_class(Watched, v, known), (args, keywords))
            result = f(*given[0], **given[1])
            for tensor in pytrees.leaves(given):
                if type(tensor) is Watched:  # in case it was written to
                    take_over(known[id(tensor)], tensor)
            return pytrees.map(lambda v: plainly(v, known) if type(v) is Watched else v, result)

        return watched


class FirstRun(_PolicyRun):
    """The first run, which keeps results."""

    def process(self, op: Operator, values: list[Any]) -> Any:
        saves = self.saves(op, values)
        results = in_class(Watched, op.call, values)
        if saves:  # a tensor from a kink is more than its value, and is computed again
            near = any(is_limit(v) for v in pytrees.leaves((values, results)))
            self.kept[op].append(None if near else _KeptResults(results, self.may_change))
        return results


class LaterRun(_PolicyRun):
    """A later run, which takes the kept results."""

    is_recompute = True

    def process(self, op: Operator, values: list[Any]) -> Any:
        if not self.saves(op, values):
            return in_class(Watched, op.call, values)
        if not self.kept[op]:
            raise GradError(
                f"checkpoint: the kept result of {op.full_name} has been used. Trying to backward "
                "an extra time through a selective checkpoint is not possible; or the policy or "
                "the function do not do the same each time"
            )
        kept = self.kept[op].popleft()
        if kept is None:
            return in_class(Watched, op.call, values)
        results = kept.results(op)
        return in_class(Watched, lambda plain: _recorded(op, plain, results), values)


def _recorded(op: Operator, values: list[Any], results: Any) -> Any:
    """Record the node of an operator whose results are known; return them with their history."""
    recording = current().recording
    lists = [v if type(v) is list else [v] for v in values]
    wants = any(isinstance(t, Tensor) and t.edge is not None for each in lists for t in each)
    if recording and wants and op.parts.record is not None:
        op.parts.record(*values, results, None, recording)
    return results


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Operator],
    allow_cache_entry_mutation: bool = False,
) -> tuple[Any, Any]:
    """Return the two contexts that `context_fn` of checkpoint gives, for a policy.

    The policy is a list of operators whose results are kept, or a function
    `policy(ctx, op, *args)` that returns a `CheckpointPolicy` or a bool.

    >>> import adjoint as ad, functools
    >>> from adjoint.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> products = [ad.ops.matmul.default]
    >>> keep_products = functools.partial(create_selective_checkpoint_contexts, products)
    >>> x = ad.eye(2, requires_grad=True)
    >>> f = lambda x: (x @ x).sin().sum()
    >>> checkpoint(f, x, use_reentrant=False, context_fn=keep_products).backward()
    """
    policy = _policy(policy_fn_or_list)
    kept: Any = defaultdict(deque)
    return (
        FirstRun(policy, kept, allow_cache_entry_mutation),
        LaterRun(policy, kept, allow_cache_entry_mutation),
    )


def _policy(given: Any) -> Callable[..., Any]:
    if callable(given) and not isinstance(given, (Operator, Packet)):
        return given
    if not isinstance(given, (list, tuple)):
        raise ArgumentError(
            "create_selective_checkpoint_contexts: give either a function or a list of ops, got "
            f"{type(given).__name__}"
        )
    for op in given:
        if not isinstance(op, Operator):
            raise ValueRangeError(
                "create_selective_checkpoint_contexts: the list holds operators such as "
                f"ad.ops.mm.default, got {op!r}"
            )
    listed = tuple(given)
    return lambda context, op, *args: any(op is known for known in listed)
