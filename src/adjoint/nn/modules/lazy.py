"""Modules that learn the shapes of their parameters from the first input."""

from __future__ import annotations

import itertools
from typing import Any

from adjoint.core.errors import MissingRule
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import NoShapeYet, is_lazy
from adjoint.tensor.nodes import Handle

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """The base of lazy modules, beside the module that they become.

    A lazy module holds uninitialized parameters and writes `initialize_parameters(*args)`, which
    gives them shapes when the module is called first. It is of the class `cls_to_become` then.

    >>> import adjoint as ad
    >>> class Scale(ad.nn.Module):
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> class LazyScale(ad.nn.LazyModuleMixin, Scale):
    ...     cls_to_become = Scale
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = ad.nn.UninitializedParameter()
    ...     def initialize_parameters(self, x):
    ...         self.factor.materialize(x.shape[-1:])
    ...         ad.nn.init.ones_(self.factor)
    >>> scale = LazyScale()
    >>> scale(ad.ones(2, 3)).shape, type(scale).__name__
    ((2, 3), 'Scale')
    """

    cls_to_become: type[Module] | None = None
    _load_hook: Handle
    _initialize_hook: Handle

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes from the arguments of forward; every class writes it."""
        raise MissingRule(
            f"{type(self).__name__} has no initialize_parameters(*args): a lazy module needs it"
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer of this module has no shape yet."""
        members = itertools.chain(self._parameters.values(), self._buffers.values())
        return any(is_lazy(member) for member in members)

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        """Take the shapes of what is loaded."""
        for name, member in itertools.chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(member) and given is not None and not is_lazy(given):
                member.materialize(given.shape)

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """Before the first forward: initialize, and become an ordinary module."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise NoShapeYet(
                f"{type(module).__name__}.initialize_parameters left a parameter without a shape"
            )
        for name in ("_initialize_hook", "_load_hook"):
            getattr(module, name).remove()
            delattr(module, name)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
