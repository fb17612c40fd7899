"""Random numbers of keys: the functions of `jax.random`, which `ad.random` has, too.

A key is a tensor of two whole numbers, and what is drawn is a function of the key alone: the same
in eager mode, inside `vmap`, in a trace and in compiled code. The numbers are those of JAX, of its
generator Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", 2011), computed by our operators in int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.calls.methods import as_tensor
from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, to_dtype
from adjoint.core.errors import DtypeError, ShapeError
from adjoint.ops import operator as operators

_WORD = 0xFFFFFFFF
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

Shape = int | Sequence[int]


def key(seed: Any) -> Any:
    """Return the key of a seed, a whole number.

    >>> import adjoint as ad
    >>> ad.random.key(42)
    tensor([ 0, 42])
    """
    number = as_tensor(seed)
    if number.ndim or number.dtype.category != dtypes.INTEGER:
        raise DtypeError(f"key: a seed is one whole number, got {seed!r}")
    return _call("stack", [(number.long() >> 32) & _WORD, number.long() & _WORD])


PRNGKey = key  # the older name


def _call(name: str, *args: Any, **keywords: Any) -> Any:
    return operators.packet(name)(*args, **keywords)


def _threefry(given: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """The block cipher: two words of 32 bits for each pair of words."""
    first, second = _halves(given)
    words = (first, second, first ^ second ^ _PARITY)
    x, y = (high + words[0]) & _WORD, (low + words[1]) & _WORD
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x = (x + y) & _WORD
            y = x ^ (((y << turn) | (y >> (32 - turn))) & _WORD)
        x = (x + words[(group + 1) % 3]) & _WORD
        y = (y + words[(group + 2) % 3] + (group + 1)) & _WORD
    return x, y


def _halves(given: Any) -> tuple[Any, Any]:
    keys = as_tensor(given)
    if tuple(keys.shape) != (2,) or keys.dtype.category != dtypes.INTEGER:
        raise ShapeError(
            f"a key is a tensor of two whole numbers, got {keys.dtype.name} of shape "
            f"{tuple(keys.shape)}; make one with ad.random.key(seed), or use vmap for several"
        )
    return keys[0].long(), keys[1].long()


def _size(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _words(given: Any, shape: Shape) -> tuple[Any, Any]:
    """Two words for each element of a shape."""
    size = _size(shape)
    count = _call("arange", math.prod(size)).reshape(size)
    return _threefry(given, count >> 32, count & _WORD)


def split(key: Any, num: Shape = 2) -> Any:
    """Return new keys, one in each row.

    >>> import adjoint as ad
    >>> first, second = ad.random.split(ad.random.key(0))
    >>> first
    tensor([1797259609, 2579123966])
    """
    return _call("stack", list(_words(key, num)), -1)


def fold_in(key: Any, data: Any) -> Any:
    """Return a new key made of a key and a whole number.

    >>> import adjoint as ad
    >>> ad.random.fold_in(ad.random.key(0), 1)
    tensor([ 928981903, 3453687069])
    """
    number = as_tensor(data).long() & _WORD
    return _call("stack", list(_threefry(key, number * 0, number)))


def bits(key: Any, shape: Shape = ()) -> Any:
    """Return whole numbers of 32 random bits.

    >>> import adjoint as ad
    >>> ad.random.bits(ad.random.key(0), (2,))
    tensor([4070199207, 4202968722])
    """
    high, low = _words(key, shape)
    return high ^ low


def uniform(
    key: Any, shape: Shape = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Return numbers between two bounds, the upper one excluded.

    >>> import adjoint as ad
    >>> ad.random.uniform(ad.random.key(0), (3,))
    tensor([0.9477, 0.9786, 0.3323])
    """
    wanted = DEFAULT.dtype if dtype is None else to_dtype(dtype)
    if wanted is dtypes.float64:
        high, low = _words(key, shape)
        unit = ((high << 20) | (low >> 12)).to(wanted) * 2.0**-52
    elif wanted is dtypes.float32:
        unit = (bits(key, shape) >> 9).to(wanted) * 2.0**-23
    else:
        raise DtypeError(f"uniform: numbers are drawn in float32 or float64, not in {wanted.name}")
    low, high = (as_tensor(v).to(wanted) for v in (minval, maxval))
    return _call("maximum", low, unit * (high - low) + low)


def normal(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return normally distributed numbers.

    >>> import adjoint as ad
    >>> ad.random.normal(ad.random.key(0), (3,))
    tensor([ 1.6226,  2.0253, -0.4336])
    """
    wanted = DEFAULT.dtype if dtype is None else to_dtype(dtype)
    lowest = as_tensor(-1.0).to(wanted).nextafter(as_tensor(0.0).to(wanted))
    return _call("erfinv", uniform(key, shape, wanted, lowest, 1.0)) * math.sqrt(2)


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None) -> Any:
    """Return True with a probability, which may be a tensor.

    >>> import adjoint as ad
    >>> ad.random.bernoulli(ad.random.key(0), 0.5, (3,))
    tensor([False, False,  True])
    """
    chance = as_tensor(p)
    dtype = chance.dtype if chance.is_floating_point() else None
    return uniform(key, tuple(chance.shape) if shape is None else shape, dtype) < chance


def exponential(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return exponentially distributed numbers of mean 1.

    >>> import adjoint as ad
    >>> ad.random.exponential(ad.random.key(0), (2,))
    tensor([2.9501, 3.8434])
    """
    return -_call("log1p", -uniform(key, shape, dtype))


def gumbel(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return numbers of the standard Gumbel distribution.

    >>> import adjoint as ad
    >>> ad.random.gumbel(ad.random.key(0), (2,))
    tensor([2.9234, 3.8326])
    """
    wanted = DEFAULT.dtype if dtype is None else to_dtype(dtype)
    tiny = dtypes.finfo(wanted).tiny
    return -_call("log", -_call("log", uniform(key, shape, wanted, tiny, 1.0)))


def categorical(key: Any, logits: Any, axis: int = -1, shape: Shape | None = None) -> Any:
    """Return positions along an axis, drawn by their logits.

    >>> import adjoint as ad
    >>> ad.random.categorical(ad.random.key(0), ad.zeros(4, 3))
    tensor([1, 1, 2, 1])
    """
    scores = as_tensor(logits)
    axis = axis if axis < 0 else axis - scores.ndim
    rest = [n for i, n in enumerate(scores.shape) if i != scores.ndim + axis]
    size = list(rest if shape is None else _size(shape))
    drawn = [*size[: len(size) - len(rest)], *scores.shape]
    return (gumbel(key, drawn, scores.dtype) + scores).argmax(axis)


def randint(key: Any, shape: Shape, minval: int, maxval: int) -> Any:
    """Return whole numbers from `minval` to `maxval` - 1.

    >>> import adjoint as ad
    >>> ad.random.randint(ad.random.key(0), (4,), 0, 10)
    tensor([9, 0, 2, 3])
    """
    span = max(maxval - minval, 1)
    first, second = split(key)
    factor = (2**16 % span) ** 2 % span
    high, low = bits(first, shape) % span, bits(second, shape) % span
    return minval + (((high * factor) & _WORD) + low) % span


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """Return a tensor in another order along an axis; of a number n, the numbers up to n - 1.

    >>> import adjoint as ad
    >>> ad.random.permutation(ad.random.key(0), 5)
    tensor([0, 1, 4, 3, 2])
    """
    given = _call("arange", x) if isinstance(x, int) else as_tensor(x)
    size = int(given.shape[axis])
    order = _call("arange", size)
    rounds = math.ceil(3 * math.log(max(size, 1)) / math.log(_WORD))
    for _ in range(rounds):
        key, chosen = split(key)
        order = order[bits(chosen, (size,)).argsort(stable=True)]
    return given.index_select(axis, order)


def choice(
    key: Any, a: Any, shape: Shape = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Return entries of a tensor along an axis, or of the numbers up to a - 1, drawn at random.

    >>> import adjoint as ad
    >>> ad.random.choice(ad.random.key(0), 10, (3,), replace=False)
    tensor([0, 1, 8])
    """
    given = _call("arange", a) if isinstance(a, int) else as_tensor(a)
    size, count = _size(shape), math.prod(_size(shape))
    total = int(given.shape[axis])
    if p is not None:
        sums = as_tensor(p).cumsum(0)
        if replace:
            drawn = sums[-1] * (1 - uniform(key, size, sums.dtype))
            places = _call("searchsorted", sums, drawn)
        else:
            scores = gumbel(key, (total,), sums.dtype) + as_tensor(p).log()
            places = (-scores).argsort(stable=True)[:count].reshape(size)
    elif replace:
        places = randint(key, size, 0, total)
    else:
        places = permutation(key, total)[:count].reshape(size)
    kept = given.index_select(axis, places.reshape(-1))
    return kept.reshape((*given.shape[:axis], *size, *given.shape[axis + 1 :]))
