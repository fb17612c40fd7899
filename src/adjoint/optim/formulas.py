"""Optimisers that are one formula: new values of a parameter and its state, element by element.

A subclass of `FormulaOptimizer` writes two pure functions. `numbers` is the part that all elements
share: from the group's options and the scalar state (`step`) to a few numbers and the next scalar
state. `formula` is the part of each element, in operators that arrays and tensors both have; a
number that is None is a term that is left out. Everything else is here, once: the formula runs on
arrays (a small parameter at once, a large one in pieces), on tensors where the step itself is
differentiated, on the stored entries of a sparse gradient, and in a trace (compiled.py).
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.core.dtypes import DEFAULT, float32, float64
from adjoint.core.errors import DtypeError, GradError
from adjoint.core.source_lines import caller
from adjoint.core.state import OFF, changed, current
from adjoint.optim import options, pieces
from adjoint.optim.optimizer import Optimizer
from adjoint.optim.options import Checks, Options
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.nodes import before_write, count_write
from adjoint.tensor.tensor import Tensor, make

Array = np.ndarray[Any, Any]
Numbers = dict[str, Any]  # of floats, of tensors where they are differentiated, of None
Scalars = tuple[Any, ...]  # the scalar state of a parameter: (step,)


class FormulaOptimizer(Optimizer):
    """An optimiser whose step is one formula; see the module."""

    # First values of the scalar state, or the option that has them; kept as tensors of one number.
    initial_scalars: ClassVar[dict[str, float | str]] = {"step": 0.0}
    elementwise: ClassVar[bool] = True  # False: the formula sees a whole parameter, as a tensor
    takes_complex: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = False
    state_fades: ClassVar[bool] = False  # True: state also changes where a gradient is 0
    only_sparse: ClassVar[bool] = False
    slot_names: ClassVar[tuple[str, ...]] = ()  # state of the parameter's shape: ("exp_avg",)
    unchecked: ClassVar[tuple[str, ...]] = ()  # options that mean something else than elsewhere
    checks: ClassVar[Checks] = ()  # rules of this optimiser's options alone
    settled: ClassVar[Options] = {}  # options that all groups have, whatever is given

    def __init__(self, params: Any, variables: Options) -> None:
        """`variables` are the `locals()` of the subclass's constructor."""
        given = options.given(variables) | self.settled
        options.check(type(self).__name__, given, self.unchecked, self.checks)
        super().__init__(params, given)

    # -- what a subclass says ------------------------------------------------------------------

    def slots(self, group: Options) -> tuple[str, ...]:
        """The names of the state that has the parameter's shape, in the formula's order."""
        return self.slot_names

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        """The numbers of the formula, and the next scalar state."""
        raise NotImplementedError

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """The new parameter and its new state, from the numbers, the parameter, its gradient and
        its state; `xp` has the functions: NumPy for arrays, the operators for tensors.
        """
        raise NotImplementedError

    def initial(self, name: str, p: Any, group: Options) -> Any:
        """The first value of a slot."""
        return ops.zeros_like(p.detach())

    def initial_scalar(self, name: str, group: Options) -> Any:
        """The first value of a scalar state: a tensor of float32, or of float64 by default."""
        dtype = float64 if DEFAULT.dtype is float64 else float32
        first = self.initial_scalars[name]
        return make(np.array(float(group.get(first, 0) if type(first) is str else first), dtype.np))

    def check_gradient(self, p: Any, grad: Any) -> None:
        """Raise if the formula does not hold for such a parameter or gradient."""
        what = f"{type(self).__name__}.step"
        if grad.is_sparse and not self.takes_sparse:
            raise GradError(f"{what}: a gradient is sparse; use SGD, Adagrad or SparseAdam")
        if not grad.is_sparse and self.only_sparse:
            raise GradError(f"{what}: a gradient is dense; use Adam")
        if not self.takes_complex and p.is_complex():
            raise GradError(f"{what}: complex parameters are not supported")

    # -- the step ------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each parameter that has a gradient; `closure` computes the loss first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        differentiable = bool(self.defaults.get("differentiable"))
        recording = current().when_on() if differentiable else OFF
        with changed(recording=recording), np.errstate(all="ignore"):
            for group in self.param_groups:
                _Update(self, group, differentiable).run()
        return loss

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.update(self.settled)
        for kept in self.state.values():  # old versions kept plain numbers
            for name in self.initial_scalars:
                number = self.initial_scalar(name, {})
                if isinstance(number, Tensor) and isinstance(kept.get(name), (int, float)):
                    number.value[...] = kept[name]
                    kept[name] = number

    def slot_values(self, p: Any, group: Options) -> list[Any]:
        """The tensors of a parameter's slots, made now if there are none yet."""
        names = self.slots(group)
        if not names:
            return []
        state = self.state[p]
        for name in names:
            if state.get(name) is None:
                state[name] = self.initial(name, p, group)
        return list(map(state.get, names))

    def scalar_values(self, p: Any, group: Options) -> tuple[Any, ...]:
        """The numbers of a parameter's scalar state, made now if there are none yet."""
        if not self.initial_scalars:
            return ()
        state = self.state[p]
        for name in self.initial_scalars:
            if name not in state:
                state[name] = self.initial_scalar(name, group)
        return tuple(map(_number, map(state.get, self.initial_scalars)))

    def keep_scalars(self, p: Any, scalars: Scalars) -> None:
        """Put the next scalar state in the place of the last."""
        if not scalars:
            return
        state = self.state[p]
        for name, scalar in zip(self.initial_scalars, scalars, strict=True):
            kept = state[name]
            if not isinstance(kept, Tensor):
                state[name] = scalar
            elif isinstance(scalar, Tensor):
                kept.copy_(scalar)
            else:
                kept.value.fill(scalar)

    def common_numbers(self, options: Options, scalars: Scalars) -> Any:
        """The numbers with those that every formula has, and the next scalar state."""
        numbers, after = self.numbers(options, scalars)
        numbers.setdefault("decay", _unless_zero(options.get("weight_decay", 0)))
        numbers.setdefault("shrink", None)
        numbers["maximize"] = 1.0 if options.get("maximize") else None
        return {k: float(v) if type(v) is int else v for k, v in numbers.items()}, after


def decoupled(options: Options) -> Numbers:
    """Weight decay as a factor of the parameter instead of a term of the gradient."""
    decay = options["weight_decay"]
    return {"decay": None, "shrink": None if _is_zero(decay) else 1 - options["lr"] * decay}


def filled(p: Any, number: float) -> Any:
    """State of a parameter's shape that begins with a number, in both parts of a complex one."""
    return ops.full_like(p.detach(), complex(number, number) if p.is_complex() else number)


class _Update:
    """One step of one group."""

    def __init__(self, owner: FormulaOptimizer, group: Options, differentiable: bool) -> None:
        self.owner, self.group, self.differentiable = owner, group, differentiable
        self.name, self.place = f"{type(owner).__name__}.step", caller()
        self.options = {
            k: v if type(v) in _SETTLED else option(v, differentiable)
            for k, v in group.items()
            if k != "params"
        }
        # By scalar state, which most parameters of a group share: the numbers and the next state,
        # and by dtype too, the formula for arrays.
        self.known: dict[Any, tuple[Any, Any]] = {}
        self.kernels: dict[Any, pieces.Kernel] = {}

    def run(self) -> None:
        owner = self.owner
        if self.group.get("fused"):
            self._check_fused()
        pairs = [(p, grad) for p in self.group["params"] if (grad := p.grad) is not None]
        for p, grad in pairs:  # all of them, before anything changes
            owner.check_gradient(p, grad)
            if grad.is_sparse and self.options.get("weight_decay", 0) != 0:
                raise GradError(f"{self.name}: weight_decay needs dense gradients, one is sparse")
        for p, grad in pairs:
            scalars = owner.scalar_values(p, self.group)
            slots = owner.slot_values(p, self.group)
            if grad.is_sparse and slots and owner.state_fades:
                grad = grad.to_dense()
            if grad.is_sparse:
                self._sparse(p, grad, slots, scalars)
            elif self.differentiable or p.home is not None or grad.home is not None:
                self._on_tensors(p, grad, slots, scalars)
            elif owner.elementwise:
                self._on_arrays(p, grad, slots, scalars)
            else:
                self._on_tensors(p, grad, slots, scalars)
            owner.keep_scalars(p, self.known[scalars][1])

    def _check_fused(self) -> None:
        for p in self.group["params"]:
            if p.grad is not None and (p.is_meta or not p.is_floating_point()):
                raise DtypeError(
                    f"{self.name}: fused=True needs floating-point parameters with data, one is "
                    f"{p.dtype.name} on {p.device}"
                )

    def _numbers(self, scalars: Scalars) -> Any:
        """The numbers for tensors."""
        if scalars not in self.known:
            numbers, after = self.owner.common_numbers(self.options, scalars)
            self.known[scalars] = (SimpleNamespace(**numbers), after)
        return self.known[scalars][0]

    def _kernel(self, scalars: Scalars, dtype: Any) -> pieces.Kernel:
        found = self.kernels.get((scalars, dtype))
        if found is None:
            found = pieces.Kernel(self.owner.formula, self._numbers(scalars), dtype)
            self.kernels[scalars, dtype] = found
        return found

    def _on_arrays(self, p: Any, grad: Any, slots: list[Any], scalars: Scalars) -> None:
        targets = [p, *slots]
        arrays = [p.value, grad.value, *[s.value for s in slots]]
        if p.value.dtype.kind == "c":
            arrays = [pieces.as_real(a) for a in arrays]
        for target in targets:
            before_write(target, self.name)
        self._kernel(scalars, arrays[0].dtype).update(arrays)
        for target in targets:
            count_write(target, self.name, self.place)

    def _on_tensors(self, p: Any, grad: Any, slots: list[Any], scalars: Scalars) -> None:
        inputs = [p, grad, *slots]
        if self.differentiable:  # what is written below was saved for backward
            inputs = [t.clone() for t in inputs]
        new = on_tensors(self.owner.formula, self._numbers(scalars), inputs)
        for target, value in zip([p, *slots], new, strict=True):
            target.copy_(value)

    def _sparse(self, p: Any, grad: Any, slots: list[Any], scalars: Scalars) -> None:
        """Update the entries that the gradient stores, and leave the others alone."""
        grad = grad.coalesce()
        index = tuple(grad.indices().array)
        targets = [p, *slots]
        arrays = [t.array[index] for t in targets]
        arrays.insert(1, grad.values().detach().array)
        real = [pieces.as_real(a) for a in arrays] if p.is_complex() else arrays
        self._kernel(scalars, real[0].dtype).update(real)
        del arrays[1]
        for target, array in zip(targets, arrays, strict=True):
            before_write(target, self.name)
            target.array[index] = array
            count_write(target, self.name, self.place)


def on_tensors(formula: Callable[..., Any], n: Any, inputs: list[Any]) -> list[Any]:
    """New values of a parameter and its state, from tensors: the parameter, its gradient, its
    state. Complex numbers are pairs of real ones, half precision computes in float32.
    """
    dtype = inputs[0].dtype
    if dtype.is_complex:
        new = pieces.apply(formula, ops, n, *[ops.view_as_real(t) for t in inputs])
        return [ops.view_as_complex(t) for t in new]
    if dtype.itemsize < 4:
        inputs = [t.to(float32) for t in inputs]
    return [t.to(dtype) for t in pieces.apply(formula, ops, n, *inputs)]


def _number(value: Any) -> Any:
    """A scalar state as a Python number; as a tensor where its gradient is wanted."""
    if not isinstance(value, Tensor):
        return value
    if value.edge is not None:
        return value.clone()
    return value.value.item() if value.home is None else value.item()


_SETTLED = frozenset((bool, int, float, NoneType))  # options that are what a formula takes


def option(value: Any, differentiable: bool = False) -> Any:
    """An option of a group, tensors of one element as numbers unless they are differentiated."""
    if isinstance(value, tuple):
        return tuple(option(v, differentiable) for v in value)
    if not isinstance(value, Tensor):
        return value
    return value.reshape(()) if differentiable else value.item()


def _is_zero(number: Any) -> bool:
    return not isinstance(number, Tensor) and number == 0


def _unless_zero(number: Any) -> Any:
    return None if _is_zero(number) else number
