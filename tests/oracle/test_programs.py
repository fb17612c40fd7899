"""Random programs give the same values, errors and derivatives in PyTorch and in adjoint."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402
from tests.oracle import bridge, programs  # noqa: E402

torch.set_num_threads(1)
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
COUNT = int(os.environ.get("ORACLE_PROGRAMS", "600"))
BLOCK = 50


def array(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, torch.Tensor):
        return bridge.torch_array(value)
    return bridge.ad_array(value)


def differ(ours: Any, theirs: Any) -> bool:
    """Whether two results differ; an absent gradient is a zero one."""
    a, b = array(ours), array(theirs)
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) != isinstance(b, str)
    if a is None or b is None:
        return bool(np.any(a if b is None else b)) and not (a is None and b is None)
    if np.iscomplexobj(b) and not np.iscomplexobj(a):
        b = (
            b.real
        )  # PyTorch gives a real tensor a complex tangent when a complex one is copied to it
    return a.shape != b.shape or not np.allclose(a, b, rtol=1e-8, atol=1e-10, equal_nan=True)


def usable(pool: list[Any]) -> bool:
    """PyTorch's views of several at once cannot even be asked after a write to their base."""
    try:
        return all(isinstance(t.requires_grad, bool) for t in pool)
    except RuntimeError:
        return False


def compare(seed: int) -> str:
    """Run one program in both libraries; return what differs, or ""."""
    steps = programs.draw(seed, 12)
    ours, our_leaves = programs.start(ad, seed)
    theirs, their_leaves = programs.start(torch, seed)
    history: list[str] = []
    for step in steps:
        a, b = programs.run_step(ours, step), programs.run_step(theirs, step)
        history.append(f"{step}  {('raises ' + b) if b else ''}")
        if b and not a and any(text in b for text in programs.MORE):
            return ""
        if a and not b and any(text in a for text in programs.LESS):
            return ""
        if bool(a) != bool(b):
            trouble = f"adjoint {a or 'does not raise'}; PyTorch {b or 'does not raise'}"
            return "\n".join([f"program {seed}", *history, trouble])
        if not usable(theirs):
            return ""
        for number, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            if differ(x, y) or x.requires_grad != y.requires_grad:
                trouble = f"t{number}: {x}, PyTorch {y}"
                return "\n".join([f"program {seed}", *history, trouble])
    trouble = compare_gradients(seed, steps, (ours, our_leaves), (theirs, their_leaves))
    return "\n".join([f"program {seed}", *history, trouble]) if trouble else ""


def compare_gradients(seed: int, steps: list[programs.Step], ours: Any, theirs: Any) -> str:
    """Return how the gradients differ; where PyTorch refuses, differences are the judge."""
    got, expected = programs.gradients(ad, *ours), programs.gradients(torch, *theirs)
    if isinstance(got, str):
        refused = isinstance(expected, str)
        return "" if refused else f"adjoint refuses: {got}; PyTorch {expected}"
    if isinstance(expected, str) and any(step.name == "detach" for step in steps):
        return ""  # what flows through detach() has no gradient, but a difference
    if isinstance(expected, str):
        return compare_slope(seed, steps, got, expected)
    if len(got) != len(expected) or any(differ(x, y) for x, y in zip(got, expected)):
        return f"gradients {got}, PyTorch {expected}"
    return ""


def compare_slope(seed: int, steps: list[programs.Step], got: list[Any], why: str) -> str:
    generator = np.random.default_rng(seed)
    direction = [generator.standard_normal((3, 3)), generator.standard_normal(3)]
    expected = programs.slope(ad, seed, steps, direction)
    pairs = zip(got, direction, strict=False)
    product = sum(float((array(g).real * d).sum()) for g, d in pairs if g is not None)
    near = abs(product - expected) <= 1e-5 * (1 + abs(expected))
    return "" if near else f"gradient along a direction {product}, differences {expected}, {why}"


def compare_tangents(seed: int) -> str:
    """Run one program on dual tensors in both libraries; return what differs, or ""."""
    steps = programs.draw(seed, 12)
    generator = np.random.default_rng(seed)
    direction = [generator.standard_normal((3, 3)), generator.standard_normal(3)]
    ours = programs.tangents(ad, seed, steps, direction)
    theirs = programs.tangents(torch, seed, steps, direction)
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(b, str):
            if not isinstance(a, str):
                return ""  # PyTorch refuses more, and goes on with another pool
            continue
        if isinstance(a, str) and any(text in a for text in programs.LESS):
            return ""
        if isinstance(a, str) or any(differ(x, y) for x, y in zip(a, b, strict=True)):
            history = [f"program {seed}, forward mode", *map(str, steps[: number + 1])]
            return "\n".join([*history, f"{a}, PyTorch {b}"])
    return ""


@pytest.mark.parametrize("block", range(COUNT // BLOCK))
def test_programs_agree_in_forward_mode(block: int) -> None:
    reports = [compare_tangents(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)]
    troubles = [r for r in reports if r]
    assert not troubles, f"{len(troubles)} of {BLOCK} programs differ; the first:\n{troubles[0]}"


@pytest.mark.parametrize("block", range(COUNT // BLOCK))
def test_programs_agree(block: int) -> None:
    reports = [compare(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)]
    troubles = [r for r in reports if r]
    assert not troubles, f"{len(troubles)} of {BLOCK} programs differ; the first:\n{troubles[0]}"
