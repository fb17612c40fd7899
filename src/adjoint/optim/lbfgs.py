"""L-BFGS, with a line search for the strong Wolfe conditions.

The whole parameter list is one real vector. A point of the line search keeps the step, the value,
the gradient and the slope there, so that brackets are pairs of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core.errors import ValueRangeError
from adjoint.core.records import record
from adjoint.optim.optimizer import Optimizer
from adjoint.optim.options import check_at_least
from adjoint.tensor.modes import enable_grad, no_grad
from adjoint.tensor.tensor import Tensor

SUFFICIENT, CURVATURE = 1e-4, 0.9  # the constants of the Wolfe conditions


class LBFGS(Optimizer):
    """Limited-memory BFGS: Newton's method with an inverse Hessian from the last gradients.

    `step(closure)` makes up to `max_iter` iterations and calls `closure`, which computes loss and
    gradients anew, up to `max_eval` times (5/4 of `max_iter`). `line_search_fn="strong_wolfe"`
    looks for a good step; without it, each iteration steps by `lr`. All parameters are in one
    group. Nocedal and Wright 2006, algorithms 7.4 and 3.5.

    >>> import adjoint as ad
    >>> x = ad.tensor([-1.2, 1.0], requires_grad=True)
    >>> optimizer = ad.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=50)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(2):
    ...     _ = optimizer.step(closure)
    >>> x.detach().round(decimals=3)
    tensor([1., 1.])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_at_least("LBFGS", "lr", lr, 0)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueRangeError(
                f"LBFGS(line_search_fn={line_search_fn!r}): use 'strong_wolfe' or None"
            )
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueRangeError(
                f"LBFGS: all parameters are in one group, got {len(self.param_groups)} groups"
            )

    def step(self, closure: Callable[[], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Minimise for `max_iter` iterations and return the loss before the first."""
        if not self.param_groups[0]["params"]:
            with enable_grad():
                return closure()
        with no_grad():
            return _Search(self, closure).run()


class _Search:
    """One call of `step`."""

    def __init__(self, owner: LBFGS, closure: Callable[[], Any]) -> None:
        (self.group,) = owner.param_groups
        self.params = self.group["params"]
        self.state = owner.state[self.params[0]]
        self.closure = closure
        self.evaluations = 0

    # -- the parameters as one vector ----------------------------------------------------------

    def evaluate(self) -> Any:
        """The loss here, as the closure returns it."""
        self.evaluations += 1
        self.state["func_evals"] += 1
        with enable_grad():
            return self.closure()

    def gradient(self) -> Any:
        """The gradient of all parameters as one real vector."""
        flat = [
            ops.zeros_like(p.detach()) if p.grad is None else p.grad.to_dense() for p in self.params
        ]
        return ops.cat([(ops.view_as_real(g) if g.is_complex() else g).reshape(-1) for g in flat])

    def move(self, length: Any, direction: Any) -> None:
        """Go along a direction."""
        start = 0
        for p in self.params:
            real = ops.view_as_real(p) if p.is_complex() else p
            end = start + real.numel()
            real.add_(direction[start:end].reshape(real.shape) * length)
            start = end

    # -- iterations ----------------------------------------------------------------------------

    def run(self) -> Any:
        group, state = self.group, self.state
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = self.evaluate()
        loss, gradient = float(first), self.gradient()
        if _largest(gradient) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            self._direct(gradient)
            before, state["prev_loss"] = loss, loss
            direction = state["d"]
            slope = float(gradient.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            last = iteration == group["max_iter"]
            loss, gradient = self._advance(loss, gradient, slope, last)
            if last or self._is_done(loss, before, gradient):
                break
        return first

    def _direct(self, gradient: Any) -> None:
        """Choose the next direction and the step to begin with, from the state so far."""
        state, lr = self.state, self.group["lr"]
        lr = lr.reshape(()) if isinstance(lr, Tensor) else lr
        state["n_iter"] += 1
        if state["n_iter"] == 1:
            state.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            state["prev_flat_grad"] = gradient.clone()
            state["t"] = (1.0 / gradient.abs().sum()).clamp(max=1.0) * lr
            return
        self._remember(gradient - state["prev_flat_grad"], state["d"] * state["t"])
        state["d"] = self._newton(gradient)
        state["prev_flat_grad"].copy_(gradient)
        state["t"] = lr

    def _remember(self, change: Any, step: Any) -> None:
        """Keep a pair (change of the gradient, step) if the curvature along it is positive."""
        state = self.state
        curvature = change.dot(step)
        if curvature > 1e-10:
            for name, value in zip(
                ("old_dirs", "old_stps", "ro"), (change, step, 1.0 / curvature), strict=True
            ):
                if len(state[name]) == self.group["history_size"]:
                    del state[name][0]
                state[name].append(value)
            state["H_diag"] = curvature / change.dot(change)

    def _newton(self, gradient: Any) -> Any:
        """-H·gradient, H the inverse Hessian that the pairs give: the two-loop recursion."""
        state = self.state
        pairs = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        weights = state.setdefault("al", [None] * self.group["history_size"])
        q = -gradient
        for i, (change, step, ro) in reversed(list(enumerate(pairs))):
            weights[i] = step.dot(q) * ro
            q = q - change * weights[i]
        q = q * state["H_diag"]
        for i, (change, step, ro) in enumerate(pairs):
            q = q + step * (weights[i] - change.dot(q) * ro)
        return q

    def _advance(self, loss: float, gradient: Any, slope: float, last: bool) -> tuple[float, Any]:
        """Take the step, and return loss and gradient after it; the last ones are not needed
        without a line search.
        """
        state, direction = self.state, self.state["d"]
        if self.group["line_search_fn"] is not None:
            found = self._line_search(Point(0.0, loss, gradient, slope))
            state["t"] = found.t
            self.move(found.t, direction)
            return found.value, found.gradient
        self.move(state["t"], direction)
        if not last:
            loss = float(self.evaluate())
            gradient = self.gradient()
        return loss, gradient

    def _is_done(self, loss: float, before: float, gradient: Any) -> bool:
        group = self.group
        return (
            self.evaluations >= group["max_eval"]
            or _largest(gradient) <= group["tolerance_grad"]
            or _largest(self.state["d"] * self.state["t"]) <= group["tolerance_change"]
            or abs(loss - before) < group["tolerance_change"]
        )

    # -- the line search -----------------------------------------------------------------------

    def _line_search(self, start: Point) -> Point:
        """A point along the direction that meets the strong Wolfe conditions, if evaluations do."""
        direction = self.state["d"]
        kept = [p.clone() for p in self.params]

        def look(t: float) -> Point:
            self.move(t, direction)
            value = float(self.evaluate())
            gradient = self.gradient()
            for p, data in zip(self.params, kept, strict=True):
                p.copy_(data)
            return Point(t, value, gradient, float(gradient.dot(direction)))

        left = self.group["max_eval"] - self.evaluations
        found, bracket, left = _bracketed(look, start, float(self.state["t"]), left)
        if found is not None:
            return found
        width = self.group["tolerance_change"] / _largest(direction)
        return _zoomed(look, start, bracket, left, width)


@record
class Point:
    """A point of a line search."""

    t: float  # how far along the direction
    value: float
    gradient: Any
    slope: float  # along the direction


def _falls(start: Point, at: Point) -> bool:
    """Whether the value has fallen enough."""
    return not at.value > start.value + SUFFICIENT * at.t * start.slope


def _is_flat(start: Point, at: Point) -> bool:
    """Whether the slope has become small enough."""
    return abs(at.slope) <= -CURVATURE * start.slope


def _bracketed(
    look: Callable[[float], Point], start: Point, t: float, left: int
) -> tuple[Point | None, tuple[Point, Point], int]:
    """Lengthen the step until a point is good, or two points have a good one between them; the
    good point or None, the two points, and how many evaluations are left.
    """
    before, at = start, look(t)
    for tried in range(left):
        if not _falls(start, at) or (tried > 1 and at.value >= before.value):
            return None, (before, at), left - tried
        if _is_flat(start, at):
            return at, (before, at), left - tried
        if at.slope >= 0:
            return None, (before, at), left - tried
        bounds = (at.t + 0.01 * (at.t - before.t), at.t * 10)
        before, at = at, look(_cubic(before, at, bounds))
    return None, (start, at), 0


def _zoomed(
    look: Callable[[float], Point],
    start: Point,
    bracket: tuple[Point, Point],
    left: int,
    width: float,
) -> Point:
    """Narrow a bracket until its lower point is good, or it or the evaluations are used up."""
    low, high = sorted(bracket, key=lambda point: point.value)
    stalled = False
    for _ in range(left):
        if abs(high.t - low.t) < width:
            break
        t, stalled = _inside(bracket, stalled)
        at = look(t)
        if not _falls(start, at) or at.value >= low.value:
            low, high = sorted((low, at), key=lambda point: point.value)
        else:
            if _is_flat(start, at):
                return at
            high = low if at.slope * (high.t - low.t) >= 0 else high
            low = at
        bracket = (low, high)
    return low


def _inside(bracket: tuple[Point, Point], stalled: bool) -> tuple[float, bool]:
    """The next step within a bracket, by interpolation; away from its ends if it was near one of
    them twice, which is what the second value tells.
    """
    least, most = sorted(point.t for point in bracket)
    t = _cubic(*bracket, (least, most))
    margin = 0.1 * (most - least)
    if min(most - t, t - least) >= margin:
        return t, False
    if not stalled and least < t < most:
        return t, True
    return (most - margin if abs(t - most) < abs(t - least) else least + margin), False


def _cubic(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """The minimum of the cubic through two points with their slopes, within bounds; the middle of
    the bounds if it has none. Nocedal and Wright 2006, equation 3.59.
    """
    a, b = (a, b) if a.t <= b.t else (b, a)
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    d2 = math.sqrt(square) if square >= 0 else math.nan
    steepening = b.slope - a.slope + 2 * d2
    if math.isnan(steepening) or steepening == 0:
        return (bounds[0] + bounds[1]) / 2
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / steepening)
    return min(max(t, bounds[0]), bounds[1])


def _largest(vector: Any) -> float:
    return float(vector.abs().max())
