"""Sparse Jacobians and Hessians as programs: prepared once for arguments of some shapes, reused.

`EntriesOf` is a function of the user's arguments that returns the entries of the matrix, and the
number of their `Places`. It is compiled: while it is traced, the derivative of the user's function
becomes a graph (linearized.py) and then either a sum of diagonals (diagonals.py), whose entries are
computed directly, or a pattern (patterns.py) with a colouring, whose entries are picked from the
products with the seeds of the colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from adjoint.compiler.compiled import compile as compiled
from adjoint.core import pytrees
from adjoint.core.dtypes import int64
from adjoint.core.errors import ArgumentError, GradError
from adjoint.core.records import record
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Constant, Graph
from adjoint.graph.trace import ShapeDtype, TraceLevel, trace
from adjoint.homes.pullback import pullback
from adjoint.ops.operator import packet
from adjoint.sparse_derivatives import colouring
from adjoint.sparse_derivatives import regions as regions  # their rules
from adjoint.sparse_derivatives.blocks import FORMATS, Block, Entries, arranged, as_entries
from adjoint.sparse_derivatives.colouring import Colouring
from adjoint.sparse_derivatives.diagonals import Diagonal, Diagonals, TooMany, entries_of
from adjoint.sparse_derivatives.fixed import fix, unfix
from adjoint.sparse_derivatives.linearized import Flat, Linearized, gradient_of, jacobian_of
from adjoint.sparse_derivatives.patterns import Patterns
from adjoint.sparse_derivatives.propagation import Propagation
from adjoint.tensor.nodes import CopyWatch
from adjoint.tensor.tensor import make
from adjoint.transforms import arguments
from adjoint.transforms.arguments import Argnums
from adjoint.transforms.dressing import plain_tree
from adjoint.transforms.forward import pushforward
from adjoint.transforms.reverse import filled
from adjoint.transforms.transformed import Transformed, Wrapper, keeps_signature
from adjoint.transforms.vectorize import vmap


@record
class Places:
    """The places of all entries, and how the entries were computed."""

    blocks: list[list[Block]]  # [output][input]
    inputs: Any  # structure of the inputs
    outputs: Any  # structure of the outputs
    colouring: Colouring | None  # None: computed directly


@record
class Asked:
    """What a sparse derivative is asked for."""

    what: str  # "jacobian" or "hessian"
    argnums: Argnums = 0
    form: str = "csr"
    lower: bool = False  # the lower triangle alone
    value: bool = False  # the outputs of the function, too


class EntriesOf(Wrapper[..., Any]):
    """A function of the user's arguments that returns entries, the outputs of his function if they
    are asked for, and the number of the places of the entries.
    """

    def __init__(self, function: Callable[..., Any], asked: Asked) -> None:
        self.asked = asked
        self.known: list[Places] = []
        self.watches: list[Any] = []  # tell of writes to outside tensors that graphs copied
        keeps_signature(function, self, asked.what)

    def remake(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return EntriesOf, (self.__wrapped__, self.asked)

    @property
    def is_old(self) -> bool:
        """Whether an outside tensor has been written to."""
        return any(
            CopyWatch.seen(counter) != count
            for watch in self.watches
            for counter, count in zip(watch.counters, watch.expected, strict=True)
        )

    def __call__(self, *args: Any, **keywords: Any) -> tuple[Any, list[Any], Any]:
        args, keywords = unfix((args, keywords))
        problem = Problem(self, args, keywords)
        if any(isinstance(t.home, TraceLevel) for t in problem.inputs):
            return problem.solved(*problem.inputs)
        graph = trace(problem.solved, *[ShapeDtype.of(t, t.shape, False) for t in problem.inputs])
        found, *outputs, number = run_flat(graph, problem.inputs)
        return found, outputs, number


class Problem:
    """One call: the function of flat inputs, and what is made of it."""

    def __init__(self, owner: EntriesOf, args: Any, keywords: Any) -> None:
        self.owner, self.asked = owner, owner.asked
        self.inputs, self.structure, self.flat, _ = arguments.flat_function(
            self.asked.what, owner.__wrapped__, self.asked.argnums, args, keywords
        )
        self.outputs: Any = None  # structure of the outputs

    def function(self, *values: Any) -> list[Any]:
        """The user's function, from tensors to tensors."""
        what = self.asked.what
        leaves, self.outputs = arguments.flatten_output(what, plain_tree(self.flat(*values)))
        _check(what, values, leaves)
        return leaves

    def derived(self) -> tuple[Flat, Linearized]:
        """The function whose Jacobian is asked for, and its derivative."""
        chosen = range(len(self.inputs))
        function: Flat = self.function
        if self.asked.what == "hessian":
            function = gradient_of(self.function, chosen)
        return function, jacobian_of(function, self.inputs, chosen)

    def solved(self, *inputs: Any) -> tuple[Any, list[Any], Any]:
        """The entries for traced inputs, the outputs, and the number of the places."""
        asked, owner = self.asked, self.owner
        derived, linear = self.derived()
        owner.watches += _watches(linear.graph)
        used = None
        try:
            entries = _direct(linear, inputs)
        except TooMany:
            pattern = pattern_of(linear)
            used = colouring.best(pattern, is_symmetric=asked.what == "hessian")
            entries = _coloured(pattern, used, derived, inputs)
        if asked.lower:
            entries = entries.lower()
        found, blocks = arranged(entries, linear.rows, linear.columns, asked.form)
        owner.known.append(Places(blocks, self.structure, self.outputs, used))
        outputs = self.function(*inputs) if asked.value else []
        return found, outputs, packet("full")((), len(owner.known) - 1, dtype=int64)


def _check(what: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    if any(t.is_complex() for t in (*inputs, *outputs)):
        raise GradError(
            f"{what}: sparse=True is for real numbers; separate real and imaginary parts with "
            "ad.view_as_real"
        )
    if what == "hessian" and (len(outputs) != 1 or outputs[0].numel() != 1):
        shapes = ", ".join(str(tuple(o.shape)) for o in outputs)
        raise ArgumentError(
            f"{what}: the function must return one number, got {len(outputs)} tensors of shapes "
            f"{shapes}"
        )


def _watches(graph: Graph) -> list[Any]:
    found = [n.op.watch for n in graph.nodes if isinstance(n.op, Constant) and n.op.watch]
    inner = (g for node in graph.nodes for g in node.graphs.values())
    return found + [watch for each in inner for watch in _watches(each)]


def _direct(linear: Linearized, inputs: Sequence[Any]) -> Entries:
    """The entries by diagonals."""
    values = linear.graph.inputs
    tangents, start = {}, 1
    for value in values[linear.primals :]:
        numbers = np.arange(start, start + math.prod(value.shape)).reshape(value.shape)
        tangents[value] = [Diagonal(numbers, make(np.ones(value.shape, value.dtype.np)))]
        start += numbers.size
    known = dict(zip(values[: linear.primals], inputs, strict=True))
    found = Propagation(linear.graph, Diagonals(), known).run(tangents)
    return entries_of(found, linear.graph.outputs)


def pattern_of(linear: Linearized, inputs: Sequence[Any] = ()) -> Any:
    """The pattern of the matrix, at any point, or at the given one."""
    values, columns = linear.graph.inputs, sum(linear.columns)
    whole: Any = sparse.eye_array(columns, format="csr").astype(np.bool_)
    tangents, start = {}, 0
    for value, count in zip(values[linear.primals :], linear.columns, strict=True):
        tangents[value] = whole[start : start + count]
        start += count
    known = dict(zip(values, inputs, strict=False))
    found = Propagation(linear.graph, Patterns(columns), known).run(tangents)
    shapes = [(rows, columns) for rows in linear.rows]
    parts = [
        sparse.csr_array(shape, dtype=np.bool_) if part is None else part
        for part, shape in zip(found, shapes, strict=True)
    ]
    pattern = sparse.csr_array(sparse.vstack(parts, format="csr"))
    pattern.sum_duplicates()
    return pattern


def _coloured(pattern: Any, used: Colouring, derived: Flat, inputs: Sequence[Any]) -> Entries:
    """The entries picked from products with sums of columns and of rows."""
    parts = []
    plain = lambda *values: (list(derived(*values)), None)
    if used.forward:

        def forward(*seeds: Any) -> Any:
            outputs, found, _ = pushforward(plain, inputs, seeds)
            return _flat(filled(found, outputs))

        seeds = _cut(used.seeds(of_rows=False), inputs)
        parts.append(vmap(forward)(*seeds).reshape((-1,)))
    if used.reverse:
        (outputs, _), pull = pullback(plain, inputs)

        def reverse(*seeds: Any) -> Any:
            return _flat(filled(pull(list(seeds)), list(inputs)))

        seeds = _cut(used.seeds(of_rows=True), outputs)
        parts.append(vmap(reverse)(*seeds).reshape((-1,)))
    rows, columns = as_entries(pattern)
    if not parts:
        parts = [make(np.zeros(0, inputs[0].dtype.np))]
    return Entries(rows, columns, used.places, packet("cat")(parts, 0))


def _flat(tensors: Sequence[Any]) -> Any:
    return packet("cat")([t.reshape((-1,)) for t in tensors], 0)


def _cut(seeds: Any, like: Sequence[Any]) -> list[Any]:
    """Seeds over all elements as seeds for each tensor."""
    found, start = [], 0
    for each in like:
        count = math.prod(each.shape)
        part = seeds[:, start : start + count].reshape((-1, *each.shape))
        found.append(make(np.ascontiguousarray(part.astype(each.dtype.np))))
        start += count
    return found


class Prepared:
    """The sparse derivative of a function, with its compiled programs."""

    def __init__(self, function: Callable[..., Any], asked: Asked) -> None:
        if asked.form not in FORMATS:
            raise ArgumentError(
                f"{asked.what}: format={asked.form!r}; the formats are {', '.join(FORMATS)}"
            )
        self.function, self.asked = function, asked
        self._begin()

    def _begin(self) -> None:
        self.entries = EntriesOf(self.function, self.asked)
        self.compiled: Any = compiled(self.entries)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The matrix, or a pytree of matrices; after the outputs, if they are asked for."""
        if self.entries.is_old:
            self._begin()
        args, keywords = fix((args, keywords))
        found, outputs, number = self.compiled(*args, **keywords)
        places = self.entries.known[number.item()]
        matrices = [[block.matrix(found) for block in row] for row in places.blocks]
        rows = [pytrees.unflatten(places.inputs, row) for row in matrices]
        is_hessian = self.asked.what == "hessian"
        whole = pytrees.unflatten(places.inputs if is_hessian else places.outputs, rows)
        return (pytrees.unflatten(places.outputs, outputs), whole) if self.asked.value else whole


def made(function: Callable[..., Any], *asked: Any) -> Prepared:
    """The sparse derivative that is asked for (the fields of `Asked`)."""
    return Prepared(function, Asked(*asked))


def lagrangian_hessian(
    f: Callable[..., Any], g: Callable[..., Any], *, format: str = "csr"
) -> Callable[..., Any]:
    """Return a function of (x, σ, λ) that computes the lower triangle of σ ∇²f(x) + Σ λᵢ ∇²gᵢ(x).

    This is the Hessian of the Lagrangian that interior-point solvers ask for: of an objective `f`
    and constraints `g`, whose multipliers λ have the shape of g(x). More arguments go to both
    functions. The pattern holds for all σ and λ.

    >>> import adjoint as ad
    >>> H = ad.lagrangian_hessian(lambda x: (x**4).sum(), lambda x: x[:-1] * x[1:])
    >>> H(ad.tensor([1.0, 2.0]), 1.0, ad.tensor([5.0])).toarray()
    array([[12.,  0.],
           [ 5., 48.]], dtype=float32)
    """

    def lagrangian(x: Any, sigma: Any, multipliers: Any, *args: Any, **keywords: Any) -> Any:
        return sigma * f(x, *args, **keywords) + (multipliers * g(x, *args, **keywords)).sum()

    asked = Asked("hessian", form=format, lower=True)
    return Transformed(lagrangian_hessian, lagrangian, Prepared(lagrangian, asked))
