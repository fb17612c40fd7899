"""The empirical neural tangent kernel in two ways: products of Jacobians, and of vectors."""

import torch
import torch.nn as nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, (3, 3))
        self.conv2 = nn.Conv2d(4, 4, (3, 3))
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        x = self.conv2(self.conv1(x).relu()).relu()
        return self.fc(x.flatten(1))


torch.manual_seed(15)
x_train, x_test = torch.randn(3, 1, 8, 8), torch.randn(2, 1, 8, 8)
net = CNN()
params = {k: v.detach() for k, v in net.named_parameters()}


def fnet_single(params, x):
    return functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)


def empirical_ntk_jacobian_contraction(fnet_single, params, x1, x2):
    jac1 = vmap(jacrev(fnet_single), (None, 0))(params, x1)
    jac2 = vmap(jacrev(fnet_single), (None, 0))(params, x2)
    jac1 = [j.flatten(2) for j in jac1.values()]
    jac2 = [j.flatten(2) for j in jac2.values()]
    result = torch.stack([torch.einsum("Naf,Mbf->NMab", a, b) for a, b in zip(jac1, jac2)])
    return result.sum(0)


def empirical_ntk_ntk_vps(func, params, x1, x2):
    def get_ntk(x1, x2):
        def func_x1(params):
            return func(params, x1)

        def func_x2(params):
            return func(params, x2)

        output, vjp_fn = vjp(func_x1, params)

        def get_ntk_slice(vec):
            vjps = vjp_fn(vec)
            _, jvps = jvp(func_x2, (params,), vjps)
            return jvps

        basis = torch.eye(output.numel(), dtype=output.dtype).view(output.numel(), -1)
        return vmap(get_ntk_slice)(basis)

    return vmap(vmap(get_ntk, (None, 0)), (0, None))(x1, x2)


first = empirical_ntk_jacobian_contraction(fnet_single, params, x_train, x_test)
second = empirical_ntk_ntk_vps(fnet_single, params, x_train, x_test)
assert first.shape == (3, 2, 2, 2)
assert torch.allclose(first, second, atol=1e-3, rtol=1e-3)
losses = [first.sum().item(), first.diagonal(dim1=-2, dim2=-1).sum().item()]
