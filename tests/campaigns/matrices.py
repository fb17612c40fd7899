"""Random matrices with clusters, zeros and huge ratios against numbers of 600 bits, to third order.

A case is a function of `adjoint/testing/certificates/matrices.py` (decompositions, functions of
eigenvalues and singular values that do not depend on the choice of vectors, determinants, inverses,
factors, norms, exponentials), a random spectrum, and random vectors. Its derivatives along a
direction, in compositions of modes and sometimes compiled, are compared with the truth. The unit is
as much as the truth moves when the matrix is rounded: what is computed directly must be right
within some hundred units, and what goes through eigenvalues or singular values that nearly
coincide, or factors without full rank, must keep the digits of `DIGITS`. Where a function has no
derivative nothing is asked, nor where a matrix is nearly defective; where no digit can be kept, a
derivative may be refused.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import DegenerateError
from adjoint.testing.certificates import matrices
from tests.campaigns import campaign

SIZE = 4
MODES = ["".join(letters) for n in range(4) for letters in itertools.product("rf", repeat=n)]
DIRECT = 1000.0  # units, in every order
DIGITS = (11.0, 10.0, 7.0, 3.0)  # decimal ones that are kept through spectra, in each order
SPECTRAL = {"linalg_eigh", "linalg_eigvalsh", "linalg_svd", "linalg_svdvals", "linalg_matrix_norm",
            "linalg_cond", "linalg_eig", "linalg_eigvals", "sl.sqrtm", "sl.logm"}  # fmt: skip
GENERAL = {"linalg_eig", "linalg_eigvals"}
DEFECTIVE = 300.0  # the condition of eigenvectors that are nearly dependent
COMPILED = 96  # one case in so many is compiled, which takes a hundred times as long
EPS = float(np.finfo(np.float64).eps)


def check(seed: int) -> int:
    rng = np.random.default_rng(seed)
    function = matrices.functions()[rng.integers(len(matrices.functions()))]
    values = spectrum(rng, function)
    x, w, e, known = matrices.case(function, values, "float64", seed)
    if function.operator in GENERAL and np.linalg.cond(np.linalg.eig(x.numpy())[1]) > DEFECTIVE:
        return 0
    modes = list(dict.fromkeys(["", *rng.choice(MODES, 4)]))
    means = "eager" if seed % COMPILED else "compiled"
    for mode in modes:
        order = len(mode)
        most, unit, true = allowed(function, order), known.units[order], known.values[order]
        told = f"{function.title}, spectrum {values}\n  {means} {mode or 'value'}, truth {true!r}"
        found = number(run(function, mode, means), x, w, e)
        if found is None:
            assert most * unit > abs(true), f"{told}: refused"
            continue
        cell = matrices.compared(found, known, order, "")
        assert cell.error <= most, f"{told}: {found!r}, {cell.error:.3g} units of {unit:.3g}"
    return len(modes)


def run(function: matrices.Function, mode: str, means: str) -> Any:
    """A derivative of the function along a direction."""

    def derivative(x: Any, w: Any, e: Any) -> Any:
        return matrices.derivative(lambda y: function.ours(y, w), mode, e)(x)

    return ad.compile(derivative) if means == "compiled" else derivative


def number(derivative: Any, *args: Any) -> float | None:
    """What a derivative gives; None where it says that there is none."""
    with contextlib.suppress(DegenerateError):
        return float(derivative(*args))
    return None


def allowed(function: matrices.Function, order: int) -> float:
    """How many units an error may have."""
    through = function.operator in SPECTRAL or function.name == "Q R by qr"
    return 10.0 ** -DIGITS[order] / EPS if through else DIRECT


def spectrum(rng: Any, function: matrices.Function) -> list[float]:
    """Values far apart, in clusters of any width, zero, or many powers of ten apart, as far as the
    function is smooth there."""
    if "all" not in function.spectra:
        return matrices.spectrum(str(rng.choice(function.spectra)), _gap(rng))
    kinds = ["far", "cluster", "cluster", "pairs"]
    kinds += ["zeros", "ratios", "near zero"] if "zeros" in function.spectra else []
    if function.operator in GENERAL:  # clusters are nearly defective
        kinds = ["far"]
    kind = rng.choice(kinds)
    apart = 0.5 + np.arange(SIZE) + rng.uniform(-0.3, 0.3, SIZE)
    return _spread(rng, str(kind), apart).tolist()


def _spread(rng: Any, kind: str, apart: Any) -> Any:
    if kind == "far":
        return apart
    if kind == "cluster":
        size = int(rng.integers(2, SIZE + 1))
        near = apart[0] * (1 + _gap(rng) * rng.uniform(-1, 1, size))
        return np.concatenate((near, apart[size:]))
    if kind == "pairs":
        return np.repeat(apart[:2], 2) * (1 + _gap(rng) * rng.uniform(-1, 1, SIZE))
    if kind == "zeros":
        zeros = int(rng.integers(1, SIZE))
        return np.concatenate((np.zeros(zeros), apart[zeros:]))
    if kind == "near zero":
        return np.concatenate((_gap(rng) * rng.uniform(0, 1, 2), apart[2:]))
    return 10.0 ** rng.uniform(-12, 0, SIZE)


def _gap(rng: Any) -> float:
    return 0.0 if rng.random() < 0.2 else 10.0 ** rng.uniform(-16, -1)


if __name__ == "__main__":
    campaign.main(check)
