"""`ad.nn.utils.prune`: parameters of which some elements are 0 and stay so.

A pruned parameter `weight` becomes the parameter `weight_orig`, the buffer `weight_mask` and the
attribute `weight`, their product, computed by a hook before each forward. Pruning again refines the
mask: the hook is then a `PruningContainer` of all methods.
"""

from __future__ import annotations

import abc
import numbers
from collections.abc import Iterable, Iterator
from typing import Any

from adjoint import ops
from adjoint.core.errors import (
    AdjointError,
    ArgumentError,
    DimensionError,
    ShapeError,
    ValueRangeError,
)
from adjoint.core.shapes import show
from adjoint.nn.modules.hooks import hooks_before
from adjoint.tensor.tensor import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class NotPruned(AdjointError, AssertionError):
    """A method that was not applied, or scores that do not fit the parameter."""


class BasePruningMethod(abc.ABC):
    """The base of pruning methods: write `compute_mask`, and say what `PRUNING_TYPE` it is.

    'unstructured' methods see the elements that are left, 'structured' ones the channels that are
    left along `dim`, 'global' ones everything.
    """

    PRUNING_TYPE: str
    _tensor_name: str | None = None  # of the parameter; set by apply()

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._name(), self.apply_mask(module))

    def _name(self) -> str:
        if self._tensor_name is None:
            raise NotPruned(f"{type(self).__name__} was not applied to a module")
        return self._tensor_name

    @abc.abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask of 0 and 1 for scores `t`, given the mask that holds now."""

    def apply_mask(self, module: Any) -> Tensor:
        """Return the parameter of a module with its mask."""
        name = self._name()
        original = getattr(module, f"{name}_orig")
        return getattr(module, f"{name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter, and keep it pruned by a hook, which is returned.

        `importance_scores` take the place of the parameter's values.
        """
        tensor = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != tensor.shape:
            raise NotPruned(
                f"importance_scores have shape {show(importance_scores.shape)}, the parameter "
                f"{show(tensor.shape)}"
            )
        method = cls(*args, **kwargs)
        method._tensor_name = name
        number = _hook_number(module, name)
        before = None if number is None else module._forward_pre_hooks[number]
        if before is None:
            mask = ops.ones_like(tensor).detach()
        else:
            mask = getattr(module, f"{name}_mask").detach().clone()
            method = _joined(before, method)
        scores = tensor if importance_scores is None else importance_scores
        mask = method.compute_mask(scores.detach(), mask)
        if number is not None:
            del module._forward_pre_hooks[number]
        else:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", tensor)
        module.register_buffer(f"{name}_mask", mask)
        method(module, None)
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Any = None
    ) -> Tensor:
        """Return a tensor with its mask, without a module.

        >>> import adjoint as ad
        >>> ad.nn.utils.prune.L1Unstructured(1).prune(ad.tensor([3.0, -1.0, 2.0]))
        tensor([3., -0., 2.])
        """
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise NotPruned(
                f"importance_scores have shape {show(importance_scores.shape)}, the tensor "
                f"{show(t.shape)}"
            )
        mask = ops.ones_like(t) if default_mask is None else default_mask
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Any) -> None:
        """Make the pruned parameter an ordinary one, with zeros; the hook is not removed here.

        >>> import adjoint as ad
        >>> layer = ad.nn.utils.prune.identity(ad.nn.Linear(2, 1), "weight")
        >>> ad.nn.utils.prune.is_pruned(ad.nn.utils.prune.remove(layer, "weight"))
        False
        """
        name = self._name()
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[f"{name}_orig"]
        original.data = weight.detach()
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _hook_number(module: Any, name: str) -> int | None:
    """The number of the hook that prunes a parameter, or None."""
    for number, hook in hooks_before(module).items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number
    return None


def _joined(before: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
    """A container of the methods so far and one more."""
    container = before if isinstance(before, PruningContainer) else PruningContainer(before)
    joined = PruningContainer(*container)
    joined.add_pruning_method(method)
    return joined


class PruningContainer(BasePruningMethod):
    """Several methods that prune one parameter, one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if methods:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise ArgumentError(f"{type(method).__name__} is not a BasePruningMethod")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueRangeError(
                f"the container prunes {self._tensor_name!r}, the method {method._tensor_name!r}"
            )
        self._pruning_methods += (method,)  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Refine the mask by the last method, where the mask is not 0 yet."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        left = _left(method, mask)
        refined = mask.clone()
        refined[left] = method.compute_mask(t[left], mask[left]).to(t.dtype)
        return refined


def _left(method: Any, mask: Tensor) -> Any:
    """The index of what a method may prune further."""
    kind = method.PRUNING_TYPE
    if kind == "global":
        return (slice(None),) * mask.ndim
    if kind == "unstructured":
        return mask == 1
    if kind != "structured":
        raise ValueRangeError(f"PRUNING_TYPE {kind!r} is not unstructured, structured or global")
    if not hasattr(method, "dim"):
        raise AttributeError("a structured pruning method has an attribute dim")
    _validate_pruning_dim(mask, method.dim)
    dim = method.dim % mask.ndim
    kept = mask.sum([d for d in range(mask.ndim) if d != dim]) != 0
    return tuple(kept if d == dim else slice(None) for d in range(mask.ndim))


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask that holds now."""
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        """As `identity`."""
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: `amount` of them, or that fraction."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Draw what is pruned."""
        return _without_smallest(ops.rand_like(t), self.amount, default_mask)

    @classmethod
    def apply(cls, module: Any, name: str, amount: float) -> Any:  # type: ignore[override]
        """As `random_unstructured`."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least magnitude: `amount` of them, or that fraction."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Leave out the least magnitudes."""
        return _without_smallest(t.abs(), self.amount, default_mask)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: float, importance_scores: Any = None
    ) -> Any:
        """As `l1_unstructured`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _without_smallest(scores: Tensor, amount: float, default_mask: Tensor) -> Tensor:
    """The mask, with 0 where the scores are least."""
    count = _compute_nparams_toprune(amount, scores.numel())
    _validate_pruning_amount(count, scores.numel())
    mask = default_mask.clone().contiguous()
    if count:
        least = ops.topk(scores.reshape(-1), count, largest=False)[1]
        mask.view(-1)[least] = 0
    return mask


class _Structured(BasePruningMethod):
    """What methods that prune whole channels along `dim` share."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Leave out the channels of least score."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        channels = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, channels)
        _validate_pruning_amount(count, channels)
        if not count:
            return default_mask
        kept = ops.topk(self.scores(t), channels - count)[1]
        mask = ops.zeros_like(t)
        mask.transpose(0, self.dim)[kept] = 1
        return mask * default_mask.to(mask.dtype)

    @abc.abstractmethod
    def scores(self, t: Tensor) -> Tensor:
        """A number for each channel; the least are pruned."""


class RandomStructured(_Structured):
    """Prunes channels along a dimension at random: `amount` of them, or that fraction."""

    def scores(self, t: Tensor) -> Tensor:
        """Draw a number for each channel."""
        return ops.rand([t.shape[self.dim]])

    @classmethod
    def apply(cls, module: Any, name: str, amount: float, dim: int = -1) -> Any:  # type: ignore[override]
        """As `random_structured`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes channels along a dimension that have the least norm of order `n`."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        """The norm of each channel."""
        return _compute_norm(t, self.n, self.dim)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Any,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Any = None,
    ) -> Any:
        """As `ln_structured`."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks."""
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        """As `custom_from_mask`."""
        return super().apply(module, name, mask=mask)


# --- functions ----------------------------------------------------------------------------------


def identity(module: Any, name: str) -> Any:
    """Prune nothing of a parameter, but make its mask. Return the module, as all functions here.

    >>> import adjoint as ad
    >>> ad.nn.utils.prune.is_pruned(ad.nn.utils.prune.identity(ad.nn.Linear(2, 1), "weight"))
    True
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune elements at random: `amount` of them, or that fraction.

    >>> import adjoint as ad
    >>> layer = ad.nn.utils.prune.random_unstructured(ad.nn.Linear(2, 3), "weight", amount=2)
    >>> int((layer.weight_mask == 0).sum())
    2
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Prune the elements of least magnitude, or of least score.

    >>> import adjoint as ad
    >>> layer = ad.nn.utils.prune.l1_unstructured(ad.nn.Linear(4, 1), "weight", amount=2)
    >>> int((layer.weight == 0).sum())
    2
    """
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune channels along a dimension at random.

    >>> import adjoint as ad
    >>> layer = ad.nn.Linear(4, 2)
    >>> pruned = ad.nn.utils.prune.random_structured(layer, "weight", amount=1, dim=1)
    >>> int((pruned.weight == 0).sum())
    2
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Any:
    """Prune the channels along a dimension that have the least norm of order `n`.

    >>> import adjoint as ad
    >>> layer = ad.nn.Linear(2, 3)
    >>> _ = ad.nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    >>> int((layer.weight_mask.sum(1) == 0).sum())
    1
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune what a mask of 0 and 1 says.

    >>> import adjoint as ad
    >>> mask = ad.tensor([[1.0, 0.0]])
    >>> layer = ad.nn.utils.prune.custom_from_mask(ad.nn.Linear(2, 1), "weight", mask)
    >>> bool(layer.weight[0, 1] == 0)
    True
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters, given as (module, name), as if they were one.

    >>> import adjoint as ad
    >>> layers = [ad.nn.Linear(2, 2) for _ in range(2)]
    >>> prune = ad.nn.utils.prune
    >>> named = [(layer, "weight") for layer in layers]
    >>> prune.global_unstructured(named, prune.L1Unstructured, amount=3)
    >>> sum(int((layer.weight_mask == 0).sum()) for layer in layers)
    3
    """
    if not isinstance(parameters, Iterable):
        raise ArgumentError(
            f"global_unstructured: needs pairs of a module and a name, got "
            f"{type(parameters).__name__}"
        )
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise ArgumentError(
            f"global_unstructured: importance_scores is a dict, got {type(scores).__name__}"
        )
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise ArgumentError(
            f"global_unstructured: {pruning_method.__name__} is {method.PRUNING_TYPE}; only "
            "unstructured methods can be applied to several parameters as one"
        )
    pairs = list(parameters)
    tensors: list[Any] = [getattr(module, name) for module, name in pairs]
    given: dict[Any, Any] = scores
    found = [given.get(pair, t).detach() for pair, t in zip(pairs, tensors, strict=True)]
    masks = [
        getattr(module, f"{name}_mask", ops.ones_like(tensor)).detach()
        for (module, name), tensor in zip(pairs, tensors, strict=True)
    ]
    container = PruningContainer(method)
    joined = container.compute_mask(
        ops.cat([t.reshape(-1) for t in found]), ops.cat([m.reshape(-1) for m in masks])
    )
    start = 0
    for (module, name), tensor in zip(pairs, tensors, strict=True):
        stop = start + tensor.numel()
        custom_from_mask(module, name, joined[start:stop].reshape(tensor.shape))
        start = stop


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter an ordinary one, with zeros that may change again."""
    number = _hook_number(module, name)
    if number is None:
        raise ValueRangeError(f"remove: the parameter {name!r} of {module} is not pruned")
    module._forward_pre_hooks.pop(number).remove(module)
    return module


def is_pruned(module: Any) -> bool:
    """Whether a module, or one below it, has pruned parameters.

    >>> import adjoint as ad
    >>> ad.nn.utils.prune.is_pruned(ad.nn.Linear(2, 1))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in hooks_before(each).values()
    )


# --- checks -------------------------------------------------------------------------------------


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise ArgumentError(f"amount: a number of elements or a fraction, got {amount!r}")
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueRangeError(f"amount: a count or a fraction from 0 to 1, got {amount}")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueRangeError(f"amount: {amount} of {tensor_size} cannot be pruned")


def _validate_structured_pruning(t: Tensor) -> None:
    if t.ndim <= 1:
        raise ShapeError(
            f"structured pruning needs 2 or more dimensions, got {show(t.shape)}; prune a vector "
            "by an unstructured method"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if not -t.ndim <= dim < t.ndim:
        raise DimensionError(f"dim={dim} of a tensor of {t.ndim} dimensions")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many are pruned."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The norm of order n of each channel along a dimension."""
    dims = [d for d in range(t.ndim) if d != dim % t.ndim]
    return ops.norm(t, p=n, dim=dims) if isinstance(n, str) else ops.linalg_vector_norm(t, n, dims)
