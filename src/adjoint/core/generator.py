"""Random number generators: seeded, deterministic, safe under threads, with PyTorch's methods.

A `Generator` wraps NumPy's PCG64. Kernels draw through `sampling(generator)`, which holds the
generator's lock while they do. The streams are not PyTorch's: equal seeds give equal numbers here,
and other numbers than there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from collections.abc import Generator as Yields
from typing import Any

import numpy as np

from adjoint.core import threads
from adjoint.core.devices import present
from adjoint.core.errors import ArgumentError, ValueRangeError

Array = np.ndarray[Any, Any]

wrap: Callable[[Array], Any] = lambda array: array  # states are tensors: set by _wiring.py
DEFAULT_SEED = 0x5EED_AD_C0DE  # of the default generator in a new process, so that runs repeat


class Generator:
    """A stream of random numbers with a seed and a state.

    >>> g = Generator().manual_seed(3)
    >>> state = g.get_state()
    >>> first = g.numpy.random()
    >>> first == g.set_state(state).numpy.random()
    True
    """

    __slots__ = ("_lock", "_numpy", "_seed", "device")

    def __init__(self, device: Any = "cpu") -> None:
        self.device = present("Generator", device)
        if self.device.type != "cpu":
            raise ArgumentError(f"Generator(device={device!r}): generators live on the CPU")
        self._lock = threads.lock()
        self._seed = DEFAULT_SEED
        self._numpy: np.random.Generator | None = None

    @property
    def numpy(self) -> np.random.Generator:
        """NumPy's generator; made on first use, since that loads NumPy's part of them."""
        with self._lock:
            if self._numpy is None:
                self._numpy = np.random.Generator(np.random.PCG64(self._seed))
            return self._numpy

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that belongs to `seed`, an integer of 64 bits, and return self.

        >>> import adjoint as ad
        >>> _ = ad.manual_seed(3)
        >>> first = ad.rand(2)
        >>> _ = ad.manual_seed(3)
        >>> ad.equal(first, ad.rand(2))
        True
        """
        if not isinstance(seed, (int, np.integer)):
            raise ArgumentError(f"manual_seed: the seed must be an integer, got {seed!r}")
        if not -(2**63) <= seed < 2**64:
            raise ValueRangeError(f"manual_seed: the seed {seed} does not fit 64 bits")
        with self._lock:
            self._seed = int(seed) % 2**64
            self._numpy = None
        return self

    def seed(self) -> int:
        """Start a stream that nobody can predict, and return its seed.

        >>> import adjoint as ad
        >>> ad.seed() == ad.initial_seed()
        True
        """
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed that the stream was started with.

        >>> import adjoint as ad
        >>> _ = ad.manual_seed(3)
        >>> ad.initial_seed()
        3
        """
        return self._seed

    def get_state(self) -> Any:
        """Return the state as a tensor of bytes."""
        with self._lock:
            state = (self._seed, self.numpy.bit_generator.state)
        return wrap(np.frombuffer(_pack(state), np.uint8).copy())

    def set_state(self, state: Any) -> Generator:
        """Go back to a state of `get_state`, and return self."""
        seed, bits = _unpack(np.asarray(state))
        with self._lock:
            self._seed = seed
            self.numpy.bit_generator.state = bits
        return self

    def clone_state(self) -> Generator:
        """Return a new generator in the same state; the two then go on apart."""
        return Generator().set_state(self.get_state())

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (np.asarray(self.get_state()),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        return self.clone_state()


# The state: seed, PCG64's state and increment (16 bytes each), and its spare 32 bits.
_SIZES = (8, 16, 16, 1, 4)


def _pack(state: tuple[int, Mapping[str, Any]]) -> bytes:
    seed, bits = state
    inner = bits["state"]
    values = (seed, inner["state"], inner["inc"], bits["has_uint32"], bits["uinteger"])
    return b"".join(v.to_bytes(size, "little") for v, size in zip(values, _SIZES))


def _unpack(state: Array) -> tuple[int, dict[str, Any]]:
    if state.dtype != np.uint8 or state.shape != (sum(_SIZES),):
        raise ArgumentError("set_state: this is not a state of get_state()")
    raw = state.tobytes()
    values = []
    for size in _SIZES:
        values.append(int.from_bytes(raw[:size], "little"))
        raw = raw[size:]
    seed, inner, increment, has_spare, spare = values
    bits = {
        "bit_generator": "PCG64",
        "state": {"state": inner, "inc": increment},
        "has_uint32": has_spare,
        "uinteger": spare,
    }
    return seed, bits


def _restore(state: Array) -> Generator:
    return Generator().set_state(state)


default_generator = Generator()


@contextlib.contextmanager
def sampling(generator: Generator | None) -> Yields[np.random.Generator]:
    """Give NumPy's generator of `generator` (of the default one if None), locked meanwhile."""
    chosen = default_generator if generator is None else generator
    with chosen._lock:
        yield chosen.numpy


def manual_seed(seed: int) -> Generator:
    """Start the default stream that belongs to `seed`; random functions then repeat exactly.

    >>> import adjoint as ad
    >>> _ = ad.manual_seed(3)
    >>> first = ad.rand(2)
    >>> _ = ad.manual_seed(3)
    >>> ad.equal(first, ad.rand(2))
    True
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start an unpredictable default stream, and return its seed.

    >>> import adjoint as ad
    >>> ad.seed() == ad.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default stream.

    >>> import adjoint as ad
    >>> _ = ad.manual_seed(3)
    >>> ad.initial_seed()
    3
    """
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """Return the state of the default stream as a tensor of bytes.

    >>> import adjoint as ad
    >>> state = ad.get_rng_state()
    >>> first = ad.rand(2)
    >>> ad.set_rng_state(state)
    >>> ad.equal(first, ad.rand(2))
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go back to a state of `get_rng_state`.

    >>> import adjoint as ad
    >>> ad.set_rng_state(ad.get_rng_state())
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, *, device_type: str = "cpu"
) -> Yields[None]:
    """Leave the default stream as it was after a `with` block; devices have no streams here.

    >>> import adjoint as ad
    >>> before = ad.get_rng_state()
    >>> with ad.fork_rng():
    ...     _ = ad.rand(2)
    >>> ad.equal(before, ad.get_rng_state())
    True
    """
    state = default_generator.get_state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_state(state)
