"""Laws 2 and 3: both modes against finite differences, and against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.dtypes import DType
from adjoint.testing import jacobians
from adjoint.testing.closeness import near
from adjoint.testing.explain import GradcheckError
from adjoint.testing.gradcheck import gradcheck, gradgradcheck
from adjoint.testing.jacobians import Call, array_of, random_like, tensor_of
from adjoint.testing.laws.case import (
    TOLERANCE,
    Case,
    assert_close,
)


def reverse_equals_differences(case: Case) -> None:
    """Reverse mode equals finite differences, and gradients have the dtype of their inputs."""
    if not case.sample.kink:
        _gradcheck(case, gradcheck, fast_mode=False)


def second_order_equals_differences(case: Case) -> None:
    """Reverse over reverse, and forward over reverse, equal finite differences of reverse mode.

    Along one random direction; entry by entry only where that fails.
    """
    if not case.sample.kink and case.sample.order > 1:
        options = dict(fast_mode=True, check_fwd_over_rev=True, check_undefined_grad=False)
        _gradcheck(case, gradgradcheck, **options)


def _gradcheck(case: Case, check: Callable[..., bool], **options: Any) -> None:
    try:
        check(case.run, case.arguments, check_grad_dtypes=True, nondet_tol=1e-12, **options)
    except GradcheckError as error:
        raise AssertionError(f"{case.title}: {error}") from error


def jvp_is_adjoint_of_vjp(case: Case) -> None:
    """⟨v, J u⟩ = ⟨Jᵀ v, u⟩ for random u and v, in the real inner product Re Σ conj(a)·b."""
    call = Call.of(case.run, case.arguments)
    leaves = call.leaves()
    outputs = call(leaves)
    wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
    if not wanted:
        return
    generator = np.random.default_rng(0)
    v = [random_like(array_of(outputs[k]), generator) for k in wanted]
    u = [random_like(array_of(t), generator) for t in leaves]
    tangents = jacobians.tangents(call, dict(enumerate(u)), wanted)
    grads = ad.autograd.grad(
        [outputs[k] for k in wanted], leaves, [tensor_of(c) for c in v], allow_unused=True
    )
    pairs = [(jacobians.parts(c), t) for c, t in zip(v, tangents, strict=True)]
    flowing = [(g, d) for g, d in zip(grads, u, strict=True) if g is not None]
    with np.errstate(all="ignore"):
        forward = sum(float(c @ t) for c, t in pairs)
        reverse = sum(float(jacobians.parts(array_of(g)) @ jacobians.parts(d)) for g, d in flowing)
        scale = sum(float(np.abs(c) @ np.abs(t)) for c, t in pairs)
    coarsest = min((*outputs, *leaves), key=lambda t: t.dtype.to_real().itemsize).dtype
    _assert_equal_products(case, forward, reverse, scale, coarsest)


def tangents_add_up(case: Case) -> None:
    """J u is the sum over the inputs of J uₖ, where the other inputs have no tangent at all."""
    call = Call.of(case.run, case.arguments)
    if len(call.inputs) < 2:
        return
    wanted = [k for k, t in enumerate(call(call.leaves())) if t.requires_grad]
    generator = np.random.default_rng(0)
    u = {k: random_like(array_of(t), generator) for k, t in enumerate(call.inputs)}
    together = jacobians.tangents(call, u, wanted)
    alone = [jacobians.tangents(call, {k: u[k]}, wanted) for k in u]
    for number, whole in enumerate(together):
        with np.errstate(all="ignore"):
            total = np.sum([t[number] for t in alone], axis=0)
        if np.isfinite(whole).all():
            assert_close(f"{case.title}: tangents of one input each", total, whole)


def _assert_equal_products(
    case: Case, forward: float, reverse: float, scale: float, dtype: DType
) -> None:
    if not (np.isfinite(forward) and np.isfinite(reverse)):
        same = np.isfinite(forward) == np.isfinite(reverse)
        assert same or case.sample.kink, f"{case.title}: ⟨v,Ju⟩ = {forward}, ⟨Jᵀv,u⟩ = {reverse}"
        return
    relative, absolute = TOLERANCE.get(dtype.name, TOLERANCE["float32"])
    allowed = relative * max(abs(forward), scale) + absolute
    assert near(np.array(forward), np.array(reverse), 0.0, allowed), (
        f"{case.title}: forward mode is not the adjoint of reverse mode: "
        f"⟨v, Ju⟩ = {forward:.12g}, ⟨Jᵀv, u⟩ = {reverse:.12g}"
    )
