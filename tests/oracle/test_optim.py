"""Optimisers and schedulers against PyTorch: the same parameters, gradients and options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
optim_db = pytest.importorskip("torch.testing._internal.common_optimizers").optim_db

import adjoint as ad  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:Sparse invariant")]

SHAPES = ((3, 4), (5, 2))
MOMENTUM = {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}


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
        np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=tolerance, atol=tolerance)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert_same(ours[key], theirs[key], tolerance)
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, tolerance)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    else:
        assert ours == theirs


def gradients(step: int, dtype: Any, *, sparse: bool) -> list[Any]:
    draw = torch.Generator().manual_seed(step)
    found = [torch.randn(shape, dtype=dtype, generator=draw) for shape in SHAPES]
    if sparse:
        found = [(g * (torch.rand(g.shape, generator=draw) < 0.5)).to_sparse() for g in found]
    return found


def pair(name: str, options: dict[str, Any], dtype: Any) -> tuple[Any, Any]:
    """PyTorch's optimiser and ours, on equal parameters."""
    start = gradients(100, dtype, sparse=False)
    theirs = getattr(torch.optim, name)([p.clone().requires_grad_() for p in start], **options)
    params = [to_ours(p).requires_grad_() for p in start]
    return theirs, getattr(ad.optim, name)(params, **to_ours(options))


def check_steps(name: str, options: dict[str, Any], dtype: Any, *, sparse: bool) -> None:
    theirs, ours = pair(name, options, dtype)
    for step in range(8):
        grads = gradients(step, dtype, sparse=sparse)
        for p, q, g in zip(params_of(theirs), params_of(ours), grads, strict=True):
            p.grad, q.grad = g, to_ours(g)
        run(theirs, torch)
        run(ours, ad)
        assert_same(params_of(ours), [p.detach() for p in params_of(theirs)])
        assert_same(state_of(ours), state_of(theirs))
        if step in (2, 5):  # each goes on with the state of the other
            mine, other = to_torch(ours.state_dict()), to_ours(theirs.state_dict())
            theirs.load_state_dict(mine)
            ours.load_state_dict(other)


def state_of(optimizer: Any) -> dict[str, Any]:
    """The state dict; the step of a line search is a number or a tensor, as it came about."""
    found = optimizer.state_dict()
    for state in found["state"].values():
        if "t" in state:
            state["t"] = float(state["t"])
    return found


def params_of(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def run(optimizer: Any, library: Any) -> None:
    """One step; L-BFGS has a closure, of a convex loss that is not quadratic."""
    if "LBFGS" not in type(optimizer).__name__:
        optimizer.step()
        return
    params = params_of(optimizer)

    def closure() -> Any:
        for p in params:
            p.grad = None
        squares = [((p * p.conj()).real if p.is_complex() else p * p).reshape(-1) for p in params]
        loss: Any = sum(((1 + q).sqrt() * library.arange(1, len(q) + 1)).sum() for q in squares)
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


# not LBFGS: rounding decides how it goes on
@pytest.mark.parametrize(
    "info", [i for i in optim_db if not i.step_requires_closure], ids=lambda i: i.name
)
def test_steps_of_single_precision_are_pytorchs(info: Any) -> None:
    sparse = info.only_supports_sparse_grads
    options = list(info.optim_inputs_func(device="cpu"))[-1].kwargs
    check_steps(info.name, options, torch.float32, sparse=sparse)


@pytest.mark.parametrize("info", [i for i in optim_db if i.supports_sparse], ids=lambda i: i.name)
def test_steps_of_sparse_gradients_are_pytorchs(info: Any) -> None:
    check_steps(info.name, {}, torch.float64, sparse=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("options", [{"lr": 0.1}, MOMENTUM], ids=["plain", "momentum"])
def test_sparse_gradients_of_sgd_are_pytorchs(options: dict[str, Any], dtype: Any) -> None:
    """The momentum of PyTorch is sparse, ours is not: parameters are compared alone."""
    theirs, ours = pair("SGD", options, dtype)
    for step in range(5):
        grads = gradients(step, dtype, sparse=True)
        for p, q, g in zip(params_of(theirs), params_of(ours), grads, strict=True):
            p.grad, q.grad = g, to_ours(g)
        theirs.step()
        ours.step()
    assert_same(params_of(ours), [p.detach() for p in params_of(theirs)])


def library_of(optimizer: Any) -> Any:
    return torch if isinstance(optimizer, torch.optim.Optimizer) else ad


SCHEDULERS: dict[str, Any] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 7, 0.3),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 9, 9, 20], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.4, 6),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.8, 12),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 20, 2.5),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 8, 1e-3),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4, 2, 1e-3),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=2, cooldown=1, factor=0.5),
    "ReduceLROnPlateau-max": lambda s, o: s.ReduceLROnPlateau(
        o, "max", patience=1, threshold=0.1, threshold_mode="abs", min_lr=[1e-3, 1e-2]
    ),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, [0.1, 0.2], 4, 6, "triangular2"),
    "CyclicLR-exp": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.97),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.1, 0.2], 31),
    "OneCycleLR-three": lambda s, o: s.OneCycleLR(
        o, 0.1, epochs=8, steps_per_epoch=4, anneal_strategy="linear", three_phase=True
    ),
    "SWALR": lambda s, o: library_of(o).optim.swa_utils.SWALR(o, [0.05, 0.2], 7),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.StepLR(o, 5, 0.5), s.LinearLR(o), s.ExponentialLR(o, 0.95)]
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o,
        [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 10), s.StepLR(o, 4)],
        [5, 16],
    ),
}


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_thirty_epochs_of_learning_rates_are_pytorchs(name: str, optimizer: str) -> None:
    made = []
    for library in (torch, ad):
        groups = [{"params": [library.zeros(2, requires_grad=True)], "lr": lr} for lr in (0.5, 0.1)]
        inner = getattr(library.optim, optimizer)(groups)
        made.append((inner, SCHEDULERS[name](library.optim.lr_scheduler, inner)))
    (theirs, their_scheduler), (ours, our_scheduler) = made
    metrics = np.random.default_rng(0).normal(size=30).cumsum()
    for epoch in range(30):
        arguments = [float(metrics[epoch])] if "Plateau" in name else []
        for inner, scheduler in made:
            inner.step()
            scheduler.step(*arguments)
        for mine, other in zip(ours.param_groups, theirs.param_groups, strict=True):
            numbers = {k: v for k, v in other.items() if k != "params"}
            assert_same({k: v for k, v in mine.items() if k != "params"}, numbers, 1e-12)
        assert_same(our_scheduler.get_last_lr(), their_scheduler.get_last_lr(), 1e-12)
        mine, other = our_scheduler.state_dict(), their_scheduler.state_dict()
        assert_same(mine, other, 1e-12)
        if epoch in (6, 17):
            our_scheduler.load_state_dict(other)
            their_scheduler.load_state_dict(mine)


CLOSED = ("StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR",
          "CosineAnnealingLR", "CosineAnnealingWarmRestarts")  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLOSED)
def test_a_jump_to_an_epoch_is_pytorchs(name: str) -> None:
    found = []
    for library in (torch, ad):
        inner = library.optim.SGD([library.zeros(2, requires_grad=True)], lr=0.5)
        scheduler = SCHEDULERS[name](library.optim.lr_scheduler, inner)
        lrs = []
        for epoch in (3, 17, 2, 9, 30):
            scheduler.step(epoch)
            lrs.append(scheduler.get_last_lr())
        found.append(lrs)
    assert_same(found[1], found[0], 1e-12)
