"""`cond` in a graph: a region with two graphs.

Reverse and forward mode are a `cond` of the derivatives of the branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.core.errors import DtypeError, ShapeError
from adjoint.core.records import record
from adjoint.graph.control.regions import register
from adjoint.graph.control.replays import Redrawing, without_resumes
from adjoint.graph.control.staging import (
    BranchLevel,
    Flat,
    FlatFunction,
    Paths,
    RegionCall,
    batched_results,
    bind,
    floats,
    fronts_of,
    is_tracing,
    mapped_over,
    needs_gradient,
    pulled_back,
    pushed_forward,
    put,
    runner,
    shielded,
    stage,
    type_of,
    type_of_output,
    where_each,
)
from adjoint.graph.ir import Graph, Region, Type
from adjoint.homes.levels import on_level
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.batch import BatchLevel


@record
class Cond(RegionCall):
    """The operands are the predicate, then the arguments of both branches."""

    graphs: dict[str, Graph]  # "true", "false"
    before: tuple[Any, ...] = ()
    name = "cond"

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return operands[0], tuple(operands[1:])

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        return [type_of_output(o, needs) for o in self.graphs["true"].outputs]

    def _branches(self) -> tuple[FlatFunction, FlatFunction]:
        return runner(self.graphs["true"]), runner(self.graphs["false"])

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        rest = primals[1:]
        places = [i for i in floats(rest) if tangents[i + 1] is not None]
        outputs = floats(self.graphs["true"].outputs)

        def pushed(branch: FlatFunction) -> FlatFunction:
            return lambda v: pushed_forward(branch, v[: len(rest)], places, v[len(rest) :], outputs)

        more = [tangents[i + 1] for i in places]
        true, false = self._branches()
        results = cond_flat(primals[0], pushed(true), pushed(false), [*rest, *more])
        return _split_tangents(results, len(self.graphs["true"].outputs), outputs)

    @property
    def count(self) -> int:
        return len(self.graphs["true"].outputs)

    def keeping(self) -> Cond:
        return replace(self, before=tuple(self.draws()))

    def kept(self, results: Flat) -> Flat:
        return []

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        rest = primals[1:]
        places = [i for i in range(len(rest)) if wanted[i + 1]]
        present = [i for i, g in enumerate(grads) if g is not None]
        turn = Redrawing(self.before, tuple(kept))

        def pulled(branch: FlatFunction) -> FlatFunction:
            def run(v: Flat) -> Flat:
                def some(inputs: Flat) -> Flat:
                    results = branch(inputs)
                    return [results[i] for i in present]

                return pulled_back(some, v[: len(rest)], places, v[len(rest) :], turn.ended)

            return run

        true, false = self._branches()
        found = turn.run(
            lambda v: cond_flat(v[0], pulled(true), pulled(false), v[1:]),
            [primals[0], *rest, *(grads[i] for i in present)],
        )
        return put([None] * len(primals), [i + 1 for i in places], found)

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        if level.is_batched(operands[0]):
            true, false = (runner(without_resumes(g)) for g in self.graphs.values())
            return both_branches(operands[0], true, false, operands[1:])
        fronts, has = fronts_of(level, operands)
        flags = [batched_results(self.graphs[k], level, has[1:]) for k in ("true", "false")]
        out = [a or b for a, b in zip(*flags, strict=True)]

        def mapped(key: str) -> FlatFunction:
            return lambda v: mapped_over(self.graphs[key], level, has[1:], v, out)

        with level.outside():
            results = cond_flat(fronts[0], mapped("true"), mapped("false"), fronts[1:])
        return [level.lift(r, 0 if h else None) for r, h in zip(results, out, strict=True)]


def both_branches(predicate: Any, true: FlatFunction, false: FlatFunction, operands: Flat) -> Flat:
    """Run both branches, and choose for each sample: the predicate differs between samples."""
    chosen = true(shielded(predicate, operands))
    others = false(shielded(predicate.logical_not(), operands))
    return where_each(predicate, chosen, others)


def cond_flat(
    predicate: Any,
    true: FlatFunction,
    false: FlatFunction,
    operands: Flat,
    paths: Paths = None,
) -> Flat:
    """`cond` of flat functions of a list of tensors, eager or traced."""
    if not is_tracing():
        known = known_truth(predicate)
        if known is None:
            return both_branches(predicate, true, false, operands)
        return true(operands) if known else false(operands)
    needs = needs_gradient(operands)
    types = [type_of(t, needs) for t in operands]
    count = len(operands)
    first, more = stage(lambda *v: true(list(v)), types, kind=BranchLevel)
    second, others = stage(lambda *v: false(list(v)), types, kind=BranchLevel)
    _check_branches(first, second, paths)
    # each branch also gets the tensors that the other one has captured, and ignores them
    for value in [*first.inputs[count:]]:
        second.add_input(value.type, "w")
    late = [first.add_input(v.type, "w") for v in second.inputs[count : count + len(others)]]
    mine, ours = second.inputs[count : count + len(others)], second.inputs[count + len(others) :]
    second.inputs = second.inputs[:count] + ours + mine
    first.inputs = first.inputs[: count + len(more)] + late
    return bind(Cond({"true": first, "false": second}), [predicate, *operands, *more, *others])


def _check_branches(first: Graph, second: Graph, paths: Paths) -> None:
    if len(first.outputs) != len(second.outputs):
        raise ShapeError(
            f"cond: one function returns {len(first.outputs)} tensors, the other "
            f"{len(second.outputs)}"
        )
    for i, (a, b) in enumerate(zip(first.outputs, second.outputs, strict=True)):
        if a.shape != b.shape or a.dtype is not b.dtype:
            where = f"result {i}" if paths is None else paths()[i]
            raise (ShapeError if a.shape != b.shape else DtypeError)(
                f"cond: {where} is {a.type} from the first function and {b.type} from the second; "
                "both must return the same types"
            )


def known_truth(predicate: Any) -> bool | None:
    """Whether a condition holds; None if it differs between the samples of a vmap."""
    while on_level(predicate):
        if isinstance(predicate.home, BatchLevel) and predicate.companion is not None:
            return None
        predicate = predicate.value
    return bool(predicate)


def any_truth(predicate: Any) -> bool:
    """Whether a condition holds for any sample of any vmap."""
    while on_level(predicate):
        predicate = predicate.value
    return bool(predicate.array.any()) if isinstance(predicate, Tensor) else bool(predicate)


def _split_tangents(results: Flat, count: int, places: list[int]) -> tuple[Flat, Flat]:
    return results[:count], put([None] * count, places, results[count:])


def cond(predicate: Any, operands: Sequence[Any], *, true: Any, false: Any) -> tuple[Any, ...]:
    """Run the region `cond`; printed graphs call this. Branches are graphs or flat functions."""
    if is_tracing() and isinstance(true, Graph) and isinstance(false, Graph):
        return tuple(bind(Cond({"true": true, "false": false}), [predicate, *operands]))
    return tuple(cond_flat(predicate, runner(true), runner(false), list(operands)))


register(
    Region("cond", lambda node, args: cond(*args, **node.graphs)),
    lambda node: Cond(node.graphs).types([], any(v.type.requires_grad for v in node.inputs())),
)
