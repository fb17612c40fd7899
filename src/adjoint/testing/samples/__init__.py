"""Sample inputs of operators, for the laws: `Sample`, `sampler`, and the samples of a row.

`samples/<family>.py` holds the samplers of a family; pointwise rows have samples of their own
(`automatic`), placed by the row's `domain`, and a row that calls another operator has samples of
that one (`derived`). Users register theirs in the same way:

    @sampler("my_solve", reference=lambda A, b: np.linalg.solve(A, b))
    def systems(make):
        yield Sample(make(3, 3), make(3), name="plain")

A sampler is run once for each dtype. Values depend on the operator and on the draws since the last
`yield` alone, so a sample keeps its values when others are added around it.
"""

from __future__ import annotations

import pkgutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.dtypes import DType
from adjoint.core.errors import TableError
from adjoint.core.importing import imported
from adjoint.core.records import record
from adjoint.table import FAMILIES
from adjoint.table.rows import Row
from adjoint.testing import references
from adjoint.testing.samples import automatic, backwards, derived
from adjoint.testing.samples.arguments import Made, brief, made, whole

Array = np.ndarray[Any, Any]


class Sample:
    """The arguments of one call of an operator, in the order of its schema, and a name.

    `kink=True` marks a point where the operator has no derivative (a tie, |x| at 0): the choice
    made there must agree between the modes, but finite differences say nothing about it.
    `order=1` says that the second derivative does not exist there, or is not defined.
    """

    __slots__ = ("args", "kink", "kwargs", "name", "order")

    def __init__(
        self, /, *args: Any, name: str = "", kink: bool = False, order: int = 2, **kwargs: Any
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.name = name
        self.kink = kink
        self.order = order

    def __repr__(self) -> str:
        shown = [brief(a) for a in self.args] + [f"{k}={brief(v)}" for k, v in self.kwargs.items()]
        return f"({', '.join(shown)})"


def densely(value: Any) -> Any:
    """Results as laws compare them: sparse tensors as dense ones, nested ones as components."""
    if isinstance(value, ad.Tensor) and value.is_nested:
        return list(value.unbind())
    if isinstance(value, ad.Tensor):
        return value if value.layout is ad.strided else value.to_dense()
    if isinstance(value, list | tuple):
        return [densely(v) for v in value]
    return value


class Make:
    """Makes the tensors of samples: random ones of the dtype under test, which require grad."""

    def __init__(self, dtype: DType, operator: str, seed: int = 0) -> None:
        self.dtype = dtype
        self.is_complex = dtype.is_complex
        self._seed = zlib.crc32(operator.encode()) + seed
        self.restart()

    def restart(self) -> None:
        """Start the random numbers of this operator again; done between samples."""
        self._generator = np.random.default_rng(self._seed)

    def __call__(self, *shape: int) -> ad.Tensor:
        """Values of both signs between 0.1 and 2 in modulus (integers: -5 to 5)."""
        if not self.dtype.is_differentiable:
            return self.like(self._generator.integers(-5, 6, shape))
        sizes = self._generator.uniform(0.1, 2.0, shape)
        return self.like(sizes * self._sign(shape))

    def positive(self, *shape: int) -> ad.Tensor:
        """Values between 0.1 and 2; complex ones with such a modulus and any direction."""
        sizes = self._generator.uniform(0.1, 2.0, shape)
        return self.like(sizes * self._sign(shape) if self.is_complex else sizes)

    def unit(self, *shape: int) -> ad.Tensor:
        """Values inside (-0.9, 0.9), or the disc of that radius."""
        sizes = self._generator.uniform(0.05, 0.9, shape)
        return self.like(sizes * self._sign(shape))

    def above_one(self, *shape: int) -> ad.Tensor:
        """Values between 1.1 and 3; complex ones with such a modulus."""
        sizes = self._generator.uniform(1.1, 3.0, shape)
        return self.like(sizes * self._sign(shape) if self.is_complex else sizes)

    def probability(self, *shape: int) -> ad.Tensor:
        """Values between 0.05 and 0.95."""
        return self.like(self._generator.uniform(0.05, 0.95, shape))

    def uniform(self, low: float, high: float, *shape: int) -> ad.Tensor:
        """Real values between `low` and `high`."""
        return self.like(self._generator.uniform(low, high, shape))

    def distinct(self, *shape: int) -> ad.Tensor:
        """Values of which no two are near each other: for sorting, extrema and medians."""
        count = int(np.prod(shape, dtype=int))
        ladder = np.arange(count) - (count - 1) / 2 + self._generator.uniform(-0.3, 0.3, count)
        return self.like(0.4 * self._generator.permutation(ladder).reshape(shape))

    def index(self, high: int, *shape: int) -> ad.Tensor:
        """Indices from 0 to `high` - 1, int64."""
        return ad.from_numpy(np.asarray(self._generator.integers(0, high, shape)))

    def permutation(self, count: int) -> ad.Tensor:
        """The numbers from 0 to `count` - 1 in random order, int64."""
        return ad.from_numpy(self._generator.permutation(count))

    def bool(self, *shape: int) -> ad.Tensor:
        """True and False."""
        return ad.from_numpy(np.asarray(self._generator.integers(0, 2, shape)).astype(np.bool_))

    def like(self, values: Any) -> ad.Tensor:
        """These values, in the dtype under test."""
        array = np.array(values)
        if array.dtype.kind == "c" and not self.is_complex:
            array = np.real(array)
        tensor = ad.from_numpy(np.array(array.astype(self.dtype.np)))
        return tensor.requires_grad_() if self.dtype.is_differentiable else tensor

    def real(self, tensor: ad.Tensor) -> ad.Tensor:
        """The real part of a tensor as a leaf of its own."""
        array = np.real(tensor.detach().numpy())
        return ad.from_numpy(np.array(array)).requires_grad_()

    def hermitian(self, *shape: int) -> ad.Tensor:
        """Hermitian matrices with eigenvalues that are far apart."""
        *batch, n, _ = shape
        q = np.linalg.qr(self._complex_or_real((*batch, n, n)))[0]
        w = np.linspace(-1.5, 2.0, n) if n else np.zeros(0)
        return self.like((q * w) @ np.conj(np.swapaxes(q, -1, -2)))

    def positive_definite(self, *shape: int) -> ad.Tensor:
        """Hermitian matrices with eigenvalues from 0.5 to 2.5."""
        *batch, n, _ = shape
        q = np.linalg.qr(self._complex_or_real((*batch, n, n)))[0]
        w = np.linspace(0.5, 2.5, n) if n else np.zeros(0)
        return self.like((q * w) @ np.conj(np.swapaxes(q, -1, -2)))

    def invertible(self, *shape: int) -> ad.Tensor:
        """Matrices with singular values from 0.5 to 2.5; any shape, far from rank deficiency."""
        *batch, m, n = shape
        k = min(m, n)
        u = np.linalg.qr(self._complex_or_real((*batch, m, k)))[0]
        v = np.linalg.qr(self._complex_or_real((*batch, n, k)))[0]
        s = np.linspace(0.5, 2.5, k) if k else np.zeros(0)
        return self.like((u * s) @ np.conj(np.swapaxes(v, -1, -2)))

    def _complex_or_real(self, shape: Iterable[int]) -> Array:
        values = self._generator.standard_normal(tuple(shape))
        if self.is_complex:
            values = values + 1j * self._generator.standard_normal(tuple(shape))
        return values

    def _sign(self, shape: tuple[int, ...]) -> Array:
        if self.is_complex:
            return np.exp(2j * np.pi * self._generator.uniform(0, 1, shape))
        return np.where(self._generator.uniform(0, 1, shape) < 0.5, -1.0, 1.0)


@record
class Sampler:
    """A function that yields samples, and the operators it serves."""

    function: Callable[[Make], Iterator[Sample]]
    reference: Callable[..., Any] | None  # arrays in, arrays out: the value by other means
    real: bool  # whether it has no samples of complex numbers


_SAMPLERS: dict[str, list[Sampler]] = {}

SamplerFunction = Callable[[Any], Iterator[Sample]]


def sampler(
    *operators: str, reference: Callable[..., Any] | None = None, real: bool = False
) -> Callable[[SamplerFunction], SamplerFunction]:
    """Register a function that yields samples for `operators` ("sum.dim_IntList", "mm").

    `reference` computes the value from NumPy arrays, with the arguments of the operator; give it
    only where it is independent of the operator's own kernel. `real=True` says that the operators
    take no complex numbers.
    """

    def register(function: SamplerFunction) -> SamplerFunction:
        for name in operators:
            _SAMPLERS.setdefault(_full_name(name), []).append(Sampler(function, reference, real))
        return function

    return register


def _full_name(name: str) -> str:
    return name.removesuffix(".default")


@cache
def load() -> None:
    """Import the samplers of every family that has some."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in ("arguments", "automatic", "backwards", "derived"):
            imported(f"{__name__}.{module.name}")


def registered() -> list[str]:
    """The operators that have samplers."""
    load()
    return list(_SAMPLERS)


def samplers_of(row: Row) -> list[Sampler]:
    """The samplers registered for a row."""
    load()
    return _SAMPLERS.get(_full_name(row.full_name), [])


def for_row(
    row: Row, dtype: DType, seed: int = 0
) -> list[tuple[Sample, Callable[..., Any] | None]]:
    """Return the samples of a row in a dtype, each with its reference; names are made unique."""
    load()
    make = Make(dtype, row.full_name, seed)
    found: list[tuple[Sample, Callable[..., Any] | None]] = []
    known = references.of(row)
    made = automatic.lists if row.maps else automatic.samples
    if row.maps or (row.archetype.promotes and not row.schema.mutates):
        found += [(sample, known) for sample in _run(made(row, make, Sample), make)]
    for entry in samplers_of(row):
        if entry.real and dtype.is_complex:
            continue
        found += [(s, entry.reference or known) for s in _run(entry.function(make), make)]
    for kind in (derived, backwards):
        if not found and row.family in FAMILIES:
            found += kind.samples(row, make, Sample, lambda other: for_row(other, dtype, seed))
    _name_apart([sample for sample, _ in found], row)
    return found


def guesses(row: Row, dtype: DType, seed: int = 0) -> Iterator[Sample]:
    """Samples made from the schema of a row that nobody wrote samples for; some may be refused."""
    make = Make(dtype, row.full_name, seed)
    return _run(automatic.guesses(row, make, Sample), make)


def _run(samples: Iterator[Sample], make: Make) -> Iterator[Sample]:
    make.restart()
    for sample in samples:
        yield sample
        make.restart()


def _name_apart(samples: list[Sample], row: Row) -> None:
    seen: dict[str, int] = {}
    for number, sample in enumerate(samples):
        if not isinstance(sample, Sample):
            raise TableError(f"a sampler of {row.full_name} yields {sample!r}, not a Sample")
        sample.name = (sample.name or f"sample {number}").replace(" ", "_")
        seen[sample.name] = seen.get(sample.name, 0) + 1
        if seen[sample.name] > 1:
            sample.name += f"_{seen[sample.name]}"


__all__ = [
    "Made",
    "Make",
    "Sample",
    "Sampler",
    "densely",
    "for_row",
    "guesses",
    "made",
    "registered",
    "sampler",
    "samplers_of",
    "whole",
]
