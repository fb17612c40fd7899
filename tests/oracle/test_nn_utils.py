"""nn.utils and nn.init do what PyTorch does: the same state, outputs, gradients and names.

A module is changed by the same call in both libraries; ours then takes the state of PyTorch's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402
from tests.oracle.bridge import ad_array, torch_array, translate  # noqa: E402

torch.set_num_threads(1)
pytest.importorskip("torch.nn.utils.prune")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

Change = Callable[[Any, Any], Any]  # of a library's nn.utils and a module


def orthogonal(name: str, trivial: bool) -> Change:
    return lambda utils, module: utils.parametrizations.orthogonal(
        module, orthogonal_map=name, use_trivialization=trivial
    )


def pruned(*names: str) -> Change:
    arguments: dict[str, Any] = {
        "l1_unstructured": {"amount": 0.4},
        "ln_structured": {"amount": 1, "n": 2, "dim": 0},
    }

    def change(utils: Any, module: Any) -> None:
        for name in names:
            getattr(utils.prune, name)(module, "weight", **arguments[name])

    return change


CHANGES: dict[str, Change] = {
    **{
        f"orthogonal-{name}-{trivial}": orthogonal(name, trivial)
        for name in ("matrix_exp", "cayley", "householder")
        for trivial in (True, False)
    },
    **{
        f"weight_norm-{dim}": lambda utils, m, dim=dim: utils.parametrizations.weight_norm(
            m, dim=dim
        )
        for dim in (0, 1, None)
    },
    "weight_norm-hook": lambda utils, m: utils.weight_norm(m),
    "spectral_norm": lambda utils, m: utils.parametrizations.spectral_norm(m),
    "spectral_norm-hook": lambda utils, m: utils.spectral_norm(m, n_power_iterations=2),
    "pruned": pruned("l1_unstructured"),
    "pruned-twice": pruned("ln_structured", "l1_unstructured"),
}
SHAPES = {"tall": (3, 5), "wide": (5, 3), "square": (4, 4)}


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ad_array(ours), torch_array(theirs), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CHANGES)
def test_changed_modules_compute_what_pytorchs_do(name: str, shape: str) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Linear(*SHAPES[shape]).double()
    ours = ad.nn.Linear(*SHAPES[shape]).double()
    ours.load_state_dict({k: translate(v) for k, v in theirs.state_dict().items()})
    CHANGES[name](torch.nn.utils, theirs)
    CHANGES[name](ad.nn.utils, ours)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if name.startswith("pruned"):
        close(ours.weight_mask, theirs.weight_mask)
    ours.load_state_dict({k: translate(v) for k, v in theirs.state_dict().items()})
    assert [k for k, _ in ours.named_parameters()] == [k for k, _ in theirs.named_parameters()]
    x = torch.randn(2, SHAPES[shape][0], dtype=torch.float64)
    y, expected = ours(translate(x)), theirs(x)
    close(y, expected)
    y.square().sum().backward()
    expected.square().sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(mine.grad, other.grad)
    for key, value in theirs.state_dict().items():  # what forward has changed
        close(ours.state_dict()[key], value)


@pytest.mark.parametrize("order", [0.5, 1.0, 2.0, 3.0, float("inf")])
def test_clipped_gradients_are_pytorchs(order: float) -> None:
    torch.manual_seed(0)
    theirs = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
    ours = [ad.nn.Parameter(translate(p.detach())) for p in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        other.grad = torch.randn_like(other)
        mine.grad = translate(other.grad)
    found = ad.nn.utils.clip_grad_norm_(ours, 0.7, order)
    expected = torch.nn.utils.clip_grad_norm_(theirs, 0.7, order)
    np.testing.assert_allclose(ad_array(found), torch_array(expected), rtol=1e-6)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(ad_array(mine.grad), torch_array(other.grad), rtol=1e-5)


def public(module: Any) -> list[str]:
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    return [name for name in own if not name.startswith("_")]


NAMES = {
    "nn.init": (torch.nn.init, public(torch.nn.init)),
    "nn.utils": (torch.nn.utils, torch.nn.utils.__all__),
    "nn.utils.prune": (torch.nn.utils.prune, public(torch.nn.utils.prune)),
    "nn.utils.parametrize": (
        torch.nn.utils.parametrize,
        public(torch.nn.utils.parametrize),
    ),
    "nn.Module": (torch.nn.Module, [n for n in dir(torch.nn.Module) if not n.startswith("_")]),
    "nn.ModuleDict": (torch.nn.ModuleDict, [n for n in vars(torch.nn.ModuleDict) if n[0] != "_"]),
    "nn.ModuleList": (torch.nn.ModuleList, [n for n in vars(torch.nn.ModuleList) if n[0] != "_"]),
    "nn.ParameterDict": (
        torch.nn.ParameterDict,
        [n for n in vars(torch.nn.ParameterDict) if n[0] != "_"],
    ),
}
OTHER_DEVICES = {"ipu", "xpu", "mtia"}  # methods that move a module to devices that are not here
TYPES_ALONE = {"Tensor", "Module", "Parameter", "ABC", "abstractmethod", "T_destination"}


@pytest.mark.parametrize("place", NAMES)
def test_names_and_arguments_are_pytorchs(place: str) -> None:
    theirs, names = NAMES[place]
    ours: Any = ad
    for step in place.split("."):
        ours = getattr(ours, step)
    for name in sorted(set(names) - OTHER_DEVICES - TYPES_ALONE):
        assert hasattr(ours, name), f"{place}.{name}"
        mine, other = getattr(ours, name), getattr(theirs, name)
        if inspect.isroutine(other) and name not in ("state_dict", "compile", "forward"):
            wanted = list(inspect.signature(other).parameters)
            if wanted == ["args", "kwargs"]:  # an old name of another function
                continue
            found = list(inspect.signature(mine).parameters)
            assert found[: len(wanted)] == wanted, f"{place}.{name}"
