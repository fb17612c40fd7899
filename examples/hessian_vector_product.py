"""A Hessian-vector product without the Hessian: forward mode over reverse mode."""

import adjoint as ad
from adjoint.autograd import forward_ad


def rosenbrock(x: ad.Tensor) -> ad.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def hessian_vector_product(x: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
    """Return H v = d/dε ∇f(x + ε v): the tangent of the gradient."""
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach().requires_grad_(), v)
        (gradient,) = ad.autograd.grad(rosenbrock(dual), dual, create_graph=True)
        return forward_ad.unpack_dual(gradient).tangent


x = ad.linspace(-1.0, 1.0, 10_000, dtype=ad.float64)
v = ad.ones_like(x)
product = hessian_vector_product(x, v)

# Check against a central difference of two gradients.
epsilon = 1e-5
ends = [(x + sign * epsilon * v).requires_grad_() for sign in (1, -1)]
up, down = (ad.autograd.grad(rosenbrock(end), end)[0] for end in ends)
difference = (up - down) / (2 * epsilon)
print("H v, first entries:", [round(p, 4) for p in product[:3].tolist()])
print("largest deviation from differences:", f"{(product - difference).abs().max().item():.1e}")
assert ad.allclose(product, difference, rtol=1e-6, atol=1e-4)
