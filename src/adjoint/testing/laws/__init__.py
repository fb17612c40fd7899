"""The laws: what must hold of every operator, at every sample, in every dtype.

A law is a function of a row, a sample and the reference that came with it. It returns nothing, and
raises `AssertionError` with the operator, the sample and the numbers where the law is broken.
`check("name")` runs all of them on all samples, for built-in and users' own rows alike.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Sequence

import adjoint as ad
from adjoint.core.dtypes import DType, complex128, float32, float64, named
from adjoint.core.errors import AdjointError, DtypeError
from adjoint.core.records import record
from adjoint.table import FAMILIES, TABLE
from adjoint.table.rows import Row
from adjoint.testing import samples
from adjoint.testing.closeness import Worst, measured
from adjoint.testing.laws.batching import vmap_equals_loop
from adjoint.testing.laws.case import Case, with_gradients, without_data
from adjoint.testing.laws.derivatives import (
    jvp_is_adjoint_of_vjp,
    reverse_equals_differences,
    second_order_equals_differences,
    tangents_add_up,
)
from adjoint.testing.laws.graphs import decomposition_equals_kernel, has_both, traced_equals_eager
from adjoint.testing.laws.selections import (
    unselected_elements_have_no_gradient,
    what_stands_still_has_no_tangent,
)
from adjoint.testing.laws.values import (
    drawing_is_declared,
    inputs_are_untouched,
    layout_does_not_matter,
    shape_rule_is_right,
    shared_memory_is_known,
    value_equals_reference,
)

DTYPES = (float64, complex128, float32)
FEW = 3  # samples in float32, where no derivative is compared with differences
GUESSES = 12  # samples of a row that nobody wrote samples for

LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        value_equals_reference,
        reverse_equals_differences,
        second_order_equals_differences,
        jvp_is_adjoint_of_vjp,
        tangents_add_up,
        unselected_elements_have_no_gradient,
        what_stands_still_has_no_tangent,
        vmap_equals_loop,
        shape_rule_is_right,
        traced_equals_eager,
        decomposition_equals_kernel,
        inputs_are_untouched,
        drawing_is_declared,
        shared_memory_is_known,
        layout_does_not_matter,
    )
}


def cases(row: Row, dtype: DType, seed: int = 0) -> list[Case]:
    """Return the cases of a row in a dtype; none if the operator does not take that dtype.

    A user's row without samples gets those of its schema that the operator accepts.
    """
    pairs = samples.for_row(row, dtype, seed)
    found = [Case(row, s, dtype, r, number) for number, (s, r) in enumerate(pairs)]
    if not found and row.family not in FAMILIES:
        guesses = (Case(row, s, dtype) for s in samples.guesses(row, dtype, seed))
        return list(itertools.islice(filter(_accepts, guesses), GUESSES))
    return found if found and _takes(found[0]) else []


def _takes(case: Case) -> bool:
    try:
        with ad.no_grad():
            case.run(*case.arguments)
    except DtypeError:
        return False
    except TypeError as error:
        return "not supported for the input types" not in str(error)
    except Exception:
        return True  # a law will say so
    return True


def _accepts(case: Case) -> bool:
    try:
        with ad.no_grad():
            case.run(*case.arguments)
    except (AdjointError, TypeError, ValueError):
        return False  # of another shape or dtype than the operator is made for
    return True


def claims(row: Row, dtypes: Sequence[DType] = DTYPES, seed: int = 0) -> list[tuple[str, Case]]:
    """The laws that say something about a row, with the cases they say it of."""
    return [
        (law, case)
        for dtype in dtypes
        for case in cases(row, dtype, seed)[: FEW if dtype is float32 else None]
        for law in laws_of(case)
    ]


def laws_of(case: Case) -> Iterator[str]:
    """The names of the laws that say something about a case."""
    if case.reference is not None:
        yield "value_equals_reference"
    derivatives, precise = _derivatives_of(case)
    if derivatives and precise and not case.sample.kink:
        yield "reverse_equals_differences"
        if case.sample.order > 1:
            yield "second_order_equals_differences"
    if derivatives:
        yield from ("jvp_is_adjoint_of_vjp", "tangents_add_up")
        few = case.number < 4 and case.dtype.name == "float64"  # they run in six modes
        if case.row.selects == "some" and few:
            yield "unselected_elements_have_no_gradient"
        if case.row.selects and few and case.number < 2 and not case.row.random:
            yield "what_stands_still_has_no_tangent"
    if case.dtype.name in ("float64", "complex128"):
        yield "vmap_equals_loop"
    yield from ("shape_rule_is_right", "traced_equals_eager")
    yield "inputs_are_untouched"
    if not case.reads_memory:
        yield "layout_does_not_matter"
    if case.dtype.name == "float64":
        yield from ("drawing_is_declared", "shared_memory_is_known")
    if has_both(case.row):
        yield "decomposition_equals_kernel"


def _derivatives_of(case: Case) -> tuple[bool, bool]:
    """Whether a derivative flows at this sample, and whether finite differences can follow it."""
    if case.dtype.name not in ("float64", "complex128"):
        return False, False
    try:
        flowing = [t for t in case.outputs() if t.requires_grad]
    except Exception:
        return bool(case.row.differentiable), True  # a law will say what is wrong
    return bool(flowing), all(t.dtype.to_real().itemsize >= 8 for t in flowing)


@record
class Outcome:
    """How a law did on a case."""

    law: str
    case: Case
    worst: Worst  # of all comparisons that the law made
    broken: str  # "" if it held, or how it was broken and where: "law: AssertionError at …"


def judge(law: str, case: Case) -> Outcome:
    """Run a law on a case; whatever it raises is an outcome, too."""
    broken = ""
    with measured() as worst:
        try:
            LAWS[law](case)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = type(error).__name__
            broken = f"{law}: {kind} at {place.filename}:{place.lineno}: {error}"
            if isinstance(error, DtypeError):
                broken += f"\n  {case.title}{_advice(case)}"
    return Outcome(law, case, worst, broken)


def _advice(case: Case) -> str:
    """What a row should say if its operator or its formulas refuse complex numbers."""
    if not case.dtype.is_complex or "order" in case.row.texts:
        return ""
    return (
        f"\n  If {case.row.full_name} is for real numbers alone, its row says `order: needed`: "
        f"{case.row.where}"
    )


def check(operator: str, dtypes: Sequence[str] = ("float64", "complex128"), seed: int = 0) -> int:
    """Run every law on every sample of `operator`; return how many held, or raise AssertionError.

    `operator` is a name, with or without overload: "sum", "sum.dim_IntList", or one of your own.
    `seed` draws other values for the samples.
    """
    name, _, overload = operator.partition(".")
    rows = [TABLE.row(name, o) for o in ([overload] if overload else TABLE.overloads(name))]
    judged = [
        judge(*claim) for row in rows for claim in claims(row, [named(d) for d in dtypes], seed)
    ]
    broken = [outcome.broken for outcome in judged if outcome.broken]
    held = len(judged) - len(broken)
    if broken:
        more = f"\n... and {len(broken) - 5} more" if len(broken) > 5 else ""
        shown = "\n\n".join(broken[:5])
        raise AssertionError(f"{operator}: {len(broken)} laws broken, {held} held\n\n{shown}{more}")
    return held


__all__ = [
    "DTYPES",
    "LAWS",
    "Case",
    "Outcome",
    "cases",
    "check",
    "claims",
    "judge",
    "laws_of",
    "value_equals_reference",
    "with_gradients",
    "without_data",
]
