"""NumPy functions that exported expressions call; each is copied to the files that use it."""

from __future__ import annotations

HELPERS: dict[str, str] = {
    "_erf": '''
def _erf(x):
    """The error function, element by element."""
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.result_type(x))
''',
    "_erfc": '''
def _erfc(x):
    """The complement of the error function, element by element."""
    return np.vectorize(math.erfc, otypes=[np.float64])(x).astype(np.result_type(x))
''',
    "_fma": '''
def _fma(x, y, z):
    """x y + z, rounded once but for a rare half."""
    if np.result_type(x, y, z) == np.float32:
        return (np.multiply(x, y, dtype=np.float64) + z).astype(np.float32)
    product = x * y
    x_high, y_high = ((v * 134217729.0) - (v * 134217729.0 - v) for v in (x, y))
    x_low, y_low = x - x_high, y - y_high
    rest = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    part = total - product
    rest = rest + (product - (total - part)) + (z - part)
    return total + np.where(np.isfinite(rest), rest, 0.0)
''',
    "_put": '''
def _put(array, index, values):
    """A copy of `array` with `values` at `index`."""
    result = array.copy()
    result[index] = values
    return result
''',
    "_add_at": '''
def _add_at(array, index, values):
    """A copy of `array` with `values` added at `index`, also where a place occurs twice."""
    result = array.copy()
    np.add.at(result, index, values)
    return result
''',
    "_along": '''
def _along(index, axis):
    """The index of the elements that `index` names along one dimension."""
    if not index.ndim:
        return (index,)
    grid = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    return tuple(grid)
''',
    "_fold": '''
def _fold(windows, shape, axis, size, step):
    """Add windows up where they were taken from."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    taken = np.lib.stride_tricks.sliding_window_view(places, size, axis)
    taken = np.moveaxis(taken, axis, 0)[::step]
    result = np.zeros(places.size, windows.dtype)
    np.add.at(result, np.moveaxis(taken, 0, axis), windows)
    return result.reshape(shape)
''',
    "_recurrence": '''
def _recurrence(a, b, axis, backwards):
    """y[k] = a[k] y[k-1] + b[k], from the other end if backwards."""
    a, b = np.broadcast_arrays(a, b)
    if not b.ndim or not b.size:
        return b.copy()
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    result, y = np.empty_like(b), 0
    for k in reversed(range(len(b))) if backwards else range(len(b)):
        y = result[k] = a[k] * y + b[k]
    return np.moveaxis(result, 0, axis)
''',
    "_sort": '''
def _sort(array, axis, descending):
    """Sorted elements and where they were; equal ones keep their order."""
    if not array.ndim:
        return array, np.zeros((), np.int64)
    if descending:
        last = array.shape[axis] - 1
        order = np.flip(last - np.argsort(np.flip(array, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(array, axis, kind="stable")
    return np.take_along_axis(array, order, axis), order
''',
    "_extreme": '''
def _extreme(where, array, axis, keepdims):
    """The largest or smallest elements along a dimension, and where they are."""
    if not array.ndim:
        return array, np.zeros((), np.int64)
    place = where(array, axis=axis, keepdims=True)
    value = np.take_along_axis(array, place, axis)
    return (value, place) if keepdims else (value.squeeze(axis), place.squeeze(axis))
''',
    "_running_extreme": '''
def _running_extreme(ufunc, array, axis):
    """Running extremes along a dimension, and where the latest of them stands."""
    if not array.ndim:
        return array.copy(), np.zeros((), np.int64)
    values = ufunc.accumulate(array, axis)
    latest = (array == values) | (array != array)
    places = np.arange(array.shape[axis]).reshape((-1,) + (1,) * (array.ndim - 1 - axis))
    return values, np.maximum.accumulate(np.where(latest, places, 0), axis)
''',
    "_scan": '''
def _scan(body, constants, start, xs, length, backwards, types):
    """Run a step for each x; return the last carry, then the results, stacked."""
    carry, rows = list(start), []
    count = len(xs[0]) if length < 0 else length
    for i in reversed(range(count)) if backwards else range(count):
        results = body(*constants, *carry, *(x[i] for x in xs))
        carry, row = list(results[: len(start)]), results[len(start) :]
        rows.append(row)
    if backwards:
        rows.reverse()
    columns = list(zip(*rows)) or [()] * len(types)
    stacks = [np.stack(c) if c else np.zeros((0, *s), t) for c, (s, t) in zip(columns, types)]
    return (*carry, *stacks)
''',
    "_while": '''
def _while(condition, body, first, constants, start, keep):
    """Run a step while the condition holds; return the last carry, with `keep` also all before."""
    carry, kept = list(start), []
    while condition(*first, *carry)[0]:
        kept.append(carry)
        carry = list(body(*constants, *carry))
    if not keep:
        return tuple(carry)
    columns = list(zip(*kept)) or [()] * len(start)
    pairs = zip(columns, start)
    stacks = [np.stack(c) if c else np.zeros((0, *s.shape), s.dtype) for c, s in pairs]
    return (*carry, *stacks)
''',
}
