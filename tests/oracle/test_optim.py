"""Optimisers and schedulers against PyTorch: the same parameters, gradients and options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db

import adjoint as ad

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:Sparse invariant")]

SHAPES = ((3, 4), (5, 2))


def configurations() -> list[Any]:
    found = []
    for info in optim_db:
        for number, config in enumerate(info.optim_inputs_func(device="cpu")):
            name = f"{info.name}-{number}-{config.desc}"
            found.append(pytest.param(info, config.kwargs, id=name.replace(" ", "_")))
    return found


def to_ours(value: Any) -> Any:
    """PyTorch's tensors in a tree as ours."""
    if isinstance(value, torch.Tensor):
        if value.is_sparse:
            indices, values = value._indices().numpy(), value._values().numpy()
            return ad.sparse_coo_tensor(indices.copy(), values.copy(), tuple(value.shape))
        return ad.tensor(value.detach().numpy().copy())
    if isinstance(value, dict):
        return {k: to_ours(v) for k, v in value.items()}
    return type(value)(map(to_ours, value)) if isinstance(value, (list, tuple)) else value


def to_torch(value: Any) -> Any:
    """Our tensors in a tree as PyTorch's."""
    if isinstance(value, ad.Tensor):
        return torch.tensor(np.array(value.detach().numpy()))
    if isinstance(value, dict):
        return {k: to_torch(v) for k, v in value.items()}
    return type(value)(map(to_torch, value)) if isinstance(value, (list, tuple)) else value


def assert_same(ours: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    """The same tree: keys, kinds of values, dtypes, numbers."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, ad.Tensor)
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        assert tuple(ours.shape) == tuple(theirs.shape)
        expected = theirs.detach().numpy()
        np.testing.assert_allclose(
            ours.detach().numpy(), expected, rtol=tolerance, atol=tolerance
        )
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert_same(ours[key], theirs[key], tolerance)
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, tolerance)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    else:
        assert ours == theirs


def gradients(step: int, dtype: torch.dtype, *, sparse: bool) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(step)
    found = [torch.randn(shape, dtype=dtype, generator=draw) for shape in SHAPES]
    if sparse:
        found = [(g * (torch.rand(g.shape, generator=draw) < 0.5)).to_sparse() for g in found]
    return found


def pair(name: str, options: dict[str, Any], dtype: torch.dtype) -> tuple[Any, Any]:
    """PyTorch's optimiser and ours, on equal parameters."""
    start = gradients(100, dtype, sparse=False)
    theirs = getattr(torch.optim, name)([p.clone().requires_grad_() for p in start], **options)
    params = [to_ours(p).requires_grad_() for p in start]
    return theirs, getattr(ad.optim, name)(params, **to_ours(options))


def check_steps(name: str, options: dict[str, Any], dtype: torch.dtype, *, sparse: bool) -> None:
    theirs, ours = pair(name, options, dtype)
    for step in range(8):
        grads = gradients(step, dtype, sparse=sparse)
        for p, q, g in zip(params_of(theirs), params_of(ours), grads, strict=True):
            p.grad, q.grad = g, to_ours(g)
        run(theirs, torch)
        run(ours, ad)
        assert_same(params_of(ours), [p.detach() for p in params_of(theirs)])
        assert_same(ours.state_dict(), theirs.state_dict())
        if step in (2, 5):  # each goes on with the state of the other
            mine, other = to_torch(ours.state_dict()), to_ours(theirs.state_dict())
            theirs.load_state_dict(mine)
            ours.load_state_dict(other)


def params_of(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def run(optimizer: Any, library: Any) -> None:
    """One step; L-BFGS has a closure, of a loss that is not quadratic."""
    if "LBFGS" not in type(optimizer).__name__:
        optimizer.step()
        return
    params = params_of(optimizer)

    def closure() -> Any:
        for p in params:
            p.grad = None
        loss = sum(((p * p.conj()).real if p.is_complex() else p.square()).sin().sum() for p in params)
        loss = loss + sum((abs(p) - 1).square().sum() for p in params)
        loss.backward()
        return loss

    optimizer.step(closure)


@pytest.mark.parametrize(("info", "options"), configurations())
def test_eight_steps_are_pytorchs(info: Any, options: dict[str, Any]) -> None:
    check_steps(info.name, options, torch.float64, sparse=info.only_supports_sparse_grads)


@pytest.mark.parametrize("info", [i for i in optim_db if i.supports_complex], ids=lambda i: i.name)
def test_steps_of_complex_parameters_are_pytorchs(info: Any) -> None:
    options = next(iter(info.optim_inputs_func(device="cpu"))).kwargs
    check_steps(info.name, options, torch.complex128, sparse=False)


@pytest.mark.parametrize("info", optim_db, ids=lambda i: i.name)
def test_steps_of_single_precision_are_pytorchs(info: Any) -> None:
    if info.name == "LBFGS":
        pytest.skip("rounding decides how its line search goes on")
    sparse = info.only_supports_sparse_grads
    options = list(info.optim_inputs_func(device="cpu"))[-1].kwargs
    check_steps(info.name, options, torch.float32, sparse=sparse)


@pytest.mark.parametrize("info", [i for i in optim_db if i.supports_sparse], ids=lambda i: i.name)
def test_steps_of_sparse_gradients_are_pytorchs(info: Any) -> None:
    check_steps(info.name, {}, torch.float64, sparse=True)
