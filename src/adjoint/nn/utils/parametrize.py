"""`ad.nn.utils.parametrize`: parameters that are computed from others.

A parametrized module is of a class of its own, derived from the one it had, where the tensor is a
property: reading it calls the `ParametrizationList` of its name, writing to it runs the right
inverses. So everything that reads `module.weight` sees the computed one, and gradients flow to the
original.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from typing import Any

from adjoint.core.errors import AdjointError, DtypeError, ShapeError
from adjoint.core.shapes import show
from adjoint.nn.modules.containers import ModuleDict, ModuleList
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter, is_parameter
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

# What was computed in this block of `cached()`, by module and name; None outside of one.
_cache: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("_cache", default=None)


class NotParametrizable(AdjointError, RuntimeError, ValueError):
    """A tensor that cannot be parametrized so, or a module that cannot be saved so."""


@contextlib.contextmanager
def cached() -> Generator[None, None, None]:
    """Compute each parametrized tensor once inside the block.

    >>> import adjoint as ad
    >>> with ad.nn.utils.parametrize.cached():
    ...     pass  # net(x): a weight that is used ten times is computed once
    """
    if _cache.get() is not None:  # the outermost block holds what was computed
        yield
        return
    token = _cache.set({})
    try:
        yield
    finally:
        _cache.reset(token)


def _inverse_of(module: Any, value: Any) -> Any:
    """A value before a parametrization; the value itself where that has no inverse."""
    try:
        return module.right_inverse(value) if hasattr(module, "right_inverse") else value
    except NotImplementedError:
        return value


def _check_tensor(what: str, value: Any, like: Tensor) -> None:
    """Raise unless a value is a tensor with the dtype and shape of another one."""
    if not isinstance(value, Tensor):
        raise NotParametrizable(f"{what} must be a tensor, got {type(value).__name__}")
    _check_dtype(what, value, like)
    if value.shape != like.shape:
        raise ShapeError(
            f"{what} has shape {show(value.shape)}, the tensor {show(like.shape)}; unsafe=True "
            "allows it"
        )


def _check_dtype(what: str, value: Any, like: Tensor) -> None:
    if value.device != like.device:
        raise NotParametrizable(f"{what} is on {value.device}, the tensor on {like.device}")
    if value.dtype is not like.dtype:
        raise _OtherDtype(
            f"{what} has dtype {value.dtype.name}, the tensor {like.dtype.name}; unsafe=True "
            "allows it"
        )


class _OtherDtype(DtypeError, ValueError):
    """A parametrization that changes the dtype."""


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in the order in which they are applied.

    It holds the tensor as `original`, or as `original0`, `original1`, … where the inverse of the
    first parametrization gives several.
    """

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise NotParametrizable("a ParametrizationList needs one module at least")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = self._before(original)
        self.is_tensor = isinstance(new, Tensor)
        if not isinstance(new, (Tensor, Sequence)):
            raise NotParametrizable(
                f"right_inverse must return a tensor or several, got {type(new).__name__}"
            )
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            _check_dtype("what right_inverse returned", new, original)
            if new is not original:
                original.data = new.detach()
            _register(self, "original", original)
        else:
            for number, tensor in enumerate(new):
                _register(self, f"original{number}", self._part(tensor, original))
        if not unsafe:
            _check_result(self(), shape, dtype)

    @no_grad()
    def _before(self, value: Any) -> Any:
        """A value before all parametrizations that have an inverse."""
        for module in reversed(self._items()):
            value = _inverse_of(module, value)
        return value

    @staticmethod
    def _part(tensor: Any, original: Any) -> Any:
        if not isinstance(tensor, Tensor):
            raise NotParametrizable(
                f"right_inverse must return tensors, got a {type(tensor).__name__} among them"
            )
        wants = original.requires_grad
        if is_parameter(original):
            return Parameter(tensor.detach(), wants)
        return tensor.detach().requires_grad_(wants)

    def originals(self) -> list[Any]:
        """The tensors from which the parametrized one is computed."""
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Change the originals such that the parametrized tensor becomes `value`."""
        with no_grad():
            for module in reversed(self._items()):
                if not hasattr(module, "right_inverse"):
                    raise NotParametrizable(
                        f"{type(module).__name__} has no right_inverse(value), which assigning to "
                        "a parametrized tensor needs"
                    )
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else value
            if not isinstance(values, Sequence) or len(values) != self.ntensors:
                raise NotParametrizable(f"right_inverse must return {self.ntensors} tensors")
            for given, original in zip(values, self.originals(), strict=True):
                if not isinstance(given, Tensor):
                    raise NotParametrizable(
                        f"right_inverse must return a tensor, got {type(given).__name__}"
                    )
                _check_dtype("what right_inverse returned", given, original)
            for given, original in zip(values, self.originals(), strict=True):
                original.data = given.detach()

    def forward(self) -> Any:
        """Compute the parametrized tensor."""
        first, *others = self._items()
        value = first(*self.originals())
        for module in others:
            value = module(value)
        return value


def _check_result(value: Any, shape: Any, dtype: Any) -> None:
    if not isinstance(value, Tensor):
        raise NotParametrizable(
            f"a parametrization must return a tensor, got {type(value).__name__}"
        )
    if value.dtype is not dtype:
        raise _OtherDtype(
            f"a parametrization may not change the dtype from {dtype.name} to {value.dtype.name}, "
            "unless unsafe=True"
        )
    if value.shape != shape:
        raise ShapeError(
            f"a parametrization may not change the shape from {show(shape)} to "
            f"{show(value.shape)}, unless unsafe=True"
        )


def _register(module: Module, name: str, tensor: Any) -> None:
    if is_parameter(tensor):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _refuse_to_pickle(self: Any) -> Any:
    raise NotParametrizable(
        "a parametrized module is saved by its state_dict(); its class is made at run time and "
        "cannot be pickled"
    )


def _deepcopied(self: Any, memo: dict[int, Any]) -> Any:
    made = self.__new__(type(self))
    memo[id(self)] = made
    made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def _derive_class(module: Any) -> None:
    """Let a module be of a class of its own."""
    kind = type(module)
    namespace: dict[str, Any] = {"__getstate__": _refuse_to_pickle}
    if not hasattr(kind, "__deepcopy__"):
        namespace["__deepcopy__"] = _deepcopied
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), namespace)


def _computed(name: str) -> property:
    """The property of a parametrized tensor."""

    def read(self: Any) -> Any:
        known = _cache.get()
        if known is None:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in known:
            known[key] = self.parametrizations[name]()
        return known[key]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Compute a parameter or buffer of a module from the one that it has now.

    `module.weight` is `parametrization(original)` from now on; another parametrization is applied
    to the result of the first. With a method `right_inverse` the tensor can be assigned to. It may
    not change dtype or shape, unless `unsafe`.

    >>> import adjoint as ad
    >>> class Positive(ad.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = ad.nn.ParameterDict({"weight": ad.zeros(2)})
    >>> _ = ad.nn.utils.parametrize.register_parametrization(layer, "weight", Positive())
    >>> layer.weight.tolist(), [name for name, _ in layer.named_parameters()]
    ([1.0, 1.0], ['parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(getattr(module, tensor_name), parametrization)
        known = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe = known.unsafe or unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise NotParametrizable(
            f"{type(module).__name__} has no parameter, buffer or parametrized tensor "
            f"{tensor_name!r}"
        )
    made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _derive_class(module)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _computed(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def _check_next(before: Any, parametrization: Any) -> None:
    """Raise if a parametrization after others changes the dtype or the shape."""
    after = parametrization(before)
    _check_tensor("what a parametrization returned", after, before)
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(after)
        except NotImplementedError:
            return
        _check_tensor("what right_inverse returned", back, before)


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrized tensor, or one of that name.

    >>> import adjoint as ad
    >>> ad.nn.utils.parametrize.is_parametrized(ad.nn.Linear(2, 3))
    False
    """
    known = getattr(module, "parametrizations", None)
    if not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a tensor an ordinary one again: as it is, or without `leave_parametrized` as before."""
    if not is_parametrized(module, tensor_name):
        raise NotParametrizable(
            f"{type(module).__name__} has no parametrization of {tensor_name!r}"
        )
    known = module.parametrizations[tensor_name]
    if not known.is_tensor and not leave_parametrized:
        raise NotParametrizable(
            f"leave_parametrized=False: {tensor_name!r} is computed from several tensors, so there "
            "is no one to leave"
        )
    with no_grad():
        value = getattr(module, tensor_name) if leave_parametrized else None
    if known.is_tensor:
        original = known.original
        if value is not None:
            original.data = value.detach()
    else:
        wants = any(t.requires_grad for t in known.originals())
        original = Parameter(value) if wants else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """Return the class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Parametrize tensors of a module as those of another one, with the same originals."""
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        if not is_parametrized(from_module, name):
            continue
        known = from_module.parametrizations[name]
        for parametrization in known:
            register_parametrization(to_module, name, parametrization, unsafe=known.unsafe)
        for mine, theirs in zip(
            to_module.parametrizations[name].originals(), known.originals(), strict=True
        ):
            mine.data = theirs.detach()
    return to_module
