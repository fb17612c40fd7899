"""Forward mode as a level: every tensor carries the tangent of this transform beside its value.

Several such levels nest, each with its own tangents, so forward over forward does not mix them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core import pytrees
from adjoint.core.errors import NotDifferentiable
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor import binding, derive, views
from adjoint.tensor.forward import fit_tangent
from adjoint.tensor.function import on_levels
from adjoint.tensor.levels import Level, wrap
from adjoint.tensor.limits import settle
from adjoint.tensor.tape import wrote
from adjoint.tensor.tensor import Tensor


class JvpLevel(Level):
    """One call of `jvp`. Beside a tensor stands its tangent, None where that is zero."""

    name = "jvp"
    differentiates = True

    def lift(self, value: Any, tangent: Any = None) -> Tensor:
        return wrap(self, value, None, tangent)

    def tangent(self, value: Any) -> Any:
        """The tangent of a tensor at this level, or None."""
        return value.beside if isinstance(value, Tensor) and value.home is self else None

    def process(self, op: Operator, values: list[Any]) -> Any:
        self.check_open(op.name)
        row = op.row
        if row.decompose and not row.reverse and not row.forward:
            return binding.decomposition(row)(*values)
        with self.outside():
            return self._push(op, row, values)

    def _push(self, op: Operator, row: Row, values: list[Any]) -> Any:
        primals = [self.below(v) for v in values]
        results = op.call(primals)
        if row.archetype.result == "bool" or not isinstance(results, (Tensor, tuple, list)):
            return results
        outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        tangents = self._output_tangents(row, values, primals, results, outputs)
        outs = [self._out(o, t) for o, t in zip(outputs, tangents, strict=True)]
        if op.schema.is_view:
            self.attach_views(op, values, outs if isinstance(results, list) else outs[0])
        if isinstance(results, (tuple, list)):
            return type(results)(outs)
        return outs[0]

    def _out(self, output: Any, tangent: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        differentiable = tangent is not None and output.is_differentiable_dtype()
        return self.lift(output, fit_tangent(tangent, output) if differentiable else None)

    def _output_tangents(
        self, row: Row, values: list[Any], primals: list[Any], results: Any, outputs: list[Any]
    ) -> list[Any]:
        named = dict(zip(row.schema.names, values, strict=True))
        tangents: dict[str, Any] = {}
        for argument in row.differentiable:
            value = named[argument.name]
            tangents[argument.name] = (
                [self.tangent(v) for v in value] if argument.type.is_list else self.tangent(value)
            )
        for name in row.refused:
            value = named[name]
            given = [self.tangent(v) for v in (value if type(value) is list else [value])]
            if _present(given) and any(o.is_differentiable_dtype() for o in outputs):
                raise NotDifferentiable(
                    f"{row.full_name} is not differentiable in {name}, and {name} has a tangent"
                )
        if not any(_present(t) for t in tangents.values()) or not any(row.differentiable_outputs):
            return [None] * len(outputs)
        scope = dict(zip(row.schema.names, primals, strict=True))
        return derive.forward_all(
            row, scope, tangents, [results] if isinstance(results, list) else outputs
        )

    def is_idle(self, value: Any) -> bool:
        return not self.owns(value) or value.beside is None

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        """Write the value below, and the tangent here."""
        target = values[0]
        if self.writes_below(values):
            return self.write_below(op, values)
        self.written(op, target)
        if op.row.archetype.name == "inplace_view":
            return self.swap_view(op, values)
        with self.outside():
            before = self.lift(target.value.clone(), target.beside)
        count = op.positional
        keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))
        result = functional(before, *values[1:count], **keywords)
        with self.outside():
            target.value.copy_(self.below(result))
            self._write_tangent(target, self.tangent(result))
        wrote(target, op.name)
        return target

    def _write_tangent(self, target: Tensor, tangent: Any) -> None:
        view = None if target.extra is None else target.extra.view
        base = target if view is None else view.base
        if view is None:
            if tangent is not None and views.has_living_views(target):
                tangent = views.laid_out(tangent, target.value)  # to be viewed where the value can
            target.beside = tangent
        else:
            known = base.beside
            new = base.value.zeros_like() if known is None else views.laid_out(known, base.value)
            part = views.replay(view.path, new)
            part.copy_(part.zeros_like() if tangent is None else tangent)
            base.beside = new
        for reference in [] if base.extra is None else base.extra.views:
            living = reference()
            if living is not None:
                living.beside = (
                    None
                    if base.beside is None
                    else views.replay(living.extra.view.path, base.beside)
                )

    def detach(self, tensor: Any) -> Any:
        detached = self.lift(tensor.value.detach())
        detached.birth = tensor.birth  # it has the memory of the tensor
        return detached

    def direction(self, tensor: Tensor) -> Any:
        return super().direction(tensor) if tensor.beside is None else tensor.beside

    def created(self, tensor: Tensor) -> Tensor:
        return self.lift(tensor)

    def process_function(self, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        return on_levels.run(self, function, args, keywords)


def _present(tangent: Any) -> bool:
    return any(t is not None for t in tangent) if isinstance(tangent, list) else tangent is not None


def pushforward(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any], Any]:
    """Run `function(*primals)`; return its outputs, their tangents, and the rest (a pytree)."""
    with JvpLevel() as level:
        lifted = [level.lift(p, t) for p, t in zip(primals, tangents, strict=True)]
        outputs, rest = function(*lifted)
    return (
        [settle(level.below(o), False) for o in outputs],
        [settle(level.tangent(o), True) for o in outputs],
        pytrees.map(level.below, rest),
    )
