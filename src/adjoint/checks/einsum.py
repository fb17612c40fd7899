"""Einstein summation without data: reading an equation, and planning it as matrix products.

`parse` gives every dimension of every operand a label (an integer, the dimensions behind an
ellipsis too). `plan` turns labels and shapes into a short program of moves on the operands
(`diagonal`, `sum`, `permute`, `reshape`) and pairwise products; arrays and tensors both run it.
Plans depend on shapes alone and are cached.

Note [Broadcasting in einsum]: as in PyTorch a dimension of size 1 stretches to the size that its
label has elsewhere. The plan drops it from its operand instead, which is the same.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from adjoint.checks.matmul import check_dtypes
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.promotion import result_type
from adjoint.core.records import record
from adjoint.core.shapes import Shape, show
from adjoint.core.symbolic_sizes import chosen

Labels = tuple[int, ...]
Move = tuple[str, Any]  # ("permute", (1, 0))

_ASCII = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def symbol(label: int) -> str:
    """Return the letter for a label; there are as many as one likes.

    >>> symbol(0), symbol(26), symbol(52)
    ('a', 'A', 'Ā')
    """
    return _ASCII[label] if label < len(_ASCII) else chr(0x100 + label - len(_ASCII))


def write(inputs: Iterable[Labels], output: Labels) -> str:
    """Return the equation of given labels.

    >>> write([(0, 1), (1, 2)], (0, 2))
    'ab,bc->ac'
    """
    return ",".join("".join(map(symbol, i)) for i in inputs) + "->" + "".join(map(symbol, output))


# -- reading ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parse(equation: str, ndims: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """Return the labels of the operands and of the output; `ndims` are the operands' ranks.

    >>> parse("...ij,jk->...ik", (3, 2))
    (((0, 1, 2), (2, 3)), (0, 1, 3))
    """
    left, arrow, right = equation.partition("->")
    terms = [_split(term, equation) for term in left.split(",")]
    if len(terms) != len(ndims):
        raise ValueRangeError(
            f"einsum({equation!r}): the equation names {len(terms)} operands, got {len(ndims)}."
        )
    hidden = max(
        (_hidden(t, n, k, equation) for k, (t, n) in enumerate(zip(terms, ndims))), default=0
    )
    output = _split(right, equation) if arrow else _implicit_output(terms)
    _check_output(output, terms, equation)
    letters: dict[Any, int] = {}

    def number(term: list[str], rank: int) -> Labels:
        behind = hidden if rank < 0 else rank - len(term) + 1  # dimensions of this ellipsis
        keys: list[Any] = []
        for letter in term:
            keys.extend(range(hidden - behind, hidden) if letter == "..." else [letter])
        return tuple(letters.setdefault(key, len(letters)) for key in keys)

    return tuple(number(t, n) for t, n in zip(terms, ndims)), number(output, -1)


def _split(term: str, equation: str) -> list[str]:
    """Split 'a...b' into letters and at most one ellipsis."""
    before, dots, after = term.replace(" ", "").partition("...")
    letters = [*before, *([dots] if dots else []), *after]
    for letter in letters:
        if not letter.isalpha() and letter != "...":
            raise ValueRangeError(
                f"einsum({equation!r}): {letter!r} is no index; an index is a letter, and each "
                "operand may have one ellipsis '...'."
            )
    return letters


def _hidden(term: list[str], ndim: int, position: int, equation: str) -> int:
    """Return how many dimensions an operand has behind its ellipsis, and check its rank."""
    named = sum(letter != "..." for letter in term)
    if named > ndim or (named < ndim and "..." not in term):
        raise ShapeError(
            f"einsum({equation!r}): operand {position} has {ndim} dimensions and "
            f"{named} indices ({''.join(term)!r})."
        )
    return ndim - named if "..." in term else 0


def _implicit_output(terms: list[list[str]]) -> list[str]:
    """Return the output of an equation without '->': ellipsis, then letters used once, sorted."""
    count = Counter(letter for term in terms for letter in term)
    dots = ["..."] if count.pop("...", 0) else []
    return dots + sorted(letter for letter, n in count.items() if n == 1)


def _check_output(output: list[str], terms: list[list[str]], equation: str) -> None:
    known = {letter for term in terms for letter in term}
    for letter, n in Counter(output).items():
        if n > 1:
            raise ValueRangeError(f"einsum({equation!r}): {letter!r} stands twice in the output.")
        if letter not in known and letter != "...":
            raise ValueRangeError(
                f"einsum({equation!r}): the output index {letter!r} is in no operand."
            )


def from_sublists(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return equation and operands of `einsum(a, [0, 1], b, [1, 2], [0, 2])`."""
    operands = list(arguments[0 : len(arguments) // 2 * 2 : 2])
    lists = [list(s) for s in arguments[1 : len(arguments) // 2 * 2 : 2]]
    equation = ",".join(map(_sublist, lists))
    return equation + ("->" + _sublist(list(arguments[-1])) if len(arguments) % 2 else ""), operands


def _sublist(labels: list[Any]) -> str:
    for label in labels:
        if label is not Ellipsis and not (isinstance(label, int) and 0 <= label < len(_ASCII)):
            raise ValueRangeError(
                f"einsum: a sublist holds integers 0 to 51 and ..., got {label!r}."
            )
    # Capitals sort before small letters: number them so that the implicit output keeps the order.
    ordered = sorted(_ASCII)
    return "".join("..." if label is Ellipsis else ordered[label] for label in labels)


# -- planning --------------------------------------------------------------------------------------


@record
class PairProduct:
    """One product of two operands; both leave the list and the result is appended."""

    left: int  # position in the list of operands, before or after the right one's
    right: int
    left_moves: tuple[Move, ...]  # (("permute", (1, 0)), ("reshape", (4, 6)))
    right_moves: tuple[Move, ...]
    contracts: bool  # a matrix product; otherwise an elementwise one that broadcasts
    moves: tuple[Move, ...]  # on the product


@record
class Contraction:
    """A program: moves on each operand, then products of pairs, then moves on the last operand."""

    first: tuple[tuple[Move, ...], ...]
    pairs: tuple[PairProduct, ...]
    last: tuple[Move, ...]
    shape: Shape  # of the result

    @property
    def contracts(self) -> bool:
        return any(pair.contracts for pair in self.pairs)

    @property
    def sums(self) -> bool:
        moves = [*self.first, self.last]
        moves += [m for pair in self.pairs for m in (pair.left_moves, pair.right_moves)]
        return any(name == "sum" for each in moves for name, _ in each)


def plan_equation(
    equation: str, shapes: Iterable[Shape], path: Sequence[int] | None
) -> Contraction:
    """Return the plan of an equation for operands of these shapes.

    >>> plan_equation("ij,jk->ik", [(2, 3), (3, 4)], None).shape
    (2, 4)
    """
    shapes = tuple(shapes)
    if path is None and len(shapes) > 2:
        path = chosen(("einsum", equation), lambda: _order(equation, shapes))
    return _plan_equation(equation, shapes, None if path is None else tuple(path))


def _order(equation: str, shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    """The path that is taken by default."""
    inputs, output = parse(equation, tuple(map(len, shapes)))
    sizes = sizes_of(inputs, shapes, f"einsum({equation!r})")
    pairs = zip(inputs, shapes, strict=True)
    operands = [_prepare(labels, shape, sizes)[1] for labels, shape in pairs]
    return tuple(itertools.chain(*_greedy(operands, output, sizes)))


@lru_cache(maxsize=1024)
def _plan_equation(
    equation: str, shapes: tuple[Shape, ...], path: tuple[int, ...] | None
) -> Contraction:
    inputs, output = parse(equation, tuple(map(len, shapes)))
    return plan(inputs, output, shapes, path, f"einsum({equation!r})")


@record
class Transposed:
    """How the gradient of an einsum goes to one operand: by another einsum, then spread out."""

    equation: str  # of the output's gradient and all other operands: "ac,bc->ab"
    reshape: Shape | None  # puts in the dimensions that nothing else has, with size 1
    expand: Shape | None  # and stretches them
    own: Labels  # the operand's labels, each once
    labels: Labels  # as they stand; a repeated one goes on a diagonal


@lru_cache(maxsize=1024)
def transpose(equation: str, shapes: tuple[Shape, ...], position: int) -> Transposed:
    """Return how the operand at `position` gets its gradient.

    >>> transpose("ij,jk->ik", ((2, 3), (3, 4)), 0).equation
    'ac,bc->ab'
    """
    inputs, output = parse(equation, tuple(map(len, shapes)))
    sizes = sizes_of(inputs, shapes, "einsum")
    terms = [output, *(labels for k, labels in enumerate(inputs) if k != position)]
    others = [tuple(sizes[x] for x in output), *(s for k, s in enumerate(shapes) if k != position)]
    found = sizes_of(terms, others, "einsum")  # 1 where only stretched operands have the label
    labels = inputs[position]
    size = dict(zip(labels, shapes[position]))
    own = tuple(size)
    target = tuple(x for x in own if x in found and size[x] == sizes[x])
    reached = tuple(found[x] if x in target else 1 for x in own)
    whole = tuple(size.values())
    return Transposed(
        equation=write(terms, target),
        reshape=reached if target != own else None,
        expand=whole if reached != whole else None,
        own=own,
        labels=labels,
    )


def sizes_of(inputs: Sequence[Labels], shapes: Sequence[Shape], what: str) -> dict[int, int]:
    """Return the size of each label; sizes that meet must be equal or 1."""
    sizes: dict[int, int] = {}
    for position, (labels, shape) in enumerate(zip(inputs, shapes)):
        own: dict[int, int] = {}
        for label, size in zip(labels, shape):
            if own.setdefault(label, size) != size:
                raise ShapeError(
                    f"{what}: operand {position} ({show(shape)}) repeats an index over sizes "
                    f"{own[label]} and {size}."
                )
            known = sizes.get(label, 1)
            if size != 1 and known not in (1, size):
                raise ShapeError(
                    f"{what}: one index has size {known} and, in operand {position} "
                    f"({show(shape)}), size {size}."
                )
            sizes[label] = size if known == 1 else known
    return sizes


def result_dtype(equation: str, program: Contraction, operands: Sequence[Any]) -> DType:
    """Return the dtype of an einsum of arrays or Specs: only elementwise products promote."""
    if program.contracts:
        what = f"einsum({equation!r})"
        check_dtypes(what, **{f"operand {k}": t.dtype for k, t in enumerate(operands)})
    dtype = result_type(*operands)
    if program.sums and not program.contracts and dtype.category < dtypes.FLOAT:
        return dtypes.int64  # as `sum`; a matrix product keeps the dtype
    return dtype


@lru_cache(maxsize=1024)
def plan(
    inputs: tuple[Labels, ...],
    output: Labels,
    shapes: tuple[Shape, ...],
    path: tuple[int, ...] | None = None,
    what: str = "einsum",
) -> Contraction:
    """Plan a contraction. `path` names pairs of positions, flattened; by default a greedy order."""
    sizes = sizes_of(inputs, shapes, what)
    first: list[tuple[Move, ...]] = []
    operands: list[Labels] = []
    for labels, shape in zip(inputs, shapes):
        moves, left = _prepare(labels, shape, sizes)
        first.append(moves)
        operands.append(left)
    pairs: list[PairProduct] = []
    for i, j in _pairs_of(path, operands, output, sizes, what):
        left, right = (j, i) if _is_transposed(operands[i], operands[j], output) else (i, j)
        pair, product = _plan_pair(operands, left, right, output, sizes)
        pairs.append(pair)
        operands = [o for k, o in enumerate(operands) if k not in (i, j)] + [product]
    shape = tuple(sizes[label] for label in output)
    last = _Moves(operands[0], (), set(output))  # sums the labels that the output lacks
    last.arrange(output, shape, sizes)
    return Contraction(tuple(first), tuple(pairs), tuple(last.moves), shape)


def _prepare(
    labels: Labels, shape: Shape, sizes: dict[int, int]
) -> tuple[tuple[Move, ...], Labels]:
    """Take diagonals of repeated labels and drop dimensions that stretch."""
    moves: list[Move] = []
    rest, size = list(labels), list(shape)
    for label in [label for label, n in Counter(labels).items() if n > 1]:
        while rest.count(label) > 1:
            i = rest.index(label)
            j = rest.index(label, i + 1)
            moves.append(("diagonal", (0, i, j)))  # the diagonal becomes the last dimension
            length = size[i]
            for position in (j, i):
                del rest[position], size[position]
            rest.append(label)
            size.append(length)
    kept = [k for k, label in enumerate(rest) if size[k] != 1 or sizes[label] == 1]
    if len(kept) != len(rest):
        moves.append(("reshape", tuple(size[k] for k in kept)))  # Note [Broadcasting in einsum]
    return tuple(moves), tuple(rest[k] for k in kept)


def _is_transposed(a: Labels, b: Labels, output: Labels) -> bool:
    """Whether a's labels should be the columns, so that the output's last label comes last."""
    own, other = (
        max((output.index(x) for x in one if x not in two and x in output), default=-1)
        for one, two in ((a, b), (b, a))
    )
    return own > other >= 0


def _plan_pair(
    operands: list[Labels], i: int, j: int, output: Labels, sizes: dict[int, int]
) -> tuple[PairProduct, Labels]:
    a, b = operands[i], operands[j]
    needed = set(output).union(*(o for k, o in enumerate(operands) if k not in (i, j)))
    only_left = tuple(x for x in a if x not in b and x in needed)
    only_right = tuple(x for x in b if x not in a and x in needed)
    batch = tuple(x for x in a if x in b and x in needed)
    inner = tuple(x for x in a if x in b and x not in needed)
    product = batch + only_left + only_right

    def size(labels: Labels) -> Shape:
        return tuple(sizes[x] for x in labels)

    left, right = _Moves(a, b, needed), _Moves(b, a, needed)
    if inner:
        head = (math.prod(size(batch)),) if batch else ()
        rows, columns = math.prod(size(only_left)), math.prod(size(only_right))
        between = math.prod(size(inner))
        left.arrange(batch + only_left + inner, (*head, rows, between), sizes)
        right.arrange(batch + inner + only_right, (*head, between, columns), sizes)
        whole = (*head, rows, columns)
    else:
        whole = size(product)
        left.arrange(batch + only_left, size(batch + only_left) + (1,) * len(only_right), sizes)
        stretched = size(batch) + (1,) * len(only_left) + size(only_right)
        right.arrange(batch + only_right, stretched, sizes)
    moves: tuple[Move, ...] = (("reshape", size(product)),) if whole != size(product) else ()
    return PairProduct(i, j, tuple(left.moves), tuple(right.moves), bool(inner), moves), product


class _Moves:
    """The moves on one operand of a pair, and the labels it has after them."""

    def __init__(self, own: Labels, other: Labels, needed: set[int]) -> None:
        gone = tuple(k for k, x in enumerate(own) if x not in other and x not in needed)
        self.moves: list[Move] = [("sum", gone)] if gone else []
        self.labels = tuple(x for k, x in enumerate(own) if k not in gone)

    def arrange(self, order: Labels, shape: Shape, sizes: dict[int, int]) -> None:
        """Permute into `order`, then reshape; each only where it does something."""
        if self.labels != order:
            self.moves.append(("permute", tuple(self.labels.index(x) for x in order)))
        if shape != tuple(sizes[x] for x in order):
            self.moves.append(("reshape", shape))


def _pairs_of(
    path: tuple[int, ...] | None,
    operands: list[Labels],
    output: Labels,
    sizes: dict[int, int],
    what: str,
) -> list[tuple[int, int]]:
    count = len(operands)
    if path is None:
        return [(0, 1)] if count == 2 else _greedy(operands, output, sizes)
    pairs = [(min(p), max(p)) for p in zip(path[::2], path[1::2])]
    fits = len(path) == 2 * (count - 1) and all(
        0 <= i < j < count - k for k, (i, j) in enumerate(pairs)
    )
    if not fits:
        raise ValueRangeError(
            f"{what}: path={list(path)} does not pair {count} operands; it lists {count - 1} pairs "
            "of positions, each pair leaves the list and its product is appended."
        )
    return pairs


def _greedy(operands: list[Labels], output: Labels, sizes: dict[int, int]) -> list[tuple[int, int]]:
    """Contract the pair that frees most memory first, the earlier pair at a tie."""
    operands = list(operands)
    pairs: list[tuple[int, int]] = []

    def volume(labels: Iterable[int]) -> int:
        return math.prod(sizes[x] for x in labels)

    def product(i: int, j: int) -> Labels:
        rest = set(output).union(*(o for k, o in enumerate(operands) if k not in (i, j)))
        return tuple(x for x in dict.fromkeys(operands[i] + operands[j]) if x in rest)

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        i, j = pair
        freed = volume(operands[i]) + volume(operands[j])
        return volume(product(i, j)) - freed, volume(set(operands[i]) | set(operands[j]))

    while len(operands) > 1:
        i, j = min(itertools.combinations(range(len(operands)), 2), key=cost)
        pairs.append((i, j))
        joined = product(i, j)
        operands = [o for k, o in enumerate(operands) if k not in (i, j)] + [joined]
    return pairs


def chain_order(sizes: Sequence[int]) -> list[list[int]]:
    """Return where to split a chain of matrices: entry [i][j] for the product of i to j.

    The classical dynamic programme; matrix k has `sizes[k]` rows and `sizes[k + 1]` columns.
    """
    count = len(sizes) - 1
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i][j], split[i][j] = min(options)
    return split
