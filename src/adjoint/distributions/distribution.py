"""What a distribution is, and what all of them share: shapes, checks, expansion, text.

Note [What a distribution holds]
A distribution keeps its parameters, and whatever it works out of them, as attributes: tensors and
distributions whose shapes begin with its batch shape. `expand` relies on this and expands each of
them, so that no distribution defines it; `_unexpanded` names the exceptions. Whatever else it holds
(a whole number, a list of transforms) belongs to all of the batch and is handed on as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any, ClassVar, Self

from adjoint import ops
from adjoint.core.devices import CPU
from adjoint.core.errors import AdjointError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, Size, broadcast, show
from adjoint.core.source_lines import warn
from adjoint.distributions import constraints
from adjoint.distributions.narrow import Holding, rounded_once
from adjoint.distributions.utils import (
    broadcast_all,
    is_true,
    lazy_property,
    shown,
    tensor_of,
)
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.jacobians import jvp

__all__ = ["Distribution", "ExponentialFamily"]


_ROUNDED_ONCE = frozenset(("log_prob", "cdf", "icdf", "entropy"))  # of halves: narrow.py


class NotDefined(AdjointError, NotImplementedError):
    """Something that a distribution does not have: a mean, an inverse distribution function."""


class _Unstated:
    """A fact that a subclass states: an attribute, or a property, that is missing until then."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        raise NotDefined(f"{owner.__name__} has no {self.name}")


class Distribution(Holding):
    """Base of all distributions: `batch_shape` independent ones, each of events of `event_shape`.

    A subclass says `arg_constraints` and `support`, calls `super().__init__` when its parameters
    are set, and defines what it has of `rsample` or `sample`, `log_prob`, `mean`, …

    >>> import adjoint as ad
    >>> from adjoint.distributions import Normal
    >>> d = Normal(ad.zeros(3), 1.0)
    >>> d.batch_shape, d.event_shape, d.sample((2,)).shape, d.expand((4, 3)).batch_shape
    ((3,), (), (2, 3), (4, 3))
    """

    arg_constraints: ClassVar[Any] = _Unstated()  # the constraint on each parameter, by name
    support: Any = _Unstated()  # the constraint that samples satisfy
    has_rsample: Any = False
    has_enumerate_support: Any = False
    _unexpanded: ClassVar[tuple[str, ...]] = ()  # Note [What a distribution holds]
    _validate_args: bool = __debug__

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in _ROUNDED_ONCE & vars(cls).keys():
            setattr(cls, name, rounded_once(vars(cls)[name]))

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions check their arguments unless told otherwise: at first, yes."""
        if value not in (True, False):
            raise ValueRangeError(f"set_default_validate_args: needs True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _hold(self, validate_args: bool | None, **parameters: Any) -> None:
        """Take parameters of single numbers: broadcast together, they have the batch shape."""
        held = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, held, strict=True))
        Distribution.__init__(self, held[0].shape, (), validate_args)

    # -- checks --------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        for name, constraint in self._stated("arg_constraints", {}).items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (lazy and name not in self.__dict__):
                continue
            value = getattr(self, name)
            if not is_true(constraint.check(value)):
                raise ValueRangeError(
                    f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found "
                    f"invalid values:\n{shown(value)}"
                )

    def _stated(self, name: str, missing: Any) -> Any:
        """A fact that a subclass should state; without it there is less to check, and a warning."""
        try:
            return getattr(self, name)
        except NotImplementedError:
            warn(
                f"{type(self).__name__} does not define `{name}`, so it is not checked; define it "
                "or say validate_args=False",
                UserWarning,
            )
            return missing

    def _checked(self, value: Any) -> Tensor:
        """A value as a tensor, if it is a tensor or an array; checked if wanted."""
        if isinstance(value, Number) and self._validate_args:
            raise ValueRangeError(
                f"{self!r}: a value is a tensor, got {value!r}; use ad.tensor(value)"
            )
        value = tensor_of(value)
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _validate_sample(self, value: Tensor) -> None:
        """Raise unless a value has a fitting shape and lies in the support."""
        event = value.shape[value.ndim - len(self._event_shape) :]
        if value.ndim < len(self._event_shape) or event != self._event_shape:
            raise ShapeError(
                f"{self!r}: events have shape {show(self._event_shape)}, "
                f"but the value has {show(tuple(value.shape))}"
            )
        whole = (*self._batch_shape, *self._event_shape)
        broadcast("Value is not broadcastable with batch_shape+event_shape", value.shape, whole)
        support = self._stated("support", None)
        if support is not None and not is_true(support.check(value)):
            raise ValueRangeError(
                f"Expected value argument (Tensor of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n"
                f"{shown(value)}"
            )

    def _changed(self, originals: Mapping[int, Tensor]) -> dict[str, Any]:
        """A copy in float32 checks what was given: halves add up to 1 only as halves."""
        return {"_validate_sample": lambda v: self._validate_sample(originals.get(id(v), v))}

    # -- shapes --------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters differ."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """The shape of so many samples."""
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return the distribution with a larger batch shape; nothing is copied.

        `_instance` is the object to fill instead of a new one, for subclasses that make their own.
        """
        new = object.__new__(type(self)) if _instance is None else _instance
        shape = Size(batch_shape)
        for name, value in vars(self).items():
            if name not in self._unexpanded:
                value = self._expanded(name, value, shape)
            new.__dict__[name] = value
        new._batch_shape = shape
        return new

    def _expanded(self, name: str, value: Any, batch_shape: Shape) -> Any:
        if isinstance(value, Distribution):
            own = value.batch_shape
        elif isinstance(value, Tensor):
            own = tuple(value.shape)
        else:
            return value
        count = len(self._batch_shape)
        if own[:count] != self._batch_shape:
            raise NotDefined(
                f"{type(self).__name__}.expand: {name} has shape {show(own)}, which does not begin "
                f"with the batch shape {show(self._batch_shape)}; define expand"
            )
        return value.expand((*batch_shape, *own[count:]))

    # -- what subclasses define ----------------------------------------------------------------

    def _missing(self, what: str) -> NotDefined:
        return NotDefined(f"{type(self).__name__} has no {what}")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise self._missing("mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise self._missing("mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples, which are constants to derivatives."""
        with no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples that move with the parameters: derivatives go through them."""
        raise self._missing("rsample")

    def sample_n(self, n: int) -> Tensor:
        """Draw `n` samples. Deprecated: use sample((n,))."""
        warnings.warn("sample_n(n) is deprecated; use sample((n,))", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of each event."""
        raise self._missing("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The distribution function: the probability of at most `value`."""
        raise self._missing("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of the distribution function: quantiles."""
        raise self._missing("icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension.

        With `expand=False` the batch dimensions have size 1.
        """
        raise self._missing("enumerate_support")

    def _enumerated(self, values: Tensor, *, expand: bool) -> Tensor:
        """Values along the first dimension, for each of the batch."""
        event = values.shape[1:]
        values = values.reshape((-1, *(1,) * len(self._batch_shape), *event))
        return values.expand((-1, *self._batch_shape, *event)) if expand else values

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def __repr__(self) -> str:
        held = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        texts = (
            f"{name}: {shown(value) if value.numel() == 1 else value.size()}"
            for name, value in held.items()
        )
        return f"{type(self).__name__}({', '.join(texts)})"


class Located(Distribution):
    """A distribution with its mode at `loc`, and its mean unless a subclass defines another."""

    loc: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class ExponentialFamily(Distribution):
    """Densities h(x) exp(⟨η, T(x)⟩ - A(η)), with natural parameters η and log-normaliser A.

    A subclass gives `_natural_params` (a tuple), `_log_normalizer(*η)` and
    `_mean_carrier_measure` (E log h). Entropy, and the divergence of two members, follow.

    >>> from adjoint.distributions import Exponential
    >>> Exponential(1.0).entropy()
    tensor(1.)
    """

    _natural_params: Any = _Unstated()
    _log_normalizer: Any = _Unstated()
    _mean_carrier_measure: Any = _Unstated()

    def entropy(self) -> Tensor:
        """A(η) - ⟨η, ∇A(η)⟩ - E log h; the inner product is the derivative of A along η."""
        natural = self._natural_params
        value, along = jvp(self._log_normalizer, natural, natural)
        return value - along - self._mean_carrier_measure


def noise_like(parameter: Tensor, shape: Shape) -> Tensor:
    """Standard normal numbers in the dtype of a parameter."""
    return ops.randn(shape, **_place_of(parameter))


def uniform_like(parameter: Tensor, shape: Shape) -> Tensor:
    """Uniform numbers 0 ≤ u < 1 in the dtype of a parameter."""
    return ops.rand(shape, **_place_of(parameter))


def _place_of(parameter: Tensor) -> dict[str, Any]:
    """The dtype of a parameter, and its device if that is another than ours: asking takes time."""
    dtype, device = parameter.dtype, parameter.device
    return {"dtype": dtype} if device == CPU else {"dtype": dtype, "device": device}
