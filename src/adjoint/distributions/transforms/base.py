"""What a transform is: a function with an inverse and a log-determinant, and the inverse of one."""

from __future__ import annotations

import copy
import weakref
from typing import Any

from adjoint.core.errors import AdjointError, ArgumentError, ShapeError
from adjoint.core.shapes import Shape
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.narrow import Holding
from adjoint.tensor.tensor import Tensor


class NotInvertible(AdjointError, NotImplementedError):
    """An inverse, a sign or a log-determinant that a transform does not have."""


class Transform(Holding):
    """A function of events, with `t.inv` and `t.log_abs_det_jacobian(x, y)` where they exist.

    With `cache_size=1` the last pair of input and output is kept: `t.inv(t(x))` is `x` itself.
    A subclass says `domain`, `codomain`, `bijective` and defines `_call`, `_inverse` and
    `log_abs_det_jacobian`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import ExpTransform
    >>> exp = ExpTransform()
    >>> x = ad.tensor([0.0, 1.0])
    >>> exp.inv(exp(x)), exp.log_abs_det_jacobian(x, exp(x))
    (tensor([0.0000, 1.0000]), tensor([0., 1.]))
    """

    bijective: Any = False
    domain: Any  # the constraint on inputs
    codomain: Any  # the constraint on outputs
    parameters: tuple[str, ...] | None = None  # what tells equal transforms; None: identity alone

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError(f"{type(self).__name__}: cache_size is 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._forget()

    def _forget(self) -> None:
        self._inv: Any = None  # a weak reference to the inverse, made when first asked for
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_inv": None, "_cached_x_y": (None, None)}

    def _held(self) -> dict[str, Any]:
        return self.__dict__ | {"_inv": None}

    @property
    def event_dim(self) -> int:
        """How many dimensions an event has, if inputs and outputs agree."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ShapeError(
                f"{self!r}: an event has {self.domain.event_dim} dimensions before and "
                f"{self.codomain.event_dim} after; use domain.event_dim or codomain.event_dim"
            )
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 where the transform increases, -1 where it decreases."""
        raise NotInvertible(f"{type(self).__name__} neither increases nor decreases everywhere")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with another size of cache."""
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        Transform.__init__(new, cache_size)
        return new

    def __eq__(self, other: object) -> bool:
        if self is other or self.parameters is None or type(self) is not type(other):
            return self is other
        return all(_same(getattr(self, p), getattr(other, p)) for p in self.parameters)

    def __hash__(self) -> int:
        return id(self) if self.parameters is None else hash(type(self))

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        if x is x_old:
            return y_old
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        if y is y_old:
            return x_old
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotInvertible(f"{type(self).__name__} has no forward function")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotInvertible(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx|, one number for each event; `y` is the output at `x`."""
        raise NotInvertible(f"{type(self).__name__} has no log-determinant")

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of the output for inputs of a shape."""
        return tuple(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of the input for outputs of a shape."""
        return tuple(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a is b or (a.shape == b.shape and bool((a == b).all()))
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return bool((a == b).all())
    return a == b


class _InverseTransform(Transform):
    """The inverse of a transform: everything with input and output exchanged."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv: Transform = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    _held = __getstate__

    @property
    def domain(self) -> Constraint:
        return self._inv.codomain

    @property
    def codomain(self) -> Constraint:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._inv))

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


def independent(constraint: Constraint, ndims: int) -> Constraint:
    """A constraint on events of `ndims` more dimensions."""
    return constraints.independent(constraint, ndims) if ndims else constraint
