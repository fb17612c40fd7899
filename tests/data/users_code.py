"""A user's code for type checkers: `tests/test_types.py` runs basedpyright on it.

Every line passes but those that end in `# error: rule`, each of which must be exactly that error.
"""

from __future__ import annotations

from typing import Any, assert_type

import adjoint.special
import numpy as np
from adjoint.fft import rfft
from adjoint.linalg import LinAlgError, solve, svd
from adjoint.nn import functional as F
from adjoint.nn.functional import cross_entropy, relu

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
gradient: ad.Tensor = ad.grad(loss)(x)
value, slope = ad.value_and_grad(loss, argnums=0)(x)
batch = ad.vmap(ad.grad(loss), in_dims=0)(x)
graph = ad.trace(loss, ad.ShapeDtype((2, 2)))
assert_type(str(graph), str)
fast: Any = ad.compile(ad.value_and_grad(loss))
with ad.no_grad():
    x.add_(1.0)
    x.mul_(2).clamp_(min=0.0)
try:
    inverse = ad.linalg.inv(x)
except LinAlgError:
    inverse = x
ad.ops.add.Tensor(x, x)

# -- mistakes --------------------------------------------------------------------------------------

ad.no_such_function(x)  # error: reportAttributeAccessIssue
x.no_such_method()  # error: reportAttributeAccessIssue
ad.linalg.no_such_function(x)  # error: reportAttributeAccessIssue
ad.special.no_such_function(x)  # error: reportAttributeAccessIssue
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
