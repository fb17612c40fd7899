"""Jacobians and Hessians by transforms, their batches, vector products, and the loop over rows."""

import torch
import torch.nn.functional as F
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

D = 6
weight = torch.linspace(-1, 1, D * D).reshape(D, D).cos()
bias = torch.linspace(0, 1, D)
x = torch.linspace(-0.5, 0.5, D)


def predict(weight, bias, x):
    return F.linear(x, weight, bias).tanh()


def compute_jac(xp):
    rows = [torch.autograd.grad(predict(weight, bias, xp), xp, v)[0] for v in torch.eye(D)]
    return torch.stack(rows)


xp = x.clone().requires_grad_()
by_rows = compute_jac(xp)
_, vjp_fn = vjp(lambda x: predict(weight, bias, x), x)
(by_vmap,) = vmap(vjp_fn)(torch.eye(D))
reverse = jacrev(predict, argnums=2)(weight, bias, x)
forward = jacfwd(predict, argnums=2)(weight, bias, x)
for other in (by_vmap, reverse, forward):
    assert torch.allclose(by_rows, other, atol=1e-6)

weight_jac, bias_jac = jacrev(predict, argnums=(0, 1))(weight, bias, x)
assert weight_jac.shape == (D, D, D)
second = hessian(predict, argnums=2)(weight, bias, x)
assert torch.allclose(
    second, jacfwd(jacrev(predict, argnums=2), argnums=2)(weight, bias, x), atol=1e-6
)

batch = torch.linspace(-1, 1, 4 * D).reshape(4, D)
batched = vmap(jacrev(predict, argnums=2), in_dims=(None, None, 0))(weight, bias, batch)
summed = jacrev(lambda b: vmap(predict, (None, None, 0))(weight, bias, b).sum(0))(batch)
assert torch.allclose(batched, summed.movedim(1, 0), atol=1e-6)


def f(x):
    return x.sin().sum()


tangent = torch.ones(D)
_, product = jvp(grad(f), (x,), (tangent,))
assert torch.allclose(product, vjp(grad(f), x)[1](tangent)[0])
losses = [t.abs().sum().item() for t in (reverse, weight_jac, second, batched, product)]
