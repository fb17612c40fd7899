"""`Optimizer`: parameter groups, state, state dicts and hooks, without an update rule.

Group and state layouts are PyTorch's, so state dicts can go from one library to the other. `step`
of every subclass is wrapped once, when the class is made, so that its hooks run.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from adjoint.core.dtypes import float32
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.tensor.nodes import Handle
from adjoint.tensor.tensor import Tensor

StateDict = dict[str, Any]
Hook = Callable[..., Any]

_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)
# Attributes that are made when they are asked for.
_LATE: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(_HOOKS, OrderedDict),
    "defaults": dict,
    "state": lambda: defaultdict(dict),
    "param_groups": list,
}
_global_pre_hooks: dict[int, Hook] = OrderedDict()
_global_post_hooks: dict[int, Hook] = OrderedDict()


class _Required:
    """The default of an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Hook) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before `step` of every optimiser.

    >>> import adjoint as ad
    >>> seen = []
    >>> with ad.optim.register_optimizer_step_pre_hook(lambda *call: seen.append(call[0])):
    ...     optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)])
    ...     optimizer.step()
    >>> seen == [optimizer]
    True
    """
    return Handle(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after `step` of every optimiser; see the hook before."""
    return Handle(_global_post_hooks, hook)


class Optimizer:
    """Base of all optimisers: holds groups of parameters and the state of each parameter.

    `params` are tensors, (name, tensor) pairs, or dicts with the key "params" and options of their
    own; `defaults` are the options of groups that do not say otherwise. A subclass writes `step`.

    >>> import adjoint as ad
    >>> class Descent(ad.optim.Optimizer):
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 with ad.no_grad():
    ...                     p -= group["lr"] * p.grad
    >>> x = ad.tensor([3.0], requires_grad=True)
    >>> optimizer = Descent([x], {"lr": 0.1})
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([2.4000], requires_grad=True)
    """

    _opt_called: bool
    _optimizer_step_pre_hooks: dict[int, Hook]
    _optimizer_step_post_hooks: dict[int, Hook]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Hook]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "step" in vars(cls):
            cls.step = _with_hooks(cls.step)

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise ArgumentError(
                f"{type(self).__name__}(params): an iterable of tensors or dicts is needed, got "
                "one tensor; write [tensor]"
            )
        self.defaults = defaults
        self._make_hooks()
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueRangeError(f"{type(self).__name__}(params): the list of parameters is empty")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        for name in _HOOKS:
            vars(self).setdefault(name, OrderedDict())

    def __getattr__(self, name: str) -> Any:
        """What a subclass lacks that never calls this `__init__`: one that wraps another."""
        made = _LATE.get(name)
        if made is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return vars(self).setdefault(name, made())

    # -- copies --------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:  # saved by a version that did not have an option yet
            for name, default in _options(type(self)).items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- steps ---------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; `closure` computes the loss anew and returns it."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                    continue
                if p.grad.grad_fn is None:
                    p.grad.requires_grad_(False)
                else:
                    p.grad.detach_()
                p.grad.zero_()

    # -- groups --------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, with options of its own if it has any.

        >>> import adjoint as ad
        >>> x, y = ad.ones(2, requires_grad=True), ad.ones(3, requires_grad=True)
        >>> optimizer = ad.optim.SGD([x], lr=0.1)
        >>> optimizer.add_param_group({"params": y, "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        what = f"{type(self).__name__}.add_param_group"
        if not isinstance(param_group, dict):
            raise ArgumentError(f"{what}: a dict is needed, got {type(param_group).__name__}")
        names, tensors = _named(what, param_group["params"])
        param_group["params"] = tensors
        if names:
            param_group["param_names"] = names
        for tensor in tensors:
            self._check_param(what, tensor)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueRangeError(f"{what}: the group does not give {name}, which is required")
            param_group.setdefault(name, default)
        self._check_apart(what, param_group)
        self.param_groups.append(param_group)

    def _check_param(self, what: str, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"{what}: parameters are tensors, got {type(tensor).__name__}")
        leaf = tensor.is_leaf or tensor.retains_grad
        if not self.defaults.get("differentiable") and not leaf:
            raise ValueRangeError(
                f"{what}: a parameter is the result of an operator, which no step can change; "
                "detach() it, or use differentiable=True"
            )

    def _check_apart(self, what: str, new: dict[str, Any]) -> None:
        """Each parameter stands once in one group, and all groups have names or none has."""
        if len(set(new["params"])) < len(new["params"]):
            warnings.warn(f"{what}: a parameter stands in the group more than once", stacklevel=4)
        for group in self.param_groups:
            if ("param_names" in group) != ("param_names" in new):
                raise ValueRangeError(f"{what}: either all groups have names of parameters or none")
            if not set(group["params"]).isdisjoint(new["params"]):
                raise ValueRangeError(f"{what}: a parameter stands in another group already")

    # -- state dicts ---------------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """Return the state by numbers of parameters, and the groups with these numbers.

        >>> import adjoint as ad
        >>> ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=0.1).state_dict()["state"]
        {}
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        start = 0
        groups = []
        for group in self.param_groups:
            for number, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), number)
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
            start += len(group["params"])
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        found: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over the state and the groups' options of a state dict, parameter by parameter in
        order. Floating-point state takes the dtype of its parameter; `step` keeps its own.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = self.param_groups
        saved = deepcopy(state_dict["param_groups"])
        sizes = [len(group["params"]) for group in groups]
        if sizes != [len(group["params"]) for group in saved]:
            raise ValueRangeError(
                f"load_state_dict: the optimiser has groups of {sizes} parameters, the state dict "
                f"of {[len(group['params']) for group in saved]}"
            )
        options: dict[Any, Any] = {}  # of each saved number: the parameter and its group
        for group, new in zip(groups, saved, strict=True):
            for number, p in zip(new["params"], group["params"], strict=True):
                options[number] = (p, new)
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in options:
                p, group = options[key]
                state[p] = _fitted(p, value, group)
            else:
                state[key] = value
        for group, new in zip(groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # -- hooks ---------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other arguments."""
        return Handle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return Handle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before a state dict is made."""
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` on each state dict; a result replaces it."""
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` before one is loaded; a result replaces it."""
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after a state dict was loaded."""
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _registered(hooks: OrderedDict[int, Hook], hook: Hook, first: bool) -> Handle:
    handle = Handle(hooks, hook)
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step` between the hooks that were registered for it."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if type(self).step is not hooked:  # called by the step of a subclass: hooks ran already
            return step(self, *args, **kwargs)
        return between_hooks(self, step, (self, *args), kwargs)

    return hooked


def between_hooks(optimizer: Optimizer, step: Hook, args: Any, kwargs: Any) -> Any:
    """Call `step` between the hooks of an optimiser; those before it may change the arguments."""
    for hook in chain(_global_pre_hooks.values(), optimizer._optimizer_step_pre_hooks.values()):
        changed = hook(optimizer, args, kwargs)
        if changed is not None:
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(
                    f"a hook before step must return None or (args, kwargs), got {changed!r}"
                )
            args, kwargs = changed
    found = step(*args, **kwargs)
    optimizer._opt_called = True  # schedulers warn if they step first
    for hook in chain(optimizer._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
        hook(optimizer, args, kwargs)
    return found


@functools.lru_cache(maxsize=64)
def _options(kind: type) -> dict[str, Any]:
    """The options of an optimiser with their defaults, as its signature has them."""
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _named(what: str, params: Any) -> tuple[list[str], list[Any]]:
    """Names and tensors of a group; no names if none are given."""
    if isinstance(params, Tensor):
        params = [params]
    if isinstance(params, set):
        raise ArgumentError(f"{what}: parameters need an order, got a set; use a list")
    params = list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    if names and len(names) < len(params):
        raise ValueRangeError(f"{what}: either all parameters have names or none")
    return names, [p[1] if isinstance(p, tuple) else p for p in params]


def _fitted(p: Tensor, value: Any, group: dict[str, Any], key: Any = None) -> Any:
    """A value of a state dict as state of the parameter: in its dtype, containers copied."""
    if isinstance(value, Tensor):
        if key == "step":
            on_device = group.get("capturable") or group.get("fused")
            return value.to(dtype=float32) if on_device else value
        return value.to(dtype=p.dtype) if p.is_floating_point() else value
    if isinstance(value, dict):
        return {k: _fitted(p, v, group, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        fitted: Any = type(value)
        return fitted(_fitted(p, v, group) for v in value)
    return value
