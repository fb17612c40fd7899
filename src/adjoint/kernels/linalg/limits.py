"""The limit of derivatives that were computed near a matrix whose values are close together.

Note [Fans]. y(t) is a derivative at A + tD, for the t of `kinks/fans.py`. Where the function does
not depend on the basis of a cluster, y is analytic, and its rounding errors grow as a power of 1/t.
A polynomial in t² through the means of y(t) and y(-t) gives y(0). Which t to take depends on how
quickly the function varies and how much is lost by rounding, and both are seen in the numbers:
Neville's tableau holds the limit by every run of neighbouring t, and the difference to runs that
are one shorter tells its error. The least one wins. Where that is large, y may depend on |t|, as
it does through the least of equal eigenvalues: then polynomials in t give y(0) from each side.

y need not be analytic. The limits from t > 0 and from t < 0 differ at a kink (the largest of equal
eigenvalues): then the subgradient stands that was computed at A. A power of 1/t tells that the
function depends on the basis. Where values are close but not equal, y(0) was computed at A as well,
and is taken where the fan tells little and does not contradict it, where what is computed for the
smallest t supports it against the limit, or where it differs from the limit by much more than
rounding does: x = r/(r + t) for r < t looks as if it were 0. How much rounding does is seen in what
is computed for a t of some ε, but for errors that are the same there: so it must be more by far,
unless y(t) grows towards y(0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.errors import DegenerateError
from adjoint.kernels.linalg.common import Array
from adjoint.kinks.fans import FAN, STEPS

_T = np.array(STEPS)
_COUNT = len(STEPS)
_LONGEST = 8  # values that a polynomial goes through; more of them give nothing
_FIRST = 5  # steps by whose values the size of a derivative is told
_CERTAIN = 1e6  # rounding errors that are the same for all t, and hence not seen, are smaller
_CLEAR = 1e-6  # parts of the largest derivative below this are not judged


def spread_over_fan(self: Array, repeated: bool) -> Array:
    """The matrix repeated for every t of a fan."""
    return np.repeat(self[None], FAN, 0)


def limit_of_fan(self: Array, repeated: bool) -> Array:
    """y(0) of Note [Fans]; `repeated`: values are equal, so that y(0) was not computed."""
    wide = np.result_type(self.dtype, np.float64)
    values = self.reshape(FAN, -1).astype(wide)
    with np.errstate(all="ignore"):
        found = _limits(values, repeated, float(np.finfo(self.dtype).eps))
    return found.astype(self.dtype).reshape(self.shape[1:])


def _limits(values: Array, repeated: bool, eps: float) -> Array:
    found = values[0].copy()
    moves = np.abs(values - found) > 8 * eps * np.abs(found)
    moves |= ~np.isfinite(values)
    moving = np.nonzero(moves.any(0))[0]
    if moving.size:
        found[moving] = _of_moving(values[:, moving], repeated, eps)
    return found


def _of_moving(values: Array, repeated: bool, eps: float) -> Array:
    exact, above, below, probes = np.split(values, [1, _COUNT + 1, 2 * _COUNT + 1])
    exact = exact[0]
    even = 0.5 * above + 0.5 * below
    top = _size(np.abs(even[:_FIRST]) + np.abs(above[:_FIRST]))
    kink, pole, lost = _kinds(above, below, even, top, repeated)
    if repeated and pole.any():
        raise DegenerateError(DEPENDS)
    if repeated and (lost & np.isfinite(even).any(0)).any():
        raise DegenerateError(_ROUGH)
    if repeated and not np.isfinite(exact[kink]).all():
        raise DegenerateError(_ROUGH)
    smooth = ~(kink | pole | lost)
    varies = np.zeros_like(smooth) if repeated else _grows_towards(above) | _grows_towards(below)
    found = exact.copy()
    for group in _groups(even, top, smooth):
        limit, error = _best_for_all(even[:, group], _T**2)
        if error > math.sqrt(eps) * np.max(top[group]):
            limit, error = _from_each_side(above[:, group], below[:, group], limit, error)
        found[group] = limit
        if not repeated:
            apart = _differ(exact[group], limit)
            known = apart & _is_near(exact[group], limit, _by_two_steps(even[:, group]))
            if error > math.sqrt(eps) * np.max(top[group]):
                known |= np.abs(exact[group] - limit) <= 3 * error
            away = np.abs(exact[group] - limit) / _rounding(exact[group], probes[:, group])
            known |= apart & (away > np.where(varies[group], 30, _CERTAIN))
            found[group] = np.where(known, exact[group], limit)
    return found


def _from_each_side(above: Array, below: Array, limit: Array, error: float) -> tuple[Array, float]:
    """The limit and its error, or those by polynomials in t on each side, if they are far better.

    What depends on |t|, as the least of equal eigenvalues does, is no polynomial in t².
    """
    (one, here), (other, there) = (_best_for_all(side, _T) for side in (above, below))
    if here + there < 0.1 * error:
        return 0.5 * one + 0.5 * other, here + there
    return limit, error


def _rounding(exact: Array, probes: Array) -> Array:
    """The size of the rounding errors of y(0); at least a tenth of the largest column's."""
    found = np.max(np.abs(probes - exact), 0)
    found = np.where(np.isfinite(found), found, np.inf)
    return np.maximum(found, 0.1 * np.max(found))  # type: ignore[no-any-return]


def _by_two_steps(even: Array) -> Array:
    """y(0) by the two smallest steps alone."""
    x, before = _T[-1] ** 2, _T[-2] ** 2
    return even[-1] + (even[-1] - even[-2]) * (x / (before - x))  # type: ignore[no-any-return]


def _differ(exact: Array, limit: Array) -> Array:
    """Whether y(0) and the limit differ in all but few digits."""
    return np.abs(exact - limit) > 1e-3 * np.maximum(np.abs(exact), np.abs(limit))


def _is_near(exact: Array, limit: Array, nearest: Array) -> Array:
    """Whether y near 0 agrees with y(0) rather than with the limit.

    A function with a pole within the steps looks smooth in those beyond the pole.
    """
    return np.abs(nearest - exact) < 0.1 * np.abs(nearest - limit)  # type: ignore[no-any-return]


def _size(values: Array) -> Array:
    """The largest finite number of each column."""
    return np.max(np.where(np.isfinite(values), values, 0), 0)


def _kinds(
    above: Array, below: Array, even: Array, top: Array, repeated: bool
) -> tuple[Array, Array, Array]:
    """Where there is a kink, where a pole, and where the fan tells nothing."""
    clear = top > _CLEAR * np.max(top)
    signals = _signals(above), _signals(below)
    told = clear & (signals[0] | signals[1]).any(0)
    converges = _surely(above, _T) + _surely(below, _T) <= 1e-3 * top
    kink = told & converges & _stays(0.5 * above - 0.5 * below, _CLEAR * top)
    told &= ~converges
    pole = told & (_grows(above) | _grows(below))
    if not repeated:  # else nothing is known but the limit, and refusing is right
        pole &= _grows_on_a_curve(above, signals[0]) | _grows_on_a_curve(below, signals[1])
    lost = told & ~pole & ~(_surely(even, _T**2) <= 0.1 * top)
    return kink, pole, lost


def _stays(odd: Array, least: Array) -> Array:
    """Whether ½(y(t) - y(-t)) is one number for many t; for a smooth y it is about t y'(0)."""
    runs = np.stack([odd[k : _COUNT - 5 + k] for k in range(6)])
    high, low = np.max(runs, 0), np.min(runs, 0)
    middle = 0.5 * np.abs(high + low)
    if np.iscomplexobj(odd):  # in order of their real parts, which says nothing
        mean = np.mean(runs, 0)
        middle, high, low = np.abs(mean), np.max(np.abs(runs - mean), 0), 0
    return ((high - low <= 0.15 * middle) & (middle > least)).any(0)


def _signals(values: Array) -> Array:
    """The steps from which y(t), or y(t) tᵖ, follows a curve for `_RUN` steps: no rounding."""
    found = np.zeros((_COUNT - _RUN + 1, values.shape[1]), bool)
    for power in range(5):
        curve = values * (_T**power)[:, None]
        beside = np.stack([curve[k : _COUNT - 4 + k] for k in (0, 1, 3, 4)])
        inner = curve[2 : _COUNT - 2]
        met = np.abs(np.sum(_BETWEEN * beside, 0) - inner) <= 3e-3 * np.abs(inner)
        met &= inner != 0
        found |= met[:-3] & met[1:-2] & met[2:-1] & met[3:]
    return found


_RUN = 8  # steps that tell a curve


def _grows(values: Array) -> Array:
    """Whether y(t) is larger for small t."""
    first, last = np.abs(values[:_FIRST]), np.abs(values[-_FIRST:])
    return np.max(last, 0) > 10 * np.min(first, 0)


def _grows_on_a_curve(values: Array, signals: Array) -> Array:
    """Whether it is so by more than rounding errors, which may be all there is for small t."""
    first = np.max(np.abs(values[:_FIRST]), 0)  # some of them may be small at a change of sign
    largest = np.stack([np.max(np.abs(values[k : k + _RUN]), 0) for k in range(len(signals))])
    return (signals & (largest > 10 * first)).any(0)  # type: ignore[no-any-return]


def _grows_towards(values: Array) -> Array:
    """Whether y(t) may go on to be much larger at A than it is for any t."""
    return _grows_on_a_curve(values, _signals(values))


def _weights_between() -> Array:
    """The weights of the values at four t whose sum is the value at the t in their middle."""
    rows = []
    for k in range(2, _COUNT - 2):
        x = _T[[k - 2, k - 1, k + 1, k + 2]]
        rows.append([np.prod((_T[k] - x[x != a]) / (a - x[x != a])) for a in x])
    return np.array(rows).T[..., None]


_BETWEEN = _weights_between()


def _tableau(values: Array, x: Array) -> tuple[list[Array], list[Array]]:
    """The limits by polynomials through 2, 3, … neighbouring values, and their errors."""
    limits, errors = [values], []
    for count in range(1, _LONGEST):
        before, after = limits[-1][:-1], limits[-1][1:]
        ratio = x[count:] / (x[:-count] - x[count:])
        limits.append(after + (after - before) * ratio[:, None])
        errors.append(np.maximum(np.abs(limits[-1] - before), np.abs(limits[-1] - after)))
    return limits[1:], [np.where(np.isfinite(e), e, np.inf) for e in errors]


def _surely(values: Array, x: Array) -> Array:
    """An error within which limits of each column by several runs of t agree, none by chance."""
    errors = np.concatenate(_tableau(values, x)[1])
    return np.partition(errors, 4, 0)[4]


def _best_for_all(values: Array, x: Array) -> tuple[Array, float]:
    """The limit of all columns from the run of t with the least error, ignoring chance.

    Runs that begin or end next to each other have errors of similar size; if one error is much
    smaller than its neighbours', two numbers are close by chance.
    """
    limits, errors = _tableau(values, x)
    worst = np.full((len(errors) + 2, len(x) + 2), np.inf)
    for count, part in enumerate(errors, 1):
        worst[count, 1 : len(part) + 1] = np.max(part, 1)
    beside = np.stack([
        worst[1:-1, :-2], worst[1:-1, 2:], worst[:-2, 1:-1], worst[:-2, 2:],
        worst[2:, 1:-1], worst[2:, :-2],
    ])  # fmt: skip
    around = np.sort(beside, 0)[2]
    error = np.maximum(worst[1:-1, 1:-1], 0.1 * around)
    row, column = np.unravel_index(int(np.argmin(error)), error.shape)
    return limits[row][min(column, len(limits[row]) - 1)], float(error[row, column])


def _groups(even: Array, top: Array, smooth: Array) -> list[Any]:
    """The smooth columns, by their size in twelve decades and the steps where they are finite."""
    columns = np.nonzero(smooth)[0]
    if not columns.size:
        return []
    size = np.floor(np.log2(np.maximum(top[columns], 1e-300)) / 40)
    finite = np.packbits(np.isfinite(even[:, columns]), 0).astype(np.float64)
    kinds = np.concatenate([size[None], finite])
    _, kind = np.unique(kinds, axis=1, return_inverse=True)
    return [columns[kind.reshape(-1) == k] for k in range(kind.max() + 1)]


DEPENDS = (
    "linalg: eigenvectors (or singular vectors) are determined up to a factor of modulus 1, those "
    "of a repeated value up to a rotation among themselves, factors of a matrix of lower rank even "
    "less, and the function depends on that choice, so it has no derivative here. Use a function "
    "that does not depend on it, such as V @ diag(f(w)) @ V.mH."
)
_ROUGH = (
    "linalg: eigenvalues (or singular values) repeat, or a matrix has lower rank, and beside it "
    "the derivative tends to no limit: the function is not smooth there, so it has no derivative, "
    "or varies by more than can be followed over 1e-3 of the distance to the other values."
)
