"""Hooks: what is called when, with which gradient, and what it changes, as PyTorch does it.

A case is a random program of a few operators, views and writes in place, with hooks on its tensors
and nodes, retained gradients, and a backward pass or two: all the way, to chosen inputs, or by
`grad`. Every hook notes its name and what it saw. Gradients and notes are compared with PyTorch's
where it is installed; without it, the gradients of a run with hooks that change nothing are
compared with those of a run without hooks.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import adjoint as ad
from tests.campaigns import campaign

Step = Callable[[Any, Any], Any]

# The operators: of two earlier tensors, all of one shape. Large numbers get no larger errors in
# them: the sine of one would be decided by its last bit, in which the libraries differ.
OPERATORS: tuple[tuple[str, Step], ...] = (
    ("a * b", lambda a, b: a * b),
    ("a + b", lambda a, b: a + b),
    ("a.atan()", lambda a, b: a.atan()),
    ("a.exp()", lambda a, b: a.exp()),
    ("a * 2", lambda a, b: a * 2),
    ("a.flip(0)", lambda a, b: a.flip(0)),
)
VIEWS: tuple[tuple[str, Step], ...] = (
    ("a[:]", lambda a, b: a[:]),
    ("unbind", lambda a, b: a.unbind(0)[1] * b),
)


class Program:
    """One program, run on one library; `seed` decides everything."""

    def __init__(self, library: Any, seed: int, *, change: bool, hooked: bool = True) -> None:
        self.library = library
        self.random = random.Random(seed)
        self.change = change  # whether hooks may return something
        self.hooked = hooked  # whether there are hooks
        # PyTorch 2.13 crashes where a view of what was written to gets a hook: one of the two
        self.writes = self.random.random() < 0.5
        self.notes: list[Any] = []
        self.tensors: list[Any] = []
        self.text: list[str] = []  # the operators, for a message
        self.kept: list[Any] = []

    def run(self) -> list[Any]:
        """Run it, and return the notes, the gradients last."""
        for _ in range(self.random.randint(1, 3)):
            values = [self.random.choice([0.5, 1.0, -1.5, 2.0]) for _ in range(3)]
            made = self.library.tensor(values, dtype=self.library.float64, requires_grad=True)
            self.tensors.append(made)
        for _ in range(self.random.randint(2, 7)):
            self._step()
        loss = (self.tensors[-1] * self.random.choice(self.tensors)).sum()
        self._hook(loss, "loss")
        for _ in range(self.random.randint(1, 2)):
            self._pass(loss)
            if self.notes[-1:] == ["pass refused"]:
                return self.notes  # what was accumulated before the error is not promised
        for number, tensor in enumerate(self.tensors):
            if tensor.is_leaf or tensor.retains_grad:
                self.notes.append((f"grad {number}", _listed(tensor.grad)))
        return self.notes

    def _step(self) -> None:
        kind, number = self.random.random(), len(self.tensors)
        if kind < 0.2 and self.writes:
            self._write(self.random.choice(self.tensors), self.random.choice(self.tensors))
            return
        text, operator = self.random.choice(OPERATORS if self.writes else OPERATORS + VIEWS)
        self.text.append(text)
        made = operator(self.random.choice(self.tensors), self.random.choice(self.tensors))
        self.tensors.append(made)
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            self._hook(self.random.choice(self.tensors), f"t{number}")

    def _write(self, target: Any, other: Any) -> None:
        scaled = (other * 0.5).exp()
        try:
            self.random.choice([target.mul_, target.add_])(scaled)
        except RuntimeError:
            self.notes.append("write refused")

    def _hook(self, tensor: Any, name: str) -> None:
        choice = self.random.randrange(6)
        factor = self.random.choice([None, 2.0, -1.0])
        if choice == 1:
            tensor.retain_grad()
        elif self.hooked:
            self._register(tensor, name, choice, factor if self.change else None)

    def _register(self, tensor: Any, name: str, choice: int, factor: float | None) -> None:
        if choice == 0:
            tensor.register_hook(self._noting(f"{name} tensor", factor))
        elif choice == 2 and tensor.is_leaf:
            tensor.register_post_accumulate_grad_hook(self._accumulated(f"{name} accumulated"))
        elif choice == 3 and tensor.grad_fn is not None:
            tensor.grad_fn.register_prehook(self._noting_all(f"{name} before", factor))
        elif choice == 4 and tensor.grad_fn is not None:
            # which inputs a node has is its own affair: only that it ran, and on what
            tensor.grad_fn.register_hook(self._after(f"{name} after"))
        elif choice == 5 and tensor.is_leaf:
            edge = self.library.autograd.graph.get_gradient_edge(tensor)
            self.kept.append(edge)  # PyTorch's node of a leaf lives no longer than its users
            edge.node.register_prehook(self._noting_all(f"{name} leaf before", factor))

    def _noting(self, name: str, factor: float | None) -> Callable[[Any], Any]:
        def hook(grad: Any) -> Any:
            self.notes.append((name, _listed(grad)))
            return None if factor is None or grad is None else grad * factor

        return hook

    def _noting_all(self, name: str, factor: float | None) -> Callable[[Any], Any]:
        def hook(grads: Any) -> Any:
            self.notes.append((name, [_listed(g) for g in grads]))
            if factor is None:
                return None
            return tuple(None if g is None else g * factor for g in grads)

        return hook

    def _after(self, name: str) -> Callable[[Any, Any], None]:
        return lambda _, outputs: self.notes.append((name, [_listed(g) for g in outputs]))

    def _accumulated(self, name: str) -> Callable[[Any], None]:
        return lambda tensor: self.notes.append((name, _listed(tensor.grad)))

    def _pass(self, loss: Any) -> None:
        kind, again = self.random.random(), self.random.random() < 0.2
        wanted = self.random.sample(self.tensors, self.random.randint(1, min(3, len(self.tensors))))
        try:
            if kind < 0.5:
                loss.backward(retain_graph=True, create_graph=again)
            elif kind < 0.75:
                loss.backward(retain_graph=True, create_graph=again, inputs=wanted)
            else:
                grad = self.library.autograd.grad
                found = grad(loss, wanted, None, True, again, allow_unused=True)
                self.notes.append(("found", [_listed(g) for g in found]))
        except RuntimeError:
            self.notes.append("pass refused")


def _listed(value: Any) -> Any:
    return None if value is None else [round(float(v), 9) for v in value.detach().reshape(-1)]


def check(seed: int) -> int:
    """Compare one program on both libraries, or with and without hooks on ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = campaign.torch()
        if torch is not None:
            program = Program(ad, seed, change=True)
            ours = program.run()
            theirs = Program(torch, seed, change=True).run()
        else:
            program = Program(ad, seed, change=False)
            ours = _gradients(program.run())
            theirs = _gradients(Program(ad, seed, change=False, hooked=False).run())
    case = f"seed {seed}: {program.text}"
    assert len(ours) == len(theirs), f"{case}:\n{ours}\n{theirs}"
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert _same(a, b), f"{case}, note {number}: {a}, expected {b}\n{ours}\n{theirs}"
    return len(ours)


def _gradients(notes: list[Any]) -> list[Any]:
    return [n for n in notes if isinstance(n, tuple) and n[0].startswith(("grad", "found"))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        near = abs(a - b) <= 1e-7 * max(1.0, abs(a), abs(b))
        return near or a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


if __name__ == "__main__":
    campaign.main(check)
