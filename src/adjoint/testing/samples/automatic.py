"""Samples made from the schema.

Pointwise rows have all of theirs from here: shapes, broadcasting, layout, special values. A user's
row of another kind that nobody wrote samples for gets `guesses`: combinations of common shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import adjoint as ad
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.table.schema import Argument

# The argument values of samples lie where the row's column `domain` says.
DOMAINS: dict[str, str] = {
    "": "__call__",
    "positive": "positive",
    "unit": "unit",
    "above_one": "above_one",
    "probability": "probability",
}
OWN = "own"  # the domain of rows that only the family's samplers know how to call: integers, limits
# Values where functions have kinks or reach their limits, for rows without a domain.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-8, -1e5, 2.0)

# Shapes of the first, second, ... tensor argument.
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "0-d": ((),),
    "vector": ((3,),),
    "matrix": ((2, 3),),
    "broadcast": ((2, 1), (3,), (1, 3), (2, 3)),
    "scalar first": ((), (3,), (2, 1)),
    "scalar last": ((3,), (), (1,)),
    "empty": ((0, 2), (1, 2), (0, 1)),
}
# Of each tensor argument of a row that may be anything; combinations of earlier ones come first.
GUESSED: tuple[tuple[int, ...], ...] = ((3,), (3, 3), (2, 3), (), (2, 3, 3), (0, 3))
LISTED = ((2, 3), (4,), ())  # shapes of the entries of a list
FACTORS = (1.5, -2.0, 3.0)  # numbers for them
LIMITS = (-0.55, 0.75, 1.5)  # of optional numbers, such as min and max
NUMBERS: dict[str, Any] = {"Scalar": 0.7, "float": 0.7, "int": 2, "bool": True}


def samples(row: Row, make: Any, sample: Callable[..., Any]) -> Iterator[Any]:
    """Yield samples for a pointwise row; none if it needs an argument of an unusual type."""
    if row.domain == OWN:
        return
    tensors = [a for a in row.schema.arguments if a.type.is_tensor and not a.type.is_list]
    others = [a for a in row.schema.arguments if not a.type.is_tensor]
    if any(_required(a) and a.type.base not in NUMBERS for a in others) or not tensors:
        return
    if any(a.type.is_list for a in row.schema.arguments if a.type.is_tensor):
        return
    if isinstance(row.promote, list) and any(a.name not in row.promote for a in tensors):
        return  # a condition or a mask: only the family's own samples know what it may be
    draw = _draw(row, make)

    def build(values: dict[str, Any], **facts: Any) -> Any:
        args, kwargs = split(row, values)
        return sample(*args, **kwargs, **facts)

    fixed = {a.name: NUMBERS[a.type.base] for a in others if _required(a)}
    limits = [a for a in others if a.type.is_optional and a.type.base in ("Scalar", "float")]
    fixed |= {a.name: LIMITS[i % len(LIMITS)] for i, a in enumerate(limits)}
    for name, shapes in SHAPES.items():
        if len(tensors) == 1 and name in ("broadcast", "scalar first", "scalar last"):
            continue
        values = {a.name: draw(*shapes[i % len(shapes)]) for i, a in enumerate(tensors)}
        yield build(values | fixed, name=name)
    views = [draw(3, 2).t(), draw(3, 4)[:, ::2].t(), draw(2, 3)]
    views += [draw(3, 2).t() for _ in tensors[3:]]  # the same tensor twice has one gradient
    layout = {a.name: view for a, view in zip(tensors, views, strict=False)}
    yield build(layout | fixed, name="non-contiguous")
    optional = {a.name: NUMBERS[a.type.base] for a in others if _may_vary(a)}
    if optional:
        values = {a.name: draw(3) for a in tensors}
        yield build(values | fixed | optional, name="all arguments")
    if not row.domain:
        yield build(_special(tensors, make) | fixed, name="special values", kink=True)


def lists(row: Row, make: Any, sample: Callable[..., Any]) -> Iterator[Any]:
    """Yield samples for an operator on lists, with entries where the mapped operator has its own;
    none if it needs an argument of an unusual type.
    """
    name = row.maps.removesuffix("_")
    overloads = TABLE.overloads(name) if name in TABLE else []
    domains = {TABLE.row(name, o).domain for o in overloads} & DOMAINS.keys()
    draw = getattr(make, DOMAINS[max(domains, default="")])
    required = [a for a in row.schema.arguments if _required(a)]
    if row.domain == OWN or any(a.type.base not in ("Tensor", "Scalar") for a in required):
        return

    def entries(argument: Argument) -> Any:
        if argument.type.is_tensor:
            return [draw(*s) for s in LISTED] if argument.type.is_list else draw()
        return list(FACTORS) if argument.type.is_list else FACTORS[0]

    optional = [a for a in row.schema.arguments if _may_vary(a)]
    for arguments in (required, required + optional) if optional else (required,):
        args, kwargs = split(row, {a.name: entries(a) for a in arguments})
        yield sample(
            *args, **kwargs, name="all arguments" if arguments is not required else "plain"
        )


def guesses(row: Row, make: Any, sample: Callable[..., Any]) -> Iterator[Any]:
    """Yield samples for any row; the operator will refuse those of shapes it is not made for."""
    required = [a for a in row.schema.arguments if _required(a)]
    tensors = [a for a in required if a.type.is_tensor]
    others = [a for a in required if not a.type.is_tensor]
    if not tensors or any(a.type.base not in NUMBERS for a in others):
        return
    fixed = {a.name: _number(a) for a in others}
    for shapes in _combinations(len(tensors)):
        drawn = [_draw(row, make)(*shape) for shape in shapes]
        values = {
            a.name: [t, t * 0.5] if a.type.is_list else t
            for a, t in zip(tensors, drawn, strict=True)
        }
        args, kwargs = split(row, values | fixed)
        yield sample(*args, **kwargs, name=" ".join(map(str, shapes)))


def _combinations(count: int) -> list[tuple[tuple[int, ...], ...]]:
    """Shapes for so many tensors; from five on, all have the same."""
    if count > 4:
        return [(shape,) * count for shape in GUESSED]
    indices = itertools.product(range(len(GUESSED)), repeat=count)
    ordered = sorted(indices, key=lambda each: (max(each), each))
    return [tuple(GUESSED[i] for i in each) for each in ordered]


def _number(argument: Argument) -> Any:
    value = -1 if "dim" in argument.name else NUMBERS[argument.type.base]
    return [value] * (argument.type.length or 1) if argument.type.is_list else value


def split(row: Row, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position as far as that goes without gaps, the rest by keyword."""
    rest = dict(values)
    args: list[Any] = []
    for argument in row.schema.arguments:
        if argument.keyword_only or argument.name not in rest:
            break
        args.append(rest.pop(argument.name))
    return args, rest


def _draw(row: Row, make: Any) -> Callable[..., ad.Tensor]:
    return getattr(make, DOMAINS.get(row.domain, "__call__"))


def _special(tensors: list[Argument], make: Any) -> dict[str, ad.Tensor]:
    """Every value in the first argument meets another value in the next one."""
    count = len(SPECIAL)
    return {
        a.name: make.like([SPECIAL[(k * (1 if i == 0 else 3) + i) % count] for k in range(count)])
        for i, a in enumerate(tensors)
    }


def _required(argument: Argument) -> bool:
    return not argument.has_default and not argument.type.is_optional


def _may_vary(argument: Argument) -> bool:
    """Scalars with a numeric default: alpha, beta, eps."""
    number = isinstance(argument.default, int | float) and not isinstance(argument.default, bool)
    return argument.has_default and number and argument.type.base in ("Scalar", "float")
