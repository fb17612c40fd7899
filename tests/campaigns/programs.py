"""Random programs of operators with views, writes and shape changes in place, run in every way.

The reference is the eager tape. The same program is run by function transforms, traced and
interpreted, differentiated as a graph, by PyTorch where it is installed (the same text, with
`torch` for `ad`), and, a part of the seeds, compiled. A way that refuses a write (backward needs
the value, say) is left out, and the others are compared with one another.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import InplaceError
from tests.campaigns import campaign
from tests.random_programs import Program, modes, weights

LARGEST = 60  # elements of an argument
COMPILED = 12  # one program in so many is compiled
TOLERANCE = 1e-8
_cache: list[str] = []


class _Results:
    """What several ways gave; the first that gave something is compared with the others."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.seed = program, seed
        self.known: tuple[str, list[Any]] | None = None
        self.count = 0

    def add(self, name: str, run: Callable[[], Any], *refusals: type[Exception]) -> None:
        try:
            with np.errstate(all="ignore"):
                found = _leaves(run())
        except (InplaceError, *refusals):  # backward needs a value that was changed, say
            return
        except Exception as error:
            if "from outside" in str(error):  # a constant made of constants, written to: not known
                return
            raise AssertionError(f"{name}: {error!r}\n{self._where()}") from error
        if self.known is None:
            self.known = (name, found)
            return
        other, expected = self.known
        assert len(found) == len(expected), f"{name}, {other}: {len(found)}, {len(expected)}"
        for got, want in zip(found, expected, strict=True):
            self.count += 1
            same = got.shape == want.shape and np.allclose(
                got, want, TOLERANCE, TOLERANCE * _size(want), equal_nan=True
            )
            if not same:
                raise AssertionError(
                    f"{name} differs from {other}: {got.shape}, {want.shape}\n{got}\n{want}\n"
                    f"{self._where()}"
                )

    def _where(self) -> str:
        return f"Program({self.seed}, {LARGEST}, writes=True):\n{self.program}"


def _size(array: Any) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return max(1.0, float(finite.max(initial=0.0)))


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [np.asarray(tree.detach().numpy())]


def check(seed: int) -> int:
    """Compare all ways of running one program; how many arrays were compared."""
    program = Program(seed, LARGEST, writes=True)
    values, gradients = _Results(program, seed), _Results(program, seed)
    function, loss = program.function(), program.loss()
    given = list(program.arguments.values())
    every = tuple(range(program.floats))
    gradient = ad.value_and_grad(loss, argnums=every)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values.add("eager", lambda: function(*given))
        values.add("traced", lambda: ad.graph.verify(ad.trace(function, *given))(*given))
        gradients.add("tape", lambda: _by_tape(program, loss))
        gradients.add("grad", lambda: gradient(*given))
        gradients.add("traced grad", lambda: ad.graph.verify(ad.trace(gradient, *given))(*given))
        gradients.add("differentiated", lambda: _by_graph(program, loss))
    _compare_with_torch(program, values, gradients)
    count = values.count + gradients.count
    if seed % 3 == 0:
        count += _compare_transforms(program, seed)
    if seed % COMPILED == 0:
        count += _compare_compiled(program, seed)
    return count


def _by_tape(program: Program, loss: Callable[..., Any]) -> Any:
    given = list(program.arguments.values())
    leaves = [v.detach().clone().requires_grad_() for v in given[: program.floats]]
    total = loss(*leaves, *given[program.floats :])
    if total.requires_grad:
        total.backward()
    return total, [ad.zeros_like(v) if v.grad is None else v.grad for v in leaves]


def _by_graph(program: Program, loss: Callable[..., Any]) -> Any:
    given = list(program.arguments.values())
    leaves = [v.detach().clone().requires_grad_() for v in given[: program.floats]]
    inputs = [*leaves, *given[program.floats :]]
    graph = ad.graph.verify(ad.trace(loss, *inputs))
    if not graph.outputs[0].type.requires_grad:
        return graph(*inputs), [ad.zeros_like(v) for v in leaves]
    pair = ad.differentiate(graph)
    ad.graph.verify(pair.f)
    ad.graph.verify(pair.df)
    outputs, captured = pair.run(*[v.detach() for v in inputs])
    grads = pair.pull(captured, [ad.ones_like(outputs[0])])
    filled = [ad.zeros_like(v) if g is None else g for g, v in zip(grads, leaves, strict=False)]
    return outputs[0], filled


def _compare_transforms(program: Program, seed: int) -> int:
    """One more transform, in eager mode and traced."""
    name, (function, given) = list(modes(program).items())[-1]
    results = _Results(program, seed)
    results.add(name, lambda: function(*given))
    results.add(f"traced {name}", lambda: ad.trace(function, *given)(*given))
    return results.count


def _compare_compiled(program: Program, seed: int) -> int:
    """All modes in one function, compiled, called twice, against eager mode."""
    _use_private_cache()
    parts = list(modes(program).values())

    def every(given: list[Any]) -> list[Any]:
        return [f(*v) for (f, _), v in zip(parts, given, strict=True)]

    given = [v for _, v in parts]
    results = _Results(program, seed)
    results.add("eager", lambda: every(given))
    if results.known is None:
        return 0
    compiled = ad.compile(every)
    results.add("compiled", lambda: compiled(given))
    results.add("compiled, second call", lambda: compiled(given))
    return results.count


def _use_private_cache() -> None:
    if not _cache:
        _cache.append(tempfile.mkdtemp(prefix="adjoint_programs_"))
        os.environ["ADJOINT_CACHE"] = _cache[0]
        atexit.register(shutil.rmtree, _cache[0], ignore_errors=True)


# -- PyTorch --------------------------------------------------------------------------------------

# What PyTorch lacks, or leaves open: the order of equal elements
OURS = ("ad.scan", "ad.while_loop", "ad.fori_loop", "ad.cond", "ad.vmap", "ad.grad", "ad.jvp",
        "ad.jacobian", "ad.hessian", "sort(", "topk(")  # fmt: skip


def _compare_with_torch(program: Program, values: _Results, gradients: _Results) -> None:
    """The same text with torch's functions; what it refuses or lacks is left out."""
    torch = campaign.torch()
    if torch is None or any(name in program.text for name in OURS):
        return
    scope: dict[str, Any] = {"ad": torch, "F": torch.nn.functional}
    exec(program.text, scope)
    given = [torch.tensor(v.numpy()) for v in program.arguments.values()]
    refusals = (RuntimeError, TypeError, AttributeError, IndexError, ValueError)
    leaves = [v.clone().requires_grad_() for v in given[: program.floats]]

    def total() -> Any:
        results = scope["program"](*leaves, *given[program.floats :])
        value: Any = sum((r * torch.tensor(weights(r.shape))).sum() for r in results)
        if value.requires_grad:
            value.backward()
        return value, [torch.zeros_like(v) if v.grad is None else v.grad for v in leaves]

    try:
        values.add("torch", lambda: scope["program"](*given), *refusals)
        gradients.add("torch", total, *refusals)
    except AssertionError:
        if is_steady(program):
            raise


def is_steady(program: Program) -> bool:
    """Whether a program's values and gradients stay when its arguments are rounded otherwise.

    PyTorch rounds otherwise than NumPy does: (x + ix)² has the real part 0 there, and 1e-17 here,
    where the processor multiplies and adds at once. Where argmax() or a comparison chooses by such
    a number, both are right.
    """
    function, count = program.function(), program.floats
    gradient = ad.value_and_grad(program.loss(), argnums=tuple(range(count)))
    numbers, given = np.random.default_rng(0), list(program.arguments.values())
    values, gradients = _Results(program, 0), _Results(program, 0)
    try:
        for _ in range(16):
            values.add("values", lambda: function(*given))
            gradients.add("gradients", lambda: gradient(*given))
            given[:count] = [_rounded_otherwise(v, numbers) for v in given[:count]]
    except AssertionError:
        return False
    return True


def _rounded_otherwise(value: ad.Tensor, numbers: np.random.Generator) -> ad.Tensor:
    """A tensor whose elements differ in their last bits."""
    last = np.finfo(np.float64).eps * numbers.integers(-4, 5, tuple(value.shape))
    return value * ad.tensor(1 + last)


if __name__ == "__main__":
    campaign.main(check)
