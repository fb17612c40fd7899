"""Transforms made of transforms: one after the other, side by side, over more dimensions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.shapes import Shape
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.transforms.base import Transform, independent
from adjoint.distributions.utils import sum_rightmost
from adjoint.tensor.tensor import Tensor


class ComposeTransform(Transform):
    """Transforms one after the other, the first of the list first.

    >>> import adjoint as ad
    >>> from adjoint.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])(ad.tensor(0.5))
    tensor(2.7183)
    """

    parameters = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)
        super().__init__(cache_size)

    @property
    def domain(self) -> Constraint:
        return _outermost([(p.codomain, p.domain) for p in reversed(self.parts)])

    @property
    def codomain(self) -> Constraint:
        return _outermost([(p.domain, p.codomain) for p in self.parts])

    @property
    def bijective(self) -> bool:
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        sign = 1
        for p in self.parts:
            sign = sign * p.sign
        return sign

    @property
    def inv(self) -> Transform:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = lambda: self  # holds this one alive, as an inverse does
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        same = self._cache_size == cache_size
        return self if same else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the parts, each over the dimensions of an event of the whole."""
        if not self.parts:
            return ops.zeros_like(x)
        event_dim = self.domain.event_dim
        total: Any = 0
        for position, part in enumerate(self.parts):
            after = y if position == len(self.parts) - 1 else part(x)
            term = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(term, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(p) for p in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


def _outermost(ends: Sequence[tuple[Constraint, Constraint]]) -> Constraint:
    """The constraint at the far end of a chain of (near, far) constraints.

    An event there has as many dimensions as the widest part needs, carried through the chain.
    """
    if not ends:
        return constraints.real
    event_dim = ends[0][0].event_dim
    for near, far in ends:
        event_dim = max(event_dim, near.event_dim) + far.event_dim - near.event_dim
    return independent(ends[-1][1], event_dim - ends[-1][1].event_dim)


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of events with some more dimensions; its log-determinant is summed over them.

    >>> import adjoint as ad
    >>> from adjoint.distributions import ExpTransform, IndependentTransform
    >>> each = IndependentTransform(ExpTransform(), 1)
    >>> each.log_abs_det_jacobian(ad.ones(2, 3), ad.ones(2, 3))
    tensor([3., 3.])
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @property
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        self._check(x, self.domain)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        self._check(y, self.codomain)
        return self.base_transform.inv(y)

    def _check(self, value: Tensor, constraint: Constraint) -> None:
        if value.ndim < constraint.event_dim:
            raise ShapeError(
                f"{self!r}: an event has {constraint.event_dim} dimensions, "
                f"the value has {value.ndim}"
            )

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(each, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _SideBySide(Transform):
    """One transform for each piece of a tensor along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise ArgumentError(f"{type(self).__name__}: not all of {tseq!r} are transforms")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        new: Any = super().with_cache(cache_size)
        new.transforms = [t.with_cache(cache_size) for t in self.transforms]
        return new

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _pieces(self, value: Tensor) -> Any:
        raise NotImplementedError

    def _joined(self, pieces: list[Tensor], dim: int) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        pieces = zip(self.transforms, self._pieces(x), strict=True)
        return self._joined([t(piece) for t, piece in pieces], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = zip(self.transforms, self._pieces(y), strict=True)
        return self._joined([t.inv(piece) for t, piece in pieces], self.dim)


class CatTransform(_SideBySide):
    """Transforms of pieces of given lengths along `dim`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import CatTransform, ExpTransform, TanhTransform
    >>> CatTransform([ExpTransform(), TanhTransform()], lengths=[1, 2])(ad.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ArgumentError(
                f"CatTransform: {len(self.transforms)} transforms and {len(self.lengths)} lengths"
            )

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """How many elements all pieces have together."""
        return sum(self.lengths)

    def _pieces(self, value: Tensor) -> Any:
        if not -value.ndim <= self.dim < value.ndim or value.shape[self.dim] != self.length:
            raise ShapeError(
                f"CatTransform: needs {self.length} elements in dimension {self.dim}, "
                f"got shape {tuple(value.shape)}"
            )
        return value.split_with_sizes(self.lengths, self.dim)

    def _joined(self, pieces: list[Tensor], dim: int) -> Tensor:
        return ops.cat(pieces, dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, before, after in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            each = t.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(each, self.event_dim - t.event_dim))
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return self._joined(terms, dim)
        return sum(terms[1:], terms[0])

    @property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_SideBySide):
    """Transforms of slices along `dim`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import ExpTransform, StackTransform, TanhTransform
    >>> StackTransform([ExpTransform(), TanhTransform()])(ad.zeros(2))
    tensor([1., 0.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _pieces(self, value: Tensor) -> Any:
        count = len(self.transforms)
        if not -value.ndim <= self.dim < value.ndim or value.shape[self.dim] != count:
            raise ShapeError(
                f"StackTransform: needs {count} slices in dimension {self.dim}, "
                f"got shape {tuple(value.shape)}"
            )
        return value.unbind(self.dim)

    def _joined(self, pieces: list[Tensor], dim: int) -> Tensor:
        return ops.stack(pieces, dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = [
            t.log_abs_det_jacobian(before, after)
            for t, before, after in zip(
                self.transforms, self._pieces(x), self._pieces(y), strict=True
            )
        ]
        return self._joined(terms, self.dim)

    @property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
