"""A user's code for type checkers: `tests/stubs/test_types.py` runs basedpyright on it.

Every line passes but those that end in `# error: rule`, each of which must be exactly that error.
"""

from __future__ import annotations

from typing import Any, NamedTuple, assert_type

import adjoint.numpy as anp
import adjoint.special
import numpy as np
from adjoint.fft import rfft
from adjoint.linalg import LinAlgError, solve, svd
from adjoint.nn import functional as F
from adjoint.nn.functional import cross_entropy, relu
from adjoint.scipy import special, stats

import adjoint as ad

# -- values and their types ------------------------------------------------------------------------

x = ad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
assert_type(x, ad.Tensor)
assert_type(ad.sin(x), ad.Tensor)
assert_type(x.sin(), ad.Tensor)
assert_type(ad.sin(np.ones(3)), ad.Tensor)
assert_type(ad.exp(1.0), ad.Tensor)
assert_type(x + 1, ad.Tensor)
assert_type(2**x, ad.Tensor)
assert_type(x @ x.T, ad.Tensor)
assert_type(x == 1, ad.Tensor)
assert_type(x[0, 1:], ad.Tensor)
assert_type(x.float(), ad.Tensor)
assert_type(x.to(ad.float64), ad.Tensor)
assert_type(x.dtype, ad.DType)
assert_type(x.shape, ad.Size)
assert_type(x.numel(), int)
assert_type(x.grad, ad.Tensor | None)
assert_type(ad.lax.dynamic_slice(x, (0, 0), (1, 1)), ad.Tensor)
assert_type(stats.norm.logpdf(x, 0.0, scale=x), ad.Tensor)
x.at[0].set(1.0)
assert_type(ad.float64, ad.DType)
assert_type(ad.pi, float)

# -- overloads -------------------------------------------------------------------------------------

assert_type(x.max(), ad.Tensor)
assert_type(x.max(dim=0), ad.return_types.max)
assert_type(ad.max(x, x), ad.Tensor)
assert_type(x.sort().indices, ad.Tensor)
values, indices = ad.sort(x, dim=1, descending=True)
assert_type(values, ad.Tensor)
u, s, vh = svd(x, full_matrices=False)
assert_type(s, ad.Tensor)
assert_type(svd(x).Vh, ad.Tensor)
assert_type(x.split(1), list[ad.Tensor])
assert_type(x.sum(0, keepdim=True), ad.Tensor)
assert_type(ad.sum(x, axis=0, keepdims=True), ad.Tensor)
assert_type(ad.zeros(2, 3), ad.Tensor)
assert_type(ad.zeros((2, 3), dtype=ad.float64, requires_grad=True), ad.Tensor)
assert_type(x.view(4), ad.Tensor)
assert_type(x.reshape((2, -1)), ad.Tensor)
assert_type(ad.cat([x, x], dim=1), ad.Tensor)
assert_type(ad.where(x > 0, x, 0.0), ad.Tensor)
assert_type(ad.std(x, dim=0, correction=0), ad.Tensor)

# -- modules ---------------------------------------------------------------------------------------

assert_type(solve(x, x), ad.Tensor)
assert_type(rfft(x), ad.Tensor)
assert_type(ad.linalg.norm(x), ad.Tensor)
assert_type(adjoint.special.erf(x), ad.Tensor)
assert_type(relu(x), ad.Tensor)
assert_type(F.gelu(x, approximate="tanh"), ad.Tensor)
assert_type(cross_entropy(x, ad.tensor([0, 1])), ad.Tensor)
layer = ad.nn.Linear(2, 3)
assert_type(layer.weight, ad.Tensor)
optimizer = ad.optim.SGD(layer.parameters(), lr=0.1)
optimizer.step()


class Model(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = ad.nn.Linear(2, 1)

    def forward(self, inputs: ad.Tensor) -> ad.Tensor:
        return self.linear(inputs).tanh().sum(dim=-1)


# -- derivatives, graphs, native code --------------------------------------------------------------


def loss(w: ad.Tensor, *, scale: float = 1.0) -> ad.Tensor:
    return (w.sin() * w).sum() * scale


loss(x).backward()
graph = ad.trace(loss, ad.ShapeDtype((2, 2)))
assert_type(str(graph), str)
with ad.no_grad():
    x.add_(1.0)
    x.mul_(2).clamp_(min=0.0)
try:
    inverse = ad.linalg.inv(x)
except LinAlgError:
    inverse = x
ad.ops.add.Tensor(x, x)

# -- transforms keep a function's parameters, and know what its derivatives are --------------------


class Line(NamedTuple):
    slope: ad.Tensor
    offset: ad.Tensor


def energy(line: Line, inputs: ad.Tensor) -> ad.Tensor:
    return (line.slope * inputs + line.offset).square().sum()


def both(w: ad.Tensor, b: ad.Tensor) -> tuple[ad.Tensor, str]:
    return (w * b).sum(), "more"


def number(a: float, b: float) -> float:
    return a * b


def weighted(weights: dict[str, ad.Tensor]) -> ad.Tensor:
    return weights["w"].sum()


line = Line(x, x)
assert_type(ad.grad(loss)(x), ad.Tensor)
assert_type(ad.grad(loss)(w=x, scale=2.0), ad.Tensor)
assert_type(ad.grad(lambda x: x**3)(2.0), ad.Tensor)
assert_type(ad.grad(ad.grad(lambda x: x**3))(2.0), ad.Tensor)
assert_type(ad.grad(ad.sin)(x), ad.Tensor)
assert_type(ad.grad(number)(2.0, b=3.0), ad.Tensor)
assert_type(ad.grad(weighted)({"w": x}), dict[str, ad.Tensor])
assert_type(ad.grad(energy)(line, x), Line)
assert_type(ad.grad(energy, argnums=1)(line, x), ad.Tensor)
assert_type(ad.grad(energy, argnums=(0, 1))(line, x), tuple[Line, ad.Tensor])
assert_type(ad.grad(number, (0, 1))(2.0, 3.0), tuple[ad.Tensor, ad.Tensor])
assert_type(ad.grad(number, argnums=["a", "b"])(2.0, 3.0), tuple[Any, ...])
assert_type(ad.grad(both, has_aux=True)(x, x), tuple[ad.Tensor, str])
assert_type(ad.value_and_grad(loss, argnums=0)(x), tuple[ad.Tensor, ad.Tensor])
assert_type(ad.value_and_grad(both, has_aux=True)(x, x), tuple[tuple[ad.Tensor, str], ad.Tensor])
assert_type(ad.func.grad_and_value(energy)(line, x), tuple[Line, ad.Tensor])
assert_type(ad.jacobian(loss)(x), ad.Tensor)
assert_type(ad.jacfwd(energy)(line, x), Line)
assert_type(ad.jacrev(both, has_aux=True)(x, x), tuple[ad.Tensor, str])
assert_type(ad.hessian(loss)(x), ad.Tensor)
assert_type(ad.hvp(loss, (x,), (x,)), ad.Tensor)
assert_type(ad.jvp(loss, (x,), (x,)), tuple[ad.Tensor, ad.Tensor])
output, pull = ad.vjp(energy, line, x)
assert_type(pull(output), tuple[Line, ad.Tensor])
assert_type(ad.vjp(both, x, x, has_aux=True)[2], str)
assert_type(ad.linearize(loss, x)[1](x), ad.Tensor)
assert_type(ad.autograd.functional.hessian(loss, x), ad.Tensor)
assert_type(ad.autograd.grad(x.sum(), x), tuple[ad.Tensor, ...])
assert_type(ad.autograd.grad(x.sum(), [x, x], allow_unused=True)[1], ad.Tensor | None)
assert_type(ad.vmap(ad.grad(energy), in_dims=(None, 0))(line, x), Line)
assert_type(ad.checkpoint(loss)(x, scale=2.0), ad.Tensor)
assert_type(ad.stop_gradient(line), Line)
fast = ad.compile(ad.value_and_grad(loss))
assert_type(fast(x, scale=2.0), tuple[ad.Tensor, ad.Tensor])
assert_type(fast.lower(x).callbacks(), list[str])
assert_type(ad.grad(ad.compile(loss))(x), ad.Tensor)
assert_type(ad.compile(layer), ad.nn.Linear)
assert_type(ad.make_graph(loss)(x, scale=2.0), ad.graph.Graph)


@ad.compile(dynamic={"inputs": 0})
def step(inputs: ad.Tensor, count: int) -> dict[str, ad.Tensor]:
    return {"sum": inputs.sum() * count}


@ad.custom_vjp
def clipped(x: ad.Tensor) -> ad.Tensor:
    return x.square()


clipped.defvjp(lambda x: (x.square(), x), lambda x, g: (g * x.clamp(-1, 1),))


@ad.no_grad()
def evaluate(inputs: ad.Tensor) -> ad.Tensor:
    return inputs.sum()


@ad.inference_mode
def predict(inputs: ad.Tensor) -> ad.Tensor:
    return inputs.sum()


class Method:
    @ad.compile
    def run(self, inputs: ad.Tensor, count: int) -> ad.Tensor:
        return inputs * count


assert_type(step(x, count=2), dict[str, ad.Tensor])
assert_type(evaluate(x), ad.Tensor)
assert_type(predict(x), ad.Tensor)
assert_type(ad.nn.utils.clip_grad_norm_(layer.parameters(), 1.0), ad.Tensor)
assert_type(clipped(x), ad.Tensor)
assert_type(ad.grad(clipped)(x), ad.Tensor)
assert_type(Method().run(x, 3), ad.Tensor)
assert_type(ad.scan(lambda c, y: (c + y, c * y), 0.0, x), tuple[ad.Tensor, ad.Tensor])
assert_type(ad.while_loop(lambda c: c < 3, lambda c: c * 2, 1.0), ad.Tensor)
assert_type(ad.fori_loop(0, 3, lambda i, c: Line(c.offset, c.slope * i), line), Line)
assert_type(ad.cond(x.sum() > 0, ad.sin, lambda x: x * 2, x), ad.Tensor)
assert_type(ad.map(lambda row: row.sum(), x), ad.Tensor)
assert_type(ad.associative_scan(ad.mul, x), ad.Tensor)

# -- other libraries' names ------------------------------------------------------------------------

assert_type(anp.sin(1.0), ad.Tensor)
assert_type(anp.mean(np.ones(3), axis=0), ad.Tensor)
assert_type(anp.shape(x), tuple[int, ...])
assert_type(anp.divmod(x, 2.0), tuple[ad.Tensor, ad.Tensor])
assert_type(anp.split(x, 2), list[ad.Tensor])
assert_type(ad.array_api.sum(x, axis=0), ad.Tensor)
assert_type(ad.array_api.unique_counts(x).counts, ad.Tensor)
assert_type(ad.array_api.meshgrid(x, x), list[ad.Tensor])
assert_type(ad.lax.rsqrt(x), ad.Tensor)

# -- mistakes --------------------------------------------------------------------------------------

ad.no_such_function(x)  # error: reportAttributeAccessIssue
x.no_such_method()  # error: reportAttributeAccessIssue
ad.linalg.no_such_function(x)  # error: reportAttributeAccessIssue
ad.special.no_such_function(x)  # error: reportAttributeAccessIssue
ad.lax.no_such_function(x)  # error: reportAttributeAccessIssue
special.no_such_function(x)  # error: reportAttributeAccessIssue
x.at[0].put(1.0)  # error: reportAttributeAccessIssue
F.no_such_function(x)  # error: reportAttributeAccessIssue
ad.nn.NoSuchModule()  # error: reportAttributeAccessIssue
ad.func.no_such_transform  # error: reportAttributeAccessIssue
ad.ops.no_such_operator  # error: reportAttributeAccessIssue
x.sort().no_such_result  # error: reportAttributeAccessIssue
ad.sin("1.0")  # error: reportArgumentType
ad.sin(x, x)  # error: reportCallIssue
ad.softmax(x)  # error: reportCallIssue
x.sum(dim="rows")  # error: reportArgumentType
x.sum(keepdims=1.5)  # error: reportArgumentType
relu()  # error: reportCallIssue
relu("x")  # error: reportArgumentType
ad.zeros(2, 3, dtypes=ad.float64)  # error: reportCallIssue
svd(x, full=True)  # error: reportCallIssue
wrong: int = x.sin()  # error: reportAssignmentType
ad.grad(loss)(x, scales=2.0)  # error: reportCallIssue
ad.value_and_grad(loss)()  # error: reportCallIssue
ad.compile(loss)(x, scales=2.0)  # error: reportCallIssue
ad.vmap(loss)(x, scale="2")  # error: reportArgumentType
ad.checkpoint(loss)(x, x)  # error: reportCallIssue
ad.grad(loss, argnum=1)  # error: reportCallIssue
Method().run(x)  # error: reportCallIssue
clipped(x, x)  # error: reportCallIssue
step(x, 2, counts=2)  # error: reportCallIssue
wrong_gradient: str = ad.grad(loss)(x)  # error: reportAssignmentType
anp.mean(x, axes=0)  # error: reportCallIssue
anp.no_such_function(x)  # error: reportAttributeAccessIssue
evaluate(x, x)  # error: reportCallIssue
