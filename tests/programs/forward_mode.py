"""Forward mode: dual tensors, modules with tangents, a function with a rule of its own, jvp."""

import torch
import torch.autograd.forward_ad as fwAD
from torch import nn

primal, tangent = torch.linspace(0, 1, 10), torch.linspace(1, 2, 10)


def fn(x, y):
    return x**2 + y**2


with fwAD.dual_level():
    dual_input = fwAD.make_dual(primal, tangent)
    assert fwAD.unpack_dual(dual_input).tangent is tangent
    plain = tangent.clone()
    dual_output = fn(dual_input, plain)
    jvp = fwAD.unpack_dual(dual_output).tangent
assert fwAD.unpack_dual(dual_output).tangent is None

torch.manual_seed(16)
model = nn.Linear(5, 5)
inputs = torch.linspace(-1, 1, 80).reshape(16, 5)
params = {name: p for name, p in model.named_parameters()}
tangents = {name: torch.ones_like(p) for name, p in params.items()}
with fwAD.dual_level():
    for name, p in params.items():
        delattr(model, name)
        setattr(model, name, fwAD.make_dual(p, tangents[name]))
    out = model(inputs)
    module_jvp = fwAD.unpack_dual(out).tangent


class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, foo):
        result = torch.exp(foo)
        ctx.result = result
        return result

    @staticmethod
    def jvp(ctx, gI):
        gO = gI * ctx.result
        del ctx.result
        return gO


fn_input = torch.linspace(0, 1, 4, dtype=torch.double, requires_grad=True)
with fwAD.dual_level():
    dual = fwAD.make_dual(fn_input, torch.ones(4, dtype=torch.double))
    fn_jvp = fwAD.unpack_dual(Fn.apply(dual)).tangent
assert torch.allclose(fn_jvp, fn_input.exp())

import torch.func as ft

value, functional_jvp = ft.jvp(fn, (primal, plain), (tangent, torch.zeros(10)))
assert torch.allclose(functional_jvp, jvp)
losses = [jvp.sum().item(), module_jvp.sum().item(), fn_jvp.sum().item(), value.sum().item()]
