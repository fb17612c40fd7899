"""Optimisers: their base, their formulas in each way of running, and compiled training steps."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.loops import gate
from adjoint.optim import pieces
from adjoint.toolchain import background, build, discovery

F = ad.nn.functional

# every optimiser with a formula for dense gradients, with options that use all of its terms
FORMULAS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.05}),
    "SGD-nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "SGD-dampening": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    "Adam": ("Adam", {"lr": 0.05}),
    "Adam-amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1}),
    "AdamW": ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
    "Adamax": ("Adamax", {"lr": 0.05, "weight_decay": 0.1}),
    "NAdam": ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam": ("RAdam", {"lr": 0.05}),
    "Adagrad": ("Adagrad", {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    "Adadelta": ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    "RMSprop": ("RMSprop", {"lr": 0.05, "centered": True, "momentum": 0.9}),
    "Rprop": ("Rprop", {"lr": 0.05}),
    "ASGD": ("ASGD", {"lr": 0.05, "lambd": 0.1, "t0": 2.0}),
    "Adafactor": ("Adafactor", {"lr": 0.05, "weight_decay": 0.1}),
    "Muon": ("Muon", {"lr": 0.05}),
}

ELEMENTWISE = [name for name in FORMULAS if name not in ("Adafactor", "Muon")]


def made(name: str, params: Any, **more: Any) -> Any:
    kind, options = FORMULAS[name]
    return getattr(ad.optim, kind)(params, **(options | more))


def parameter(*shape: int, seed: int = 0, dtype: Any = ad.float32) -> Any:
    values = np.random.default_rng(seed).normal(size=shape)
    return ad.tensor(values, dtype=dtype).requires_grad_()


def run(optimizer: Any, steps: int) -> list[Any]:
    """Steps with gradients that depend on the step alone; the parameters then."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for step in range(steps):
        for number, p in enumerate(params):
            gradient = parameter(*p.shape, seed=100 * step + number, dtype=p.dtype)
            p.grad = gradient.detach()
        optimizer.step()
    return [p.detach().numpy() for p in params]


# -- formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_steps_on_tensors_are_steps_on_arrays(name: str) -> None:
    """`differentiable` runs the formula on tensors; without it, arrays do."""
    fast = run(made(name, [parameter(3, 4)]), 7)
    leaf = parameter(3, 4)
    slow = run(made(name, [leaf.clone()], differentiable=True), 7)
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("native", [True, False], ids=["compiled", "numpy"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_large_parameters_in_pieces_are_stepped_as_small_ones(
    name: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(made(name, [parameter(1000)]), 7)
    monkeypatch.setattr(gate, "SEVERAL", 500)
    monkeypatch.setattr(pieces, "PIECE", 300)
    soon = background.now if native else lambda source: None
    monkeypatch.setattr(background, "soon", soon)
    if native:
        monkeypatch.setattr(pieces.Kernel, "_in_pieces", None)  # it must not be called
    in_pieces = run(made(name, [parameter(1000)]), 7)
    np.testing.assert_allclose(whole[0], in_pieces[0], rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(discovery.toolchain() is None, reason="needs a C compiler")
@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=["half", "float"])
@pytest.mark.parametrize("lie", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adadelta"])
def test_one_loop_steps_arrays_that_lie_anyhow(
    name: str, lie: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's values to the last bit: sums, products, quotients and roots are rounded alike."""
    lies = {
        "rows": lambda a: a,
        "columns": lambda a: a.T.copy().T,
        "gaps": lambda a: np.repeat(a, 3, 1)[:, ::3],
    }

    def stepped(*, native: bool) -> list[Any]:
        soon = background.now if native else lambda source: None
        monkeypatch.setattr(background, "soon", soon)
        draw = np.random.default_rng(0)
        p, grad = (lies[lie](draw.standard_normal((90, 70)).astype(dtype)) for _ in range(2))
        made_of = ad.nn.Parameter(ad.from_numpy(p))
        made_of.grad = ad.from_numpy(grad)
        optimizer = made(name, [made_of])
        for _ in range(3):
            optimizer.step()
        return [p, *(v.numpy() for v in optimizer.state[made_of].values() if v.ndim)]

    plain = stepped(native=False)
    monkeypatch.setattr(pieces.Kernel, "_computed", None)  # it must not be called
    for one, other in zip(stepped(native=True), plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_state_of_another_shape_is_refused_before_memory_is_touched() -> None:
    p = parameter(5000)
    optimizer = made("Adam", [p])
    run(optimizer, 1)
    p.data = ad.zeros(9000)
    p.grad = ad.ones(9000)
    with pytest.raises(ValueError, match="shape"):
        optimizer.step()
    assert p.detach().abs().max() == 0


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_half_precision_parameters_round_once_a_step(dtype: Any) -> None:
    exact = run(made("Adam", [parameter(50)]), 1)
    p = parameter(50, dtype=dtype)
    run(made("Adam", [p]), 1)
    assert p.dtype is dtype
    error = np.abs(p.detach().to(ad.float32).numpy() - exact[0]).max()
    assert error < 0.02


def test_strided_parameters_are_changed_where_they_lie() -> None:
    memory = ad.tensor(np.ones((4, 6), np.float32))
    p = memory.T[::2].detach().requires_grad_()
    p.grad = ad.ones(3, 4)
    ad.optim.SGD([p], lr=0.25).step()
    assert memory[:, 0].tolist() == [0.75] * 4
    assert memory[:, 1].tolist() == [1.0] * 4


def test_a_step_counts_as_a_write() -> None:
    p = parameter(3)
    y = (p * p).sum()
    p.grad = ad.ones(3)
    ad.optim.SGD([p]).step()
    with pytest.raises(AdjointError, match="step"):
        y.backward()


@pytest.mark.parametrize("name", ["SGD-nesterov", "Adam", "Adamax", "NAdam", "ASGD", "RMSprop"])
def test_differentiable_steps_have_the_derivative_of_finite_differences(name: str) -> None:
    def after(p: Any, scale: Any) -> Any:
        p = p.clone()
        optimizer = made(name, [p], differentiable=True)
        for step in range(3):
            p.grad = (scale * (step + 1) * p.clone()).sin() + 0.3
            optimizer.step()
        return p

    p = parameter(4, dtype=ad.float64)
    scale = ad.tensor(0.7, dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(after, (p, scale))


def test_gradients_reach_a_learning_rate() -> None:
    """p ← p - lr·g twice, with g = p: the derivative of (1 - lr)²·p in lr is -2·(1 - lr)·p."""
    lr = ad.tensor(0.25, requires_grad=True)
    p = ad.tensor([2.0]).clone()
    optimizer = ad.optim.SGD([p], lr=lr, differentiable=True)
    for _ in range(2):
        p.grad = p.clone()
        optimizer.step()
    (gradient,) = ad.autograd.grad(p.sum(), [lr])
    assert gradient.item() == pytest.approx(-2 * 0.75 * 2)


def test_sparse_gradients_leave_other_rows_alone() -> None:
    for optimizer_of in (ad.optim.SGD, ad.optim.Adagrad, ad.optim.SparseAdam):
        p = parameter(5, 2)
        before = p.detach().clone()
        p.grad = ad.sparse_coo_tensor([[1, 3, 1]], ad.ones(3, 2), (5, 2))
        optimizer_of([p], lr=0.1).step()
        changed = (p.detach() != before).any(1)
        assert changed.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize(
    "name", [n for n in FORMULAS if n[:3] not in ("SGD", "Ada") or "Adam" in n]
)
def test_other_optimisers_refuse_sparse_gradients(name: str) -> None:
    p = parameter(5, 2)
    p.grad = ad.sparse_coo_tensor([[1, 3]], ad.ones(2, 2), (5, 2))
    with pytest.raises(RuntimeError, match="sparse"):
        made(name, [p]).step()


def test_a_gradient_that_is_refused_leaves_all_parameters_alone() -> None:
    first, second = parameter(5, 2), parameter(5, 2)
    before = first.detach().clone()
    first.grad = ad.ones(5, 2)
    second.grad = ad.sparse_coo_tensor([[1, 3]], ad.ones(2, 2), (5, 2))
    optimizer = made("Adam", [first, second])
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()
    assert (first.detach() == before).all()
    assert not optimizer.state


# -- the base ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("how", ["state_dict", "deepcopy", "pickle"])
def test_training_goes_on_after_a_copy(name: str, how: str) -> None:
    whole = run(made(name, [parameter(3, 4), parameter(2, 2)]), 4)
    optimizer = made(name, [parameter(3, 4), parameter(2, 2)])
    run(optimizer, 2)
    if how == "state_dict":
        params = [p.detach().clone().requires_grad_() for p in optimizer.param_groups[0]["params"]]
        other = made(name, params)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    elif how == "deepcopy":
        other = copy.deepcopy(optimizer)
    else:
        other = pickle.loads(pickle.dumps(optimizer))
    params = other.param_groups[0]["params"]
    for step in (2, 3):
        for number, p in enumerate(params):
            p.grad = parameter(*p.shape, seed=100 * step + number).detach()
        other.step()
    for p, expected in zip(params, whole, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), expected)


def test_hooks_run_in_order_and_may_change_arguments() -> None:
    seen: list[str] = []
    optimizer = ad.optim.SGD([parameter(2)])
    optimizer.register_step_pre_hook(lambda o, a, k: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, a, k: seen.append("after"))
    optimizer.register_step_pre_hook(lambda o, a, k: ((o, lambda: seen.append("closure")), {}))
    optimizer.step()
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, s: {**s, "extra": 1})
    assert optimizer.state_dict()["extra"] == 1
    assert seen == ["before", "closure", "after", "first", "second"]


def test_a_subclass_that_calls_its_parents_step_runs_hooks_once() -> None:
    class Twice(ad.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step()
            return super().step(closure)

    seen: list[int] = []
    p = parameter(2)
    p.grad = ad.ones(2)
    before = p.detach().clone()
    optimizer = Twice([p], lr=0.5)
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(1))
    optimizer.step()
    assert seen == [1]
    np.testing.assert_allclose((before - p.detach()).numpy(), 1.0)


def test_options_of_groups_and_names() -> None:
    named = [("w", parameter(2)), ("b", parameter(3))]
    optimizer = ad.optim.SGD([{"params": named[:1], "lr": 0.5}, {"params": named[1:]}], lr=0.1)
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]
    assert optimizer.state_dict()["param_groups"][1]["param_names"] == ["b"]
    assert "lr: 0.5" in repr(optimizer)
    with pytest.raises(ValueError, match="names"):
        optimizer.add_param_group({"params": [parameter(2)]})
    with pytest.raises(ValueError, match="another group"):
        optimizer.add_param_group({"params": named[:1]})


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {"lr": -1}),
        ("SGD", {"nesterov": True}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"lr": ad.ones(2)}),
        ("Adam", {"fused": True, "foreach": True}),
        ("Rprop", {"etas": (1.1, 1.2)}),
        ("Adadelta", {"rho": 1.5}),
        ("Muon", {"adjust_lr_fn": "mine"}),
        ("SparseAdam", {"lr": 0.0}),
        ("LBFGS", {"line_search_fn": "mine"}),
    ],
)
def test_options_out_of_range_are_refused(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=kind):
        getattr(ad.optim, kind)([parameter(2, 2)], **options)


def test_zero_grad_forgets_or_fills() -> None:
    p = parameter(2)
    optimizer = ad.optim.SGD([p])
    p.grad = ad.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


# -- compiled steps ------------------------------------------------------------------------------


class Network(ad.nn.Module):
    """Two layers with statistics between them, a buffer that is assigned, and one unused weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ad.nn.Parameter(parameter(4, 6).detach())
        self.second = ad.nn.Parameter(parameter(6, 3, seed=1).detach())
        self.unused = ad.nn.Parameter(ad.ones(2, 2))
        self.register_buffer("mean", ad.zeros(6))
        self.register_buffer("variance", ad.ones(6))
        self.register_buffer("calls", ad.tensor(0))
        self.dropout = 0.0

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1
        h = F.batch_norm(x @ self.first, self.mean, self.variance, training=self.training)
        return F.dropout(h.tanh(), self.dropout) @ self.second


def batch(seed: int) -> tuple[Any, Any]:
    return parameter(8, 4, seed=seed).detach(), parameter(8, 3, seed=seed + 50).detach()


def train(name: str, steps: int, *, compiled: bool) -> tuple[Any, Any, list[float]]:
    model = Network()
    optimizer = made(name, model.parameters())
    scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    step = ad.optim.compiled_step(model, F.mse_loss, optimizer)
    losses = []
    for number in range(steps):
        x, y = batch(number)
        if compiled:
            loss = step(x, y)
        else:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        scheduler.step()
    assert len(step.programs) == compiled or name in (
        "RAdam",
        "ASGD",
    )  # no learning rate compiles anew
    return model, optimizer, losses


@pytest.mark.parametrize("name", FORMULAS)
def test_compiled_steps_are_eager_steps(name: str) -> None:
    (model, optimizer, losses), (other, reference, expected) = (
        train(name, 8, compiled=compiled) for compiled in (True, False)
    )
    tolerance = 2e-2 if name == "Muon" else 2e-4  # it computes in bfloat16
    np.testing.assert_allclose(losses, expected, rtol=tolerance)
    for key, value in other.state_dict().items():
        mine = model.state_dict()[key].numpy()
        np.testing.assert_allclose(mine, value.numpy(), rtol=tolerance, atol=tolerance)
    ours, theirs = optimizer.state_dict(), reference.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for number, state in theirs["state"].items():
        for key, value in state.items():
            mine = ours["state"][number][key].numpy()
            np.testing.assert_allclose(mine, value.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:ad.compile")
def test_compiled_steps_run_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train("Adam", 4, compiled=False)[2]
    monkeypatch.setattr(build, "compiler", lambda: None)
    assert train("Adam", 4, compiled=True)[2] == pytest.approx(expected)


def test_eager_and_compiled_steps_can_alternate() -> None:
    model, optimizer, _ = train("Adam", 3, compiled=True)
    step = ad.optim.compiled_step(model, F.mse_loss, optimizer)
    version = model.first._version
    step(*batch(3))
    F.mse_loss(model(batch(4)[0]), batch(4)[1]).backward()
    optimizer.step()
    step(*batch(5))
    assert model.calls.item() == 6
    assert model.first._version == version + 3
    other, _, _ = train("Adam", 3, compiled=False)
    assert other.calls.item() == 3


def test_compiled_dropout_draws_anew() -> None:
    model = Network()
    model.dropout = 0.5
    optimizer = ad.optim.SGD(model.parameters(), lr=0.0)
    step = ad.optim.compiled_step(model, F.mse_loss, optimizer)
    losses = {step(*batch(0)).item() for _ in range(6)}
    assert len(losses) == 6
    model.eval()
    model.dropout = 0.0
    losses = [step(*batch(0)).item() for _ in range(4)]  # the first of a mode runs eagerly
    assert losses[1:] == losses[1:2] * 3
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_compiled_steps_of_shared_parameters_and_of_a_model_that_returns_its_loss() -> None:
    class Shared(ad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = ad.nn.Parameter(parameter(3, 3).detach())
            self.b = self.a

        def forward(self, x: Any) -> Any:
            return (x @ self.a @ self.b - x).square().mean()

    found = []
    for compiled in (True, False):
        model = Shared()
        optimizer = ad.optim.AdamW(model.parameters(), lr=0.1)
        step = ad.optim.compiled_step(model, None, optimizer)
        x = parameter(5, 3, seed=7).detach()
        for _ in range(4):
            if compiled:
                step(x)
            else:
                optimizer.zero_grad()
                model(x).backward()
                optimizer.step()
        found.append(model.a.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_compiled_steps_of_layers_with_clipped_gradients_are_eager_steps() -> None:
    found = []
    for compiled in (True, False):
        ad.manual_seed(0)
        model = ad.nn.Sequential(
            ad.nn.Conv2d(1, 2, 3), ad.nn.BatchNorm2d(2), ad.nn.ReLU(), ad.nn.Flatten(),
            ad.nn.LazyLinear(3),
        )  # fmt: skip
        x, y = ad.randn(4, 1, 6, 6), ad.tensor([0, 2, 1, 2])
        model(x)
        optimizer = ad.optim.SGD(model.parameters(), lr=1, momentum=0.9)
        loss_fn = ad.nn.CrossEntropyLoss()
        step = ad.optim.compiled_step(model, loss_fn, optimizer, max_norm=0.1)
        for _ in range(4):
            if compiled:
                step(x, y)
                continue
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            ad.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        found.append({k: v.numpy() for k, v in model.state_dict().items()})
    for key, value in found[1].items():
        np.testing.assert_allclose(found[0][key], value, rtol=1e-4, atol=1e-5)


def test_compiled_steps_see_other_groups_and_frozen_parameters() -> None:
    model, optimizer, _ = train("SGD-nesterov", 3, compiled=True)
    step = ad.optim.compiled_step(model, F.mse_loss, optimizer)
    for _ in range(2):
        step(*batch(0))
    state = optimizer.state_dict()
    state["param_groups"][0].update(lr=0.0)
    optimizer.load_state_dict(state)
    before = model.first.detach().clone()
    step(*batch(1))
    assert (model.first.detach() == before).all()
    optimizer.param_groups[0]["lr"] = 0.1
    model.first.requires_grad_(False)
    step(*batch(2))
    step(*batch(3))
    assert (model.first.detach() == before).all()


def test_compiled_steps_with_an_open_batch_size_are_compiled_once() -> None:
    model = ad.nn.Sequential(ad.nn.Linear(4, 5), ad.nn.Tanh(), ad.nn.Linear(5, 3))
    optimizer = ad.optim.SGD(model.parameters(), lr=0.0)
    step = ad.optim.compiled_step(model, F.mse_loss, optimizer, dynamic=0)
    for size in (8, 6, 7):
        x, y = (t[:size] for t in batch(0))
        assert step(x, y).item() == pytest.approx(F.mse_loss(model(x), y).item(), rel=1e-5)
    (program,) = step.programs.values()
    assert program.sizes is not None
    assert len(program.sizes.known) == 1


def test_compiled_steps_say_what_they_cannot_do() -> None:
    model = Network()
    with pytest.raises(AdjointError, match="LBFGS"):
        ad.optim.compiled_step(model, F.mse_loss, ad.optim.LBFGS(model.parameters()))
    optimizer = ad.optim.SGD(model.parameters(), differentiable=True)
    with pytest.raises(AdjointError, match="differentiable"):
        ad.optim.compiled_step(model, F.mse_loss, optimizer)
