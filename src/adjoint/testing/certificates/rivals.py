"""The same subjects by PyTorch and JAX, each in reverse mode upon itself.

PyTorch has our names, so it runs our calls. JAX has other names for some; where it has no such
function, or another meaning for the same call, there is no number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError
from adjoint.core.importing import imported
from adjoint.testing.certificates.subjects import Subject

Array = np.ndarray[Any, Any]
Run = Callable[[Array], list[Array]]
RIVALS = ("torch", "jax")


def start(rival: str, subject: Subject, dtype: Any) -> Run:
    """A function of arrays that gives value and derivatives by a rival.

    Whatever a rival raises is an `ArgumentError` that says so.
    """
    namespace, evaluate = {"torch": _torch, "jax": _jax}[rival]()
    call = JAX_CALLS.get(subject.call, subject.call) if rival == "jax" else subject.call
    if call is None:
        raise ArgumentError(f"{rival} has no such function")
    code = compile(call, f"<{call}>", "eval")
    numbers = subject.parameters_in(dtype)
    run = evaluate(lambda names: eval(code, namespace, names), numbers, subject.orders)

    def guarded(x: Array) -> list[Array]:
        try:
            return run(x)
        except Exception as error:
            raise ArgumentError(f"{rival}: {error}") from error

    return guarded


Evaluate = Callable[[Callable[[Mapping[str, Any]], Any], Mapping[str, float], int], Run]


@cache
def _torch() -> tuple[dict[str, Any], Evaluate]:
    torch = imported("torch")
    torch.set_num_threads(1)
    homes = {"special": torch.special, "F": torch.nn.functional, "D": torch.distributions}
    namespace = {**vars(torch), **homes, "inf": math.inf, "sc": None}

    def evaluate(call: Any, numbers: Mapping[str, float], orders: int) -> Run:
        def run(x: Array) -> list[Array]:
            variable = torch.tensor(x, requires_grad=True)
            given = {name: torch.full_like(variable, value) for name, value in numbers.items()}
            y = call({"x": variable, **given})
            found = [y]
            for _ in range(orders):
                y = _torch_slope(torch, y, variable)
                found.append(y)
            return [np.broadcast_to(v.detach().numpy(), x.shape) for v in found]

        return run

    return namespace, evaluate


def _torch_slope(torch: Any, y: Any, x: Any) -> Any:
    """The derivative; zeros where PyTorch's graph says that there is none."""
    if not y.requires_grad:
        return torch.zeros_like(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True, allow_unused=True)
    return torch.zeros_like(x) if slope is None else slope


@cache
def _jax() -> tuple[dict[str, Any], Evaluate]:
    jax, jnp = imported("jax"), imported("jax.numpy")
    special = imported("jax.scipy.special")
    jax.config.update("jax_enable_x64", True)
    functions = SimpleNamespace(**{n: getattr(jax.nn, n) for n in dir(jax.nn) if n[0] != "_"})
    functions.gelu = lambda x, approximate="none": jax.nn.gelu(x, approximate != "none")
    functions.logsigmoid, functions.hardtanh = jax.nn.log_sigmoid, jax.nn.hard_tanh
    functions.softsign, functions.softplus = jax.nn.soft_sign, lambda x, **_: jax.nn.softplus(x)
    renamed = {
        "asin": jnp.arcsin, "acos": jnp.arccos, "atan": jnp.arctan, "asinh": jnp.arcsinh,
        "acosh": jnp.arccosh, "atanh": jnp.arctanh, "atan2": jnp.arctan2, "rsqrt": jax.lax.rsqrt,
        "sigmoid": jax.nn.sigmoid, "erf": special.erf, "erfc": special.erfc, "i0": special.i0,
        "erfinv": special.erfinv, "lgamma": special.gammaln, "digamma": special.digamma,
        "polygamma": special.polygamma, "mvlgamma": special.multigammaln, "logit": special.logit,
        "xlogy": special.xlogy, "pow": jnp.power, "logsumexp": special.logsumexp,
    }  # fmt: skip
    homes = {"special": special, "F": functions, "sc": special, "D": None, "inf": math.inf}
    namespace = {**vars(jnp), **renamed, **homes}

    def evaluate(call: Any, numbers: Mapping[str, float], orders: int) -> Run:
        def function(x: Any) -> Any:
            return call({"x": x, **{n: jnp.full_like(x, v) for n, v in numbers.items()}})

        chain = [function]
        for _ in range(orders):
            chain.append(jax.grad(lambda x, g=chain[-1]: g(x).sum()))
        compiled = jax.jit(lambda x: tuple(g(x) for g in chain))
        return lambda x: [np.broadcast_to(np.asarray(v), x.shape) for v in compiled(x)]

    return namespace, evaluate


# Calls of ours in JAX's words, where evaluating them as they are would be something else.
JAX_CALLS: dict[str, str | None] = {
    "F.celu(x, alpha=0.7)": "F.celu(x, 0.7)",
    "F.elu(x, alpha=0.7)": "F.elu(x, 0.7)",
    "F.softplus(x, beta=2.0, threshold=inf)": None,
    "special.airy_ai(x)": None,
}
