"""Options of optimisers: the signature of a constructor has them, and all checks stand here.

A constructor hands on its `locals()`. Most rules go by the name of an option; an optimiser says
which of its options mean something else (`unchecked`) and has rules of its own (`checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.tensor.tensor import Tensor

Options = dict[str, Any]  # {"lr": 0.1, "betas": (0.9, 0.999)}
# Rules of one optimiser: whether its options keep it, and the message after the optimiser's name.
Checks = tuple[tuple[Callable[[Options], bool], str], ...]
_LEAST = {  # numbers that have a least value
    "lr": 0,
    "eps": 0,
    "weight_decay": 0,
    "lr_decay": 0,
    "initial_accumulator_value": 0,
    "momentum": 0,
    "momentum_decay": 0,
    "alpha": 0,
    "d": 1,
}


def given(variables: Options) -> Options:
    """The options among the variables of a constructor."""
    return {k: v for k, v in variables.items() if k not in ("self", "params", "__class__")}


def check(what: str, options: Options, unchecked: Sequence[str], checks: Checks) -> None:
    """Raise unless the options of an optimiser are in their ranges and agree."""
    for name, least in _LEAST.items():
        if name in options and name not in unchecked:
            check_at_least(what, name, options[name], least)
    if "betas" in options:
        _check_betas(what, options["betas"])
    if options.get("fused") and (options["foreach"] or options["differentiable"]):
        other = "foreach" if options["foreach"] else "differentiable"
        raise ValueRangeError(f"{what}: fused=True and {other}=True exclude one another")
    for holds, message in checks:
        if not holds(options):
            raise ValueRangeError(f"{what}{message.format(**options)}")


def check_at_least(what: str, name: str, value: Any, least: float) -> None:
    """Raise unless an option is a number of at least `least`."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueRangeError(
            f"{what}({name}): a tensor of one element is needed, this one has {value.numel()}"
        )
    if not value >= least:
        raise ValueRangeError(f"{what}({name}={value}): must be at least {least}")


def _check_betas(what: str, betas: Sequence[Any]) -> None:
    for number, beta in enumerate(betas):
        check_at_least(what, f"betas[{number}]", beta, 0)
        if not beta < 1:
            raise ValueRangeError(f"{what}(betas={betas}): beta {number} must be less than 1")
