"""SciPy's solvers on functions written with NumPy and SciPy alone, and their exact derivatives.

No function below knows of tensors: `np.sum`, `np.log`, `scipy.special.gammaln` do what they always
do on arrays, and are differentiated when `ad.grad`, `ad.hessian` or `ad.jacobian` runs them.

python examples/scipy_door.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate, optimize, special, stats

import adjoint as ad

Array = np.ndarray[Any, Any]


def gamma_log_density(x: Array, shape: Any, scale: Any) -> Any:
    """The logarithm of the gamma density, as a textbook has it."""
    return special.xlogy(shape - 1, x) - x / scale - special.gammaln(shape) - shape * np.log(scale)


def fit_a_distribution() -> None:
    """Maximum likelihood by Newton's method, with standard errors from the exact Hessian."""
    sample = stats.gamma(2.5, scale=1.7).rvs(2000, random_state=0)

    def loss(parameters: Any) -> Any:
        shape, scale = np.exp(parameters)
        return -np.sum(gamma_log_density(sample, shape, scale))

    found = optimize.minimize(
        loss, np.zeros(2), jac=ad.grad(loss), hess=ad.hessian(loss), method="trust-exact"
    )
    errors = np.sqrt(np.diag(np.linalg.inv(ad.hessian(loss)(found.x))))
    theirs = stats.gamma.fit(sample, floc=0)
    print("gamma distribution of 2000 numbers, shape 2.5 and scale 1.7, in", found.nit, "steps")
    for name, log_value, error, other in zip(
        ("shape", "scale"), found.x, errors, (theirs[0], theirs[2]), strict=True
    ):
        value = np.exp(log_value)
        print(f"  {name} {value:.4f} ± {value * float(error):.4f}, by scipy.stats {other:.4f}")
    apart = gamma_log_density(sample, 2.5, 1.7) - stats.gamma(2.5, scale=1.7).logpdf(sample)
    print(f"  log-density against scipy.stats: within {np.max(np.abs(apart)):.0e}")


def fit_a_curve() -> None:
    """Nonlinear least squares with an exact Jacobian."""
    t = np.linspace(0, 4, 60)
    noise = 0.02 * np.random.default_rng(1).standard_normal(60)
    measured = 1.3 * np.exp(-0.4 * t) * np.cos(3 * t + 0.2) + noise

    def residuals(p: Any) -> Any:
        return p[0] * np.exp(-p[1] * t) * np.cos(p[2] * t + p[3]) - measured

    start = np.array([1.0, 0.3, 2.8, 0.0])
    print("damped oscillation")
    for name, keywords in (
        ("exact Jacobian", {"jac": ad.jacobian(residuals)}),
        ("differences", {}),
    ):
        counted, calls = _counted(residuals)
        found = optimize.least_squares(counted, start, **keywords)
        print(f"  {name}: {np.round(found.x, 3)} after {calls[0]} calls")


def _counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    calls = [0]

    def counted(*args: Any) -> Any:
        calls[0] += 1
        return function(*args)

    return counted, calls


def meet_two_curves() -> None:
    """A system of equations."""

    def equations(p: Any) -> Any:
        return np.stack([p[0] ** 2 + p[1] ** 2 - 4, np.exp(p[0]) + p[1] - 1])

    found = optimize.root(equations, [1.0, -1.0], jac=ad.jacobian(equations))
    print(f"a circle and a curve meet at {np.round(found.x, 6)}, after {found.nfev} calls")


def follow_a_stiff_reaction() -> None:
    """Robertson's reaction, implicitly: the Jacobian is that of the right-hand side."""

    def rates(t: Any, y: Any) -> Any:
        a, b, c = y
        forth, fast, back = 0.04 * a, 3e7 * b * b, 1e4 * b * c
        return np.stack([back - forth, forth - back - fast, fast])

    def jacobian(t: Any, y: Any) -> Any:
        return ad.jacobian(lambda y: rates(t, y))(y)

    for name, keywords in (("exact Jacobian", {"jac": jacobian}), ("differences", {})):
        counted, calls = _counted(rates)
        found = integrate.solve_ivp(
            counted, (0, 1e5), [1.0, 0.0, 0.0], method="Radau", rtol=1e-8, atol=1e-10, **keywords
        )
        print(f"stiff reaction, {name}: {calls[0]} calls, ends at {found.y[:, -1]}")


if __name__ == "__main__":
    fit_a_distribution()
    fit_a_curve()
    meet_two_curves()
    follow_a_stiff_reaction()
