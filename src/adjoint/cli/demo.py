"""`adjoint demo`: a function's value, gradient and Hessian, where they come from, and a check."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import adjoint as ad
from adjoint.cli.operators import relative
from adjoint.cli.parser import add_command
from adjoint.cli.terminal import paint, python
from adjoint.core.errors import GradError
from adjoint.table.rows import Row

Function = Callable[[ad.Tensor], ad.Tensor]


def rosenbrock(x: ad.Tensor) -> ad.Tensor:
    """The banana-shaped valley that optimisers are tried on; its minimum is at (1, 1)."""
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def himmelblau(x: ad.Tensor) -> ad.Tensor:
    """Four equal minima and a saddle."""
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def logistic(x: ad.Tensor) -> ad.Tensor:
    """The negative log-likelihood of a small logistic regression."""
    inputs = ad.tensor([[1.0, 0.5], [-0.3, 2.0], [1.5, -1.0]], dtype=ad.float64)
    signs = ad.tensor([1.0, 1.0, -1.0], dtype=ad.float64)
    return (-signs * inputs.matmul(x)).exp().log1p().sum()


# The functions that can be shown, and the point to show them at.
FUNCTIONS: dict[str, tuple[Function, list[float]]] = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0]),
    "himmelblau": (himmelblau, [1.0, 1.0]),
    "logistic": (logistic, [0.3, -0.2]),
}


def add_demo(commands: Any) -> None:
    """Describe `adjoint demo`."""
    made = add_command(
        commands, "demo", "differentiate a function twice, and check the result",
        examples=("adjoint demo", "adjoint demo himmelblau"),
    )  # fmt: skip
    made.add_argument("function", nargs="?", default="rosenbrock", choices=sorted(FUNCTIONS))
    made.set_defaults(run=lambda args: run(args.function))


def run(name: str) -> Iterator[str]:
    """Differentiate the function twice, say which rows were used, and check by differences."""
    f, point = FUNCTIONS[name]
    yield from python(inspect.getsource(f).rstrip()).splitlines()
    x = ad.tensor(point, dtype=ad.float64, requires_grad=True)
    value = f(x)
    rows = list(_rows_used(value))
    gradient, hessian = _derivatives(f, x)
    yield ""
    yield f"x        {_numbers(x)}"
    yield f"value    {value.item():.6g}"
    yield f"gradient {_numbers(gradient)}"
    yield from (
        f"{'hessian ' if i == 0 else '        '} {_numbers(h)}" for i, h in enumerate(hessian)
    )
    yield ""
    yield paint("The rows of the table that the gradient came from:", "bold")
    yield from rows
    yield ""
    yield paint("Check against central differences:", "bold")
    yield f"  gradient {_check(gradient, _difference(f, x)):.1e} relative deviation"
    yield f"  hessian  {_check(hessian, _difference(lambda x: _gradient(f, x), x)):.1e}"


def _gradient(f: Function, x: ad.Tensor) -> ad.Tensor:
    x = x.detach().requires_grad_()
    return ad.autograd.grad(f(x), x)[0]


def _derivatives(f: Function, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    """Return the gradient, and the Hessian as gradients of the gradient's entries."""
    (gradient,) = ad.autograd.grad(f(x), x, create_graph=True)
    rows = [ad.autograd.grad(g, x, retain_graph=True)[0] for g in gradient]
    return gradient.detach(), ad.stack(rows)


def _difference(f: Function, x: ad.Tensor, step: float = 1e-5) -> ad.Tensor:
    """Return the derivative of f by central differences; the last dimension is x's."""
    columns: list[ad.Tensor] = []
    for k in range(x.numel()):
        shift = ad.zeros_like(x)
        shift[k] = step
        columns.append((f(x.detach() + shift) - f(x.detach() - shift)) / (2 * step))
    return ad.stack(columns, -1)


def _check(exact: ad.Tensor, approximate: ad.Tensor) -> float:
    deviation = ((exact - approximate).abs().max() / exact.abs().max()).item()
    if not deviation < 1e-6:
        raise GradError(f"the derivative differs from differences by {deviation:.1e}")
    return float(deviation)


def _rows_used(value: ad.Tensor) -> Iterator[str]:
    """Walk the tape from a value, and give each row on it once, with its reverse formulas."""
    seen: set[int] = set()
    rows: dict[str, Row] = {}
    waiting = [value.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        row = getattr(getattr(node, "rule", None), "row", None)
        if row is not None:
            rows[row.full_name] = row
            waiting.extend(following for following, _ in node.next_functions)
    for row in rows.values():
        yield f"  {relative(row.where.path)}:{row.where.line}  {row.schema.name}"
        for entry in row.reverse:
            if entry.formula is not None:
                yield f"      {', '.join(entry.inputs)}: {entry.formula.text}"


def _numbers(x: ad.Tensor) -> str:
    return " ".join(f"{v:12.6g}" for v in x.tolist())
