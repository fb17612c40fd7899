"""Random number generators: seeded, deterministic, safe under threads, with PyTorch's methods.

A `Generator` wraps NumPy's PCG64. Kernels draw through `sampling(generator)`, which holds the
generator's lock while they do. The streams are not PyTorch's: equal seeds give equal numbers here,
but not PyTorch's numbers.

`drawing_again` lets a block draw from an earlier state of a generator. The generator itself, which
other threads may use meanwhile, does not change: inside the block a stand-in draws in its place.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Generator as Yields
from contextvars import ContextVar
from typing import Any

import numpy as np

from adjoint.core import threads
from adjoint.core.devices import existing_device
from adjoint.core.errors import ArgumentError, ValueRangeError

Array = np.ndarray[Any, Any]

wrap: Callable[[Array], Any] = lambda array: array  # states are tensors: set by _wiring.py
DEFAULT_SEED = 0x5EED_AD_C0DE  # seed of the default generator in a new process, so that runs repeat


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
        self.device = existing_device("Generator", device)
        if self.device.type != "cpu":
            raise ArgumentError(f"Generator(device={device!r}): generators live on the CPU")
        self._lock = threads.lock()
        self._seed = DEFAULT_SEED
        self._numpy: np.random.Generator | None = None

    @property
    def numpy(self) -> np.random.Generator:
        """NumPy's generator; made on first use, since that loads NumPy's part of them."""
        stream = self.stream()
        with stream._lock:
            if stream._numpy is None:
                stream._numpy = np.random.Generator(np.random.PCG64(stream._seed))
            return stream._numpy

    def stream(self) -> Generator:
        """The stand-in for this generator inside `drawing_again`; elsewhere itself."""
        for pairs in reversed(_stand_ins.get()):
            for chosen, stand_in in pairs:
                if chosen is self:
                    return stand_in
        return self

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
        stream = self.stream()
        with stream._lock:
            stream._seed = int(seed) % 2**64
            stream._numpy = None
        return self

    def seed(self) -> int:
        """Start a stream that nobody can predict, and return its seed.

        >>> import adjoint as ad
        >>> ad.seed() == ad.initial_seed()
        True
        """
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self.initial_seed()

    def initial_seed(self) -> int:
        """Return the seed that the stream was started with.

        >>> import adjoint as ad
        >>> _ = ad.manual_seed(3)
        >>> ad.initial_seed()
        3
        """
        return self.stream()._seed

    def get_state(self) -> Any:
        """Return the state as a tensor of bytes."""
        stream = self.stream()
        with stream._lock:
            state = (stream._seed, stream.numpy.bit_generator.state)
        return wrap(np.frombuffer(_pack(state), np.uint8).copy())

    def set_state(self, state: Any) -> Generator:
        """Go back to a state of `get_state`, and return self."""
        seed, bits = _unpack(np.asarray(state))
        stream = self.stream()
        with stream._lock:
            stream._seed = seed
            stream.numpy.bit_generator.state = bits
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


# For each open `drawing_again`: pairs of a generator and its stand-in.
_stand_ins: ContextVar[tuple[tuple[tuple[Generator, Generator], ...], ...]] = ContextVar(
    "generators that draw in the place of others", default=()
)

# The state: seed, PCG64's state and increment (16 bytes each), and its spare 32 bits.
_SIZES = (8, 16, 16, 1, 4)
STATE_BYTES = sum(_SIZES)


def _pack(state: tuple[int, Mapping[str, Any]]) -> bytes:
    seed, bits = state
    inner = bits["state"]
    values = (seed, inner["state"], inner["inc"], bits["has_uint32"], bits["uinteger"])
    return b"".join(v.to_bytes(size, "little") for v, size in zip(values, _SIZES))


def _unpack(state: Array) -> tuple[int, dict[str, Any]]:
    if state.dtype != np.uint8 or state.shape != (STATE_BYTES,):
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


class sampling:  # noqa: N801 - used as a function, for every draw: no generator function
    """A block with the NumPy generator of `generator` (None: the default), locked meanwhile."""

    __slots__ = ("stream",)

    def __init__(self, generator: Generator | None) -> None:
        if _watches.get():
            drawn(generator, None, _state)
        chosen = default_generator if generator is None else generator
        self.stream = chosen.stream() if _stand_ins.get() else chosen

    def __enter__(self) -> np.random.Generator:
        self.stream._lock.acquire()
        made = self.stream._numpy
        return self.stream.numpy if made is None else made

    def __exit__(self, *_: object) -> None:
        self.stream._lock.release()


class GeneratorWatch:
    """A block that records, for each generator it draws from, the state before the first draw."""

    __slots__ = ("found", "token", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace  # the trace that records the block; None in eager mode
        self.found: list[tuple[Generator | None, Any]] = []  # (None for the default one, state)

    def __enter__(self) -> GeneratorWatch:
        self.token = _watches.set((*_watches.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _watches.reset(self.token)

    def note(self, generator: Generator | None, read: Callable[[Any], Any]) -> None:
        """Remember the state of a generator before its first draw."""
        if all(known is not generator for known, _ in self.found):
            self.found.append((generator, read(generator)))


_watches: ContextVar[tuple[GeneratorWatch, ...]] = ContextVar("watches of drawing", default=())


def drawn(generator: Generator | None, trace: Any, read: Callable[[Any], Any]) -> None:
    """Tell the open watches of this trace that a generator is about to be drawn from."""
    for watch in _watches.get():
        if watch.trace is trace:
            watch.note(None if generator is default_generator else generator, read)


def _state(generator: Generator | None) -> Any:
    return (default_generator if generator is None else generator).get_state()


@contextlib.contextmanager
def drawing_again(generators: Sequence[Generator | None], states: Sequence[Any]) -> Yields[None]:
    """Let a block draw from earlier states of generators; None is the default one."""
    chosen = [default_generator if g is None else g for g in generators]
    stand_ins = [_restore(np.asarray(state)) for state in states]
    token = _stand_ins.set((*_stand_ins.get(), tuple(zip(chosen, stand_ins, strict=True))))
    try:
        yield
    finally:
        _stand_ins.reset(token)


def draw_on() -> None:
    """Let the rest of the innermost `drawing_again` draw from the generators themselves."""
    _stand_ins.set(_stand_ins.get()[:-1])


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
