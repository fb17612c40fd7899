"""Distributions of one choice among several, or of how often each is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.errors import AdjointError, ShapeError
from adjoint.distributions import constraints, made
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.counts import Binomial
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.probabilities import Either, name_of_given
from adjoint.distributions.utils import broadcast_all as broadcast_all
from adjoint.distributions.utils import tensor_of
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals(), "Categorical")


class Categorical(Either):
    """The number of a choice; `probs` along the last dimension need not sum to 1.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Categorical
    >>> Categorical(ad.tensor([1.0, 3.0])).log_prob(ad.tensor([0, 1])).exp()
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _is_binary = False

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._given = name_of_given(self, probs, logits)
        parameter = tensor_of(logits if probs is None else probs)
        if parameter.ndim < 1:
            raise ShapeError(f"Categorical: `{self._given}` must be at least one-dimensional")
        if probs is None:
            parameter = parameter.log_softmax(-1)
        else:
            parameter = parameter / parameter.sum(-1, True)
        self.__dict__[self._given] = parameter
        super().__init__(parameter.shape[:-1], (), validate_args)

    @property
    def _count(self) -> int:
        """How many choices there are."""
        return self._parameter.shape[-1]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._count - 1)

    @property
    def mean(self) -> Tensor:
        return self._parameter.new_full(self.batch_shape, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.mean

    @property
    def mode(self) -> Tensor:
        return self._parameter.argmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            rows = self.probs.reshape((-1, self._count))
            drawn = ops.multinomial(rows, math.prod(sample_shape), True)
            return drawn.t().reshape(self._extended_shape(sample_shape)).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        place, logits = ops.broadcast_tensors([value.long().unsqueeze(-1), self.logits])
        return logits.gather(-1, place[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        finite = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.arange(self._count), expand=expand)


class OfChoices(Distribution):
    """Vectors with an element for each choice of a categorical distribution, which it holds."""

    arg_constraints: ClassVar[Any] = Categorical.arg_constraints
    _categorical: Categorical

    def _hold(self, validate_args: bool | None, **parameters: Any) -> None:
        self._categorical = Categorical(**parameters)
        shape = self._categorical.param_shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the choices."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    def _in_dtype(self, whole: Tensor) -> Tensor:
        """Whole numbers in the dtype of the parameter."""
        return whole.to(self._categorical._parameter.dtype)


class WholeCount(AdjointError, NotImplementedError):
    """A count that is not one whole number."""


class OfCounts(OfChoices):
    """How often each choice is made."""

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise WholeCount(
                f"{type(self).__name__}: total_count is one whole number, got {total_count!r}"
            )
        self.total_count = total_count
        self._hold(validate_args, probs=probs, logits=logits)

    def _mean_log_factorials(self) -> Tensor:
        """Σᵢ E log xᵢ!; xᵢ alone is binomial."""
        each = Binomial(self.total_count, probs=self.probs, validate_args=False)
        counts = each.enumerate_support(False)[1:]
        return (each.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
