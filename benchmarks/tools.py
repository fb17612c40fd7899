"""The tools that are compared: how an expert user of each gets a value and a gradient.

A workload is written once against `tool.xp`, a namespace with NumPy's names that all tools share
(what a tool calls otherwise is mapped here), or anew for a tool where an expert would write it
otherwise. Each tool is imported in the worker process that runs it, and nowhere else.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

Function = Callable[..., Any]
Arrays = Sequence[np.ndarray[Any, Any]]
# One graph or an error, never a silent fall back to eager mode; sizes as constants.
WHOLE = {"fullgraph": True, "dynamic": False}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """What is timed: calls that return lists of the tool's arrays once they are ready."""

    gradient: Callable[[], Any]  # value first, then its gradients
    primal: Callable[[], Any] | None = None  # the value alone


class Names:
    """A module, with some names of its own or of other modules before it."""

    def __init__(self, module: ModuleType, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Tool:
    """One way to differentiate."""

    name = ""
    package = ""  # what to import to see whether it is there

    @cached_property
    def xp(self) -> Any:
        return self.names()

    def names(self) -> Any:
        raise NotImplementedError

    def available(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    def forget(self) -> None:
        """Drop what the tool remembers of programs that it compiled before."""

    def warm_up(self) -> None:
        """Import the tool and run a small gradient, so that what is done once is not measured."""
        done = self.task(lambda x: (x * x).sum(), (0,), [np.ones(3)])
        done.gradient()

    def array(self, values: Any) -> Any:
        """A NumPy array as the tool's."""
        return self.xp.from_numpy(values)

    def compile(self, f: Function) -> Function:
        """`f` as fast as the tool can run it many times."""
        return f

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        """A function that returns (value, gradients)."""
        raise NotImplementedError

    def ready(self, results: Any) -> Any:
        """Wait until results are computed."""
        return results

    def task(
        self, f: Function, argnums: tuple[int, ...], arrays: Arrays, *, primal: bool = True
    ) -> Task:
        """The gradient of `f` at `arrays`, and `f` alone."""
        given = [self.array(a) for a in arrays]
        both, alone = self.value_and_grad(f, argnums), self.compile(f)

        def gradient() -> Any:
            value, gradients = both(*given)
            return self.ready([value, *gradients])

        return Task(gradient, (lambda: self.ready([alone(*given)])) if primal else None)

    def call(self, f: Function, arrays: Arrays) -> Task:
        """A function that computes derivatives itself: a training step, Jacobian blocks."""
        given = [self.array(a) for a in arrays]
        compiled = self.compile(f)
        return Task(lambda: self.ready(compiled(*given)))


class Adjoint(Tool):
    name = package = "adjoint"

    def names(self) -> Any:
        import adjoint as ad

        return Names(ad, **_functional_names(ad.nn.functional))

    def compile(self, f: Function) -> Function:
        return self.xp.compile(f)

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        return self.xp.compile(self.xp.value_and_grad(f, argnums))


def gradient_of_leaves(xp: Any, f: Function, argnums: tuple[int, ...]) -> Function:
    """Value and gradients as users of eager PyTorch compute them."""

    def both(*args: Any) -> Any:
        leaves = [args[i].requires_grad_() for i in argnums]
        value = f(*args)
        return value.detach(), xp.autograd.grad(value, leaves)

    return both


class Torch(Tool):
    name = package = "torch"

    def names(self) -> Any:
        import torch

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        return Names(
            torch,
            scan=_python_scan(torch.stack),
            concatenate=torch.cat,
            **_functional_names(torch.nn.functional),
        )

    def compile(self, f: Function) -> Function:
        def run(*args: Any) -> Any:
            with self.xp.no_grad():
                return f(*args)

        return run

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        return gradient_of_leaves(self.xp, f, argnums)

    def call(self, f: Function, arrays: Arrays) -> Task:
        given = [self.array(a) for a in arrays]
        return Task(lambda: f(*given))


class TorchCompile(Torch):
    """torch.compile of the functional gradient: one joint graph, faster than a pair of graphs."""

    name = "torch.compile"

    def forget(self) -> None:
        # All gradients go through one wrapper of torch.func: without this the second size makes
        # shapes dynamic, and after eight programs torch.compile silently runs eagerly.
        self.xp.compiler.reset()

    def compile(self, f: Function) -> Function:
        return self.xp.compile(f, **WHOLE)

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        flipped = self.xp.compile(self.xp.func.grad_and_value(f, argnums), **WHOLE)

        def both(*args: Any) -> Any:
            gradients, value = flipped(*args)
            return value, gradients

        return both

    def task(
        self, f: Function, argnums: tuple[int, ...], arrays: Arrays, *, primal: bool = False
    ) -> Task:
        return super().task(
            f, argnums, arrays, primal=False
        )  # a second compilation would take long

    def call(self, f: Function, arrays: Arrays) -> Task:
        return Tool.call(self, f, arrays)


class Jax(Tool):
    name = package = "jax"

    def names(self) -> Any:
        import jax
        import jax.numpy as jnp
        from jax.scipy.linalg import solve_triangular
        from jax.scipy.special import erf, logsumexp

        jax.config.update("jax_enable_x64", True)

        def gelu(x: Any) -> Any:
            return jax.nn.gelu(x, approximate=True)

        return Names(
            jnp,
            jax=jax,
            erf=erf,
            logsumexp=logsumexp,
            sigmoid=jax.nn.sigmoid,
            relu=jax.nn.relu,
            softmax=jax.nn.softmax,
            gelu=gelu,
            scan=jax.lax.scan,
            vmap=jax.vmap,
            jacrev=jax.jacrev,
            solve_triangular=solve_triangular,
            layer_norm=plain_layer_norm,
            cross_entropy=plain_cross_entropy(logsumexp),
        )

    def array(self, values: Any) -> Any:
        return self.xp.asarray(values)

    def compile(self, f: Function) -> Function:
        return self.xp.jax.jit(f)

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        return self.xp.jax.jit(self.xp.jax.value_and_grad(f, argnums))

    def ready(self, results: Any) -> Any:
        return self.xp.jax.block_until_ready(results)


class Autograd(Tool):
    """HIPS autograd, on NumPy."""

    name = package = "autograd"

    def names(self) -> Any:
        import autograd
        import autograd.numpy as anp
        from autograd.scipy.linalg import solve_triangular
        from autograd.scipy.special import erf, logsumexp

        def relu(x: Any) -> Any:
            return anp.maximum(x, 0)

        def softmax(x: Any, axis: int) -> Any:
            shifted = anp.exp(x - anp.max(x, axis, keepdims=True))
            return shifted / anp.sum(shifted, axis, keepdims=True)

        return Names(
            anp,
            autograd=autograd,
            erf=erf,
            logsumexp=logsumexp,
            relu=relu,
            softmax=softmax,
            gelu=tanh_gelu(anp.tanh),
            sigmoid=lambda x: 0.5 * (anp.tanh(0.5 * x) + 1),
            scan=_python_scan(anp.stack),
            solve_triangular=solve_triangular,
            layer_norm=plain_layer_norm,
            cross_entropy=plain_cross_entropy(logsumexp),
        )

    def array(self, values: Any) -> Any:
        return values

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        def of_tuple(chosen: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
            full = list(args)
            for i, value in zip(argnums, chosen):
                full[i] = value
            return f(*full)

        both = self.xp.autograd.value_and_grad(of_tuple)
        return lambda *args: both(tuple(args[i] for i in argnums), args)


class Special(Tool):
    """A tool that only some workloads have, each written for it."""

    def warm_up(self) -> None:
        importlib.import_module(self.package)

    def array(self, values: Any) -> Any:
        return values


class Casadi(Special):
    name = package = "casadi"


def casadi_task(inputs: Any, outputs: Any, arrays: Arrays, results: Arrays) -> Task:
    """Compiled by gcc and called through buffers: CasADi's fastest way."""
    import casadi

    flags = ["-O3", "-march=native"]
    options = {"jit": True, "compiler": "shell", "jit_options": {"flags": flags}}
    function = casadi.Function("f", inputs, outputs, options)
    buffer, run = function.buffer()
    for i, array in enumerate(arrays):
        buffer.set_arg(i, memoryview(array))
    for i, result in enumerate(results):
        buffer.set_res(i, memoryview(result))

    def gradient() -> Any:
        run()
        return [r.copy() for r in results]

    gradient.keeps_alive = (function, buffer, arrays)  # type: ignore[attr-defined]
    return Task(gradient)


class PyTensor(Special):
    name = package = "pytensor"


class AdjointEager(Special):
    """adjoint without its compiler, for programs that users of PyTorch run eagerly."""

    name, package = "adjoint eager", "adjoint"

    def names(self) -> Any:
        return TOOLS["adjoint"].xp

    def array(self, values: Any) -> Any:
        return self.xp.from_numpy(values)

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        return gradient_of_leaves(self.xp, f, argnums)


class Limit(Special):
    """The gradient written by hand in C; see `limits`."""

    name = "limit"
    package = "ctypes"


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Adjoint(),
        AdjointEager(),
        Limit(),
        TorchCompile(),
        Torch(),
        Jax(),
        Autograd(),
        PyTensor(),
        Casadi(),
    )
}


def _python_scan(stack: Function) -> Function:
    """JAX's scan as a loop in Python, for tools that have none."""

    def scan(f: Function, init: Any, xs: Any = None, length: int | None = None) -> tuple[Any, Any]:
        carry, ys = init, []
        for i in range(length if length is not None else len(xs[0])):
            carry, y = f(carry, None if xs is None else tuple(x[i] for x in xs))
            ys.append(y)
        return carry, None if ys[0] is None else stack(ys)

    return scan


def _functional_names(functional: Any) -> dict[str, Function]:
    """What PyTorch's users, and adjoint's, call with options."""

    def gelu(x: Any) -> Any:
        return functional.gelu(x, approximate="tanh")

    def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:], scale, shift)

    return {
        "gelu": gelu,
        "layer_norm": layer_norm,
        "cross_entropy": functional.cross_entropy,
        "functional": functional,
    }


def tanh_gelu(tanh: Function) -> Function:
    """The approximation of GELU that all tools share."""
    return lambda x: 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def plain_layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Layer normalisation in plain arithmetic, for tools without an operator of that name."""
    centred = x - x.mean(-1)[..., None]
    return centred / ((centred * centred).mean(-1)[..., None] + 1e-5) ** 0.5 * scale + shift


def plain_cross_entropy(logsumexp: Function) -> Function:
    """The mean cross entropy of scores and probabilities, for tools without an operator for it."""
    return lambda x, classes: (logsumexp(x, 1) - (x * classes).sum(1)).mean()
