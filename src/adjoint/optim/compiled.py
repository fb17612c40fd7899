"""`compiled_step`: loss, gradient and update of a training step as one native program.

Python keeps what is not a matter of elements: it reads options and scalar state of the optimiser,
works out the formulas' numbers and hands them over in one array, so that another learning rate
compiles nothing. The program takes the arrays of parameters, buffers and state, and what it returns
is written over them, so that everybody else sees it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.compiled import Compiled, compiled_on_tensors
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError
from adjoint.core.source_lines import caller
from adjoint.nn.modules.module import Module
from adjoint.nn.utils.clip_grad import clip_grad_norm_, get_total_norm
from adjoint.optim.formulas import FormulaOptimizer, on_tensors, option
from adjoint.optim.optimizer import between_hooks
from adjoint.tensor.modes import no_grad
from adjoint.tensor.nodes import Leaf, before_write, count_write
from adjoint.tensor.tensor import make
from adjoint.transforms.reverse import value_and_grad
from adjoint.transforms.stateless import functional_call

_NAME = "compiled_step"


def compiled_step(
    model: Module,
    loss_fn: Callable[..., Any] | None,
    optimizer: FormulaOptimizer,
    *,
    max_norm: float | None = None,
    dynamic: int | tuple[int, ...] | None = None,
    verbose: bool = False,
) -> CompiledStep:
    """Return `step(*inputs, target)`, which trains `model` by one step and returns the loss.

    A call does what these lines do, as one program that is compiled once for each shape of batch:

        optimizer.zero_grad()
        loss = loss_fn(model(*inputs), target)
        loss.backward()
        optimizer.step()

    Without `loss_fn` the model returns the loss itself, from all arguments. Parameters, buffers
    (the statistics of batch normalisation) and the optimiser's state change in place; a scheduler's
    learning rate takes effect without another compilation, dropout draws anew at each call. The
    first call runs these lines as they are: it shows which parameters get a gradient, and makes the
    optimiser's state. What the model and the loss read from outside is compared before each call,
    and a step in which a hook on a parameter's gradient runs is not compiled. The gradients
    themselves stay inside: `.grad` is None afterwards. The optimiser is any but LBFGS and
    SparseAdam. With `max_norm` gradients are clipped as `clip_grad_norm_` does before the update.
    `dynamic=0` leaves the size of the batch open: another size of dimension 0 compiles nothing.
    `verbose` prints a line for each stage of a compilation.

    >>> import adjoint as ad
    >>> model = ad.nn.Sequential()
    >>> model.weight = ad.nn.Parameter(ad.zeros(2))
    >>> model.forward = lambda x: x @ model.weight
    >>> optimizer = ad.optim.Adam(model.parameters(), lr=0.1)
    >>> step = ad.optim.compiled_step(model, ad.nn.functional.mse_loss, optimizer)
    >>> x, y = ad.eye(2), ad.tensor([3.0, -1.0])
    >>> losses = [step(x, y) for _ in range(100)]
    >>> losses[0], model.weight.detach().round(decimals=1)
    (tensor(5.), tensor([ 3., -1.]))
    """
    return CompiledStep(model, loss_fn, optimizer, max_norm, dynamic, verbose)


class _Plan(NamedTuple):
    """What a program is made for, beside shapes."""

    trained: tuple[int, ...]  # positions, among all parameters, of those that are updated
    sets: tuple[Any, ...]  # of numbers: (names and values of static ones, names of the others)
    uses: tuple[int, ...]  # which set each trained parameter uses


class CompiledStep:
    """A training step as a native program; made by `compiled_step`."""

    compiled_reads = ("training", "max_norm")  # by a program

    def __init__(
        self,
        model: Any,
        loss_fn: Any,
        optimizer: Any,
        max_norm: float | None,
        dynamic: Any,
        verbose: bool,
    ) -> None:
        if not isinstance(model, Module):
            raise ArgumentError(f"{_NAME}: model must be a Module, got {type(model).__name__}")
        if not isinstance(optimizer, FormulaOptimizer) or optimizer.only_sparse:
            raise ArgumentError(
                f"{_NAME}: {type(optimizer).__name__} has no formula for dense gradients that "
                "could be compiled; use SGD, Adam or another optimiser of ad.optim"
            )
        if optimizer.defaults.get("differentiable"):
            raise ArgumentError(
                f"{_NAME}: the optimiser has differentiable=True, which a compiled step is not"
            )
        self.training, self.optimizer = _Training(model, loss_fn), optimizer
        self.max_norm, self.dynamic, self.verbose = max_norm, dynamic, verbose
        self.modules = list(self.training.modules())
        self.trained: dict[Any, tuple[int, ...]] = {}  # by flags, of the first call with them
        self.programs: dict[Any, Compiled] = {}
        self.members = _Members(self.training)
        self.owners: dict[int, dict[str, Any]] = {}  # the group of each parameter, by its id

    def __call__(self, *batch: Any) -> Any:
        if not self.members.still_hold():
            self._look()
        groups = self.optimizer.param_groups  # other ones after load_state_dict
        self.owners = {id(p): group for group in groups for p in group["params"]}
        flags = (
            len(self.owners),
            *[m.training for m in self.modules],
            *[p.edge is not None for p in self.members.parameters],
        )
        if Leaf.watched and any(map(_has_hooks, self.members.parameters)):
            return self._eagerly(batch)[0]
        if flags not in self.trained:
            loss, self.trained[flags] = self._eagerly(batch)
            return loss
        return between_hooks(
            self.optimizer, lambda _: self._run(flags, batch), (self.optimizer,), {}
        )

    def _eagerly(self, batch: tuple[Any, ...]) -> tuple[Any, tuple[int, ...]]:
        """A step by the eager operators, and the positions of the parameters that it changed."""
        self.optimizer.zero_grad()
        loss = self.training(*batch)
        loss.backward()
        self._look()  # lazy modules have their parameters now
        if self.max_norm is not None:
            clip_grad_norm_(
                [p for p in self.members.parameters if id(p) in self.owners], self.max_norm
            )
        trained = tuple(
            i
            for i, p in enumerate(self.members.parameters)
            if p.grad is not None and id(p) in self.owners
        )
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach(), trained

    def _look(self) -> None:
        """See which tensors the modules hold now; other parameters need other programs."""
        before, self.members = self.members, _Members(self.training)
        if not before.has_parameters_of(self.members):
            self.trained, self.programs = {}, {}

    def _run(self, flags: Any, batch: tuple[Any, ...]) -> Any:
        members, optimizer = self.members, self.optimizer
        plan, numbers, after = self._numbers(self.trained[flags])
        slots = [optimizer.slot_values(members.parameters[i], g) for i, g in self._owned(plan)]
        key = (flags, plan)
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = self._program(plan)
        with no_grad():
            loss, new, buffers = program(
                [p.value for p in members.parameters],
                [b.value for b in members.buffers],
                [[s.value for s in kept] for kept in slots],
                numbers,
                list(batch),
            )
        place = caller()
        for (i, _), kept, values in zip(self._owned(plan), slots, new, strict=True):
            _write((members.parameters[i], *kept), values, place)
        _write(members.buffers, buffers, place)
        for i, scalars in zip(plan.trained, after, strict=True):
            optimizer.keep_scalars(members.parameters[i], scalars)
        return loss

    def _owned(self, plan: _Plan) -> list[tuple[int, Any]]:
        """The positions of the trained parameters, with their groups."""
        parameters = self.members.parameters
        return [(i, self.owners[id(parameters[i])]) for i in plan.trained]

    def _numbers(self, trained: tuple[int, ...]) -> tuple[_Plan, Any, list[Any]]:
        """The plan for this step, all numbers in one array, and the next scalar states."""
        found: dict[Any, Any] = {}
        uses, after = [], []
        options = {id(g): _options(g) for g in self.optimizer.param_groups}
        for i in trained:
            p = self.members.parameters[i]
            group = self.owners[id(p)]
            scalars = self.optimizer.scalar_values(p, group)
            key = (id(group), scalars)
            if key not in found:
                named, later = self.optimizer.common_numbers(options[id(group)], scalars)
                found[key] = (len(found), named, later)
            number, _, later = found[key]
            uses.append(number)
            after.append(later)
        sets = [named for _, named, _ in found.values()]
        plan = _Plan(trained, tuple(_names(s) for s in sets), tuple(uses))
        floats = [v for s in sets for v in s.values() if isinstance(v, float)]
        return plan, np.array(floats), after

    def _program(self, plan: _Plan) -> Compiled:
        """The step as a function of arrays, compiled."""
        formula = self.optimizer.formula

        def step(
            parameters: list[Any], buffers: list[Any], slots: list[Any], numbers: Any, batch: Any
        ) -> Any:
            given = (parameters, buffers, slots, numbers)
            parameters, buffers, slots, numbers = pytrees.map(_tensor, given)

            def loss_of(trained: list[Any]) -> Any:
                values = list(parameters)
                for i, p in zip(plan.trained, trained, strict=True):
                    values[i] = p
                members = self.members
                named = dict(zip(members.parameter_names, values, strict=True))
                own = dict(zip(members.buffer_names, [b.clone() for b in buffers], strict=True))
                loss = functional_call(self.training, (named, own), tuple(batch))
                return loss, list(own.values())

            trained = [parameters[i] for i in plan.trained]
            (loss, after), grads = value_and_grad(loss_of, has_aux=True)(trained)
            if self.max_norm is not None:
                grads = _clipped(grads, self.max_norm)
            named = _named(plan.sets, numbers)
            new = [
                on_tensors(formula, named[use], [p, grad, *kept])
                for use, p, grad, kept in zip(plan.uses, trained, grads, slots, strict=True)
            ]
            return loss, new, after

        dynamic = None if self.dynamic is None else {"batch": self.dynamic}
        return compiled_on_tensors(step, self.verbose, dynamic)


class _Training(Module):
    """A model and its loss as one module."""

    compiled_reads = ("model", "loss_fn")  # by a program

    def __init__(self, model: Module, loss_fn: Any) -> None:
        super().__init__()
        self.model, self.loss_fn = model, loss_fn

    def forward(self, *batch: Any) -> Any:
        """The loss of a batch."""
        if self.loss_fn is None:
            return self.model(*batch)
        *inputs, target = batch
        return self.loss_fn(self.model(*inputs), target)


class _Members:
    """The parameters and buffers of a module as they are now; one with two names counts once."""

    def __init__(self, module: Module) -> None:
        parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
        self.parameter_names, self.parameters = list(parameters), list(parameters.values())
        self.buffer_names, self.buffers = list(buffers), list(buffers.values())
        self.places = [
            (held, name, t)
            for m in module.modules()
            for held in (m._parameters, m._buffers)
            for name, t in held.items()
        ]

    def still_hold(self) -> bool:
        """Whether the module has the same tensors."""
        return all(held.get(name) is t for held, name, t in self.places)

    def has_parameters_of(self, other: _Members) -> bool:
        """Whether the parameters are those of other members."""
        mine, others = self.parameters, other.parameters
        return len(mine) == len(others) and all(map(operator.is_, mine, others))


def _has_hooks(parameter: Any) -> bool:
    """Whether somebody wants to see, or to change, the gradient of a parameter."""
    hooks = None if parameter.edge is None else parameter.edge.hooks
    if hooks is None:
        return False
    return bool(hooks.on_tensor or hooks.before or hooks.accumulated or hooks.after)


def _clipped(grads: list[Any], most: float) -> list[Any]:
    """Gradients with a norm of at most `most`, as `clip_grad_norm_` makes them."""
    factor = (most / (get_total_norm(grads) + 1e-6)).clamp(max=1.0)
    return [g * factor for g in grads]


def _tensor(value: Any) -> Any:
    """An array as a tensor: what runs eagerly after all gets arrays."""
    return make(value) if isinstance(value, np.ndarray) else value


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {k: option(v) for k, v in group.items() if k != "params"}


def _names(numbers: dict[str, Any]) -> Any:
    """What of a set of numbers is part of the program: values that are no floats, and names."""
    static = tuple([(k, v) for k, v in numbers.items() if not isinstance(v, float)])
    return static, tuple([k for k, v in numbers.items() if isinstance(v, float)])


def _named(sets: tuple[Any, ...], numbers: Any) -> list[Any]:
    """The sets of numbers, from one tensor that holds the floats of all."""
    found, start = [], 0
    for static, names in sets:
        floats = {name: numbers[start + i] for i, name in enumerate(names)}
        found.append(SimpleNamespace(**dict(static), **floats))
        start += len(names)
    return found


def _write(targets: Any, values: Any, place: Any) -> None:
    """Write results over the tensors that they are new values of."""
    for target, value in zip(targets, values, strict=True):
        before_write(target, _NAME)
        target.value[...] = value.value
        count_write(target, _NAME, place)
