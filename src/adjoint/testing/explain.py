"""The message of `gradcheck` about a wrong derivative: which, where, how far off, a resemblance."""

from __future__ import annotations

import numpy as np

from adjoint.core.errors import AdjointError
from adjoint.core.records import record
from adjoint.testing import jacobians
from adjoint.testing.closeness import near
from adjoint.testing.jacobians import Array, Call, Jacobians, array_of

SHOWN = 12  # rows and columns of a matrix in a message


class GradcheckError(AdjointError, RuntimeError):
    """A derivative that disagrees with finite differences."""


@record
class Options:
    """How a check is made, and how close is close."""

    eps: float  # 1e-6, the step of the finite differences
    atol: float  # 1e-5
    rtol: float  # 1e-3, times the finite difference
    nondet_tol: float  # 0.0, how far two runs of a backward may differ
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool

    def close(self, got: Array, expected: Array) -> Array:
        """Return, entry by entry, whether `got` is close to `expected`."""
        return near(got, expected, self.rtol, self.atol)


def low_precision(call: Call) -> list[str]:
    """Say which inputs are too coarse for a small step."""
    low = [(i, t.dtype) for i, t in enumerate(call.inputs)]
    return [f"input {i} is {d.name}" for i, d in low if d.to_real().itemsize < 8]


def compare(
    mode: str,
    got: Jacobians,
    expected: Jacobians,
    call: Call,
    wanted: list[int],
    options: Options,
) -> None:
    """Raise `GradcheckError` if a Jacobian is not close to that of finite differences."""
    for k, rows in enumerate(got):
        for i, matrix in enumerate(rows):
            wrong = ~options.close(matrix, expected[k][i])
            if wrong.any():
                text = _message(mode, matrix, expected[k][i], wrong, (wanted[k], i), call, options)
                raise GradcheckError(text)


def _message(
    mode: str,
    got: Array,
    expected: Array,
    wrong: Array,
    place: tuple[int, int],
    call: Call,
    options: Options,
) -> str:
    k, i = place
    output = array_of(call(call.leaves())[k])
    x = array_of(call.inputs[i])
    with np.errstate(all="ignore"):
        gap = np.abs(got - expected)
    gap = np.where(wrong, np.where(np.isnan(gap), np.inf, gap), -1.0)
    row, column = (int(n) for n in np.unravel_index(int(gap.argmax()), gap.shape))
    lines = [
        f"gradcheck: {mode} disagrees with finite differences in output {k} "
        f"(shape {output.shape}, {output.dtype}) with respect to input {i} "
        f"(shape {x.shape}, {x.dtype}).",
        f"Largest difference {gap[row, column]:.4g} at output{_element(output, row)}, "
        f"input{_element(x, column)}: {mode} {got[row, column]:.8g}, finite differences "
        f"{expected[row, column]:.8g}.",
        f"{int(wrong.sum())} of {wrong.size} entries are outside atol={options.atol:g} + "
        f"rtol={options.rtol:g}·|finite difference| (eps={options.eps:g}).",
        *_hints(got, expected, output, x, call, options),
        f"{mode} (rows: {_rows(output, 'output')}; columns: {_rows(x, 'input')}):",
        _matrix(got),
        "finite differences:",
        _matrix(expected),
    ]
    return "\n".join(lines)


def _element(array: Array, position: int) -> str:
    place = tuple(int(n) for n in np.unravel_index(position % array.size, array.shape))
    index = f"[{', '.join(map(str, place))}]" if place else ""
    if array.dtype.kind != "c":
        return index
    return index + (".imag" if position >= array.size else ".real")


def _rows(array: Array, what: str) -> str:
    if array.dtype.kind == "c":
        return f"real, then imaginary parts of the elements of the {what}"
    return f"elements of the {what}"


def _matrix(matrix: Array) -> str:
    return np.array2string(matrix, precision=6, suppress_small=True, threshold=SHOWN * SHOWN)


def _hints(
    got: Array, expected: Array, output: Array, x: Array, call: Call, options: Options
) -> list[str]:
    """Say what the error looks like, where it looks like something."""
    hints: list[str] = []
    low = low_precision(call)
    if low and options.eps < 1e-4:
        hints.append(f"{', '.join(low)}: too little precision for eps={options.eps:g}.")
    if not np.isfinite(expected).all():
        hints.append("Finite differences are not finite: is an input at the edge of the domain?")
    elif not np.isfinite(got).all():
        hints.append("The derivative is not finite where finite differences are (0·inf inside?).")
    elif np.any(expected):
        hints.extend(_resemblance(got, expected, output, x, options))
    return [f"Hint: {hint}" for hint in hints]


def _resemblance(
    got: Array, expected: Array, output: Array, x: Array, options: Options
) -> list[str]:
    if not np.any(got):
        return ["the derivative is zero everywhere: is a term missing, or a value detached?"]
    if options.close(-got, expected).all():
        return ["it has the opposite sign."]
    for factor in (2.0, 0.5):
        if options.close(got / factor, expected).all():
            return [f"it is {factor:g} times what it should be."]
    if x.dtype.kind == "c" or output.dtype.kind == "c":
        signs = _conjugation(x, axis=1), _conjugation(output, axis=0)
        for sign in (*signs, signs[0] * signs[1]):
            if options.close(got * sign, expected).all():
                return ["a complex conjugate is missing or too many (.conj() on a factor)."]
    if got.shape[0] == got.shape[1] and options.close(got.T, expected).all():
        return ["it is the transpose of what it should be."]
    return []


def _conjugation(array: Array, *, axis: int) -> Array:
    sign = np.ones(jacobians.size(array))
    if array.dtype.kind == "c":
        sign[array.size :] = -1
    return sign[None, :] if axis else sign[:, None]
