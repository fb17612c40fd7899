"""The NumPy door: every row of the table of names against NumPy itself.

Each sample is the text of a call. It runs three times: NumPy's function on arrays, the function of
adjoint.numpy on the same arrays, and NumPy's function on tensors. Values, shapes and dtypes are
NumPy's; gradients are compared with differences of NumPy's values.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import subprocess
import sys
from typing import Any, get_args, get_origin

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.special

import adjoint as ad
import adjoint.numpy as door
from adjoint.core.errors import ArgumentError, GradError
from adjoint.doors.numpy import reading
from adjoint.doors.numpy.ufuncs import Ufunc

THEIRS = {
    "": np, "linalg": np.linalg, "fft": np.fft, "special": scipy.special,
    "stride_tricks": np.lib.stride_tricks, "scipy_linalg": scipy.linalg,
}  # fmt: skip
_random = np.random.default_rng(0)


def _numbers(*shape: int) -> Any:
    """Distinct numbers between -1 and 1, none near 0 or near one another."""
    count = math.prod(shape)
    return _random.permutation((np.arange(count) - count / 2 + 0.3) / count * 1.8).reshape(shape)


V, W, A, B, T = (_numbers(*n) + 0.01 * i for i, n in enumerate(
    [(5,), (5,), (3, 4), (3, 4), (2, 3, 4)]))  # fmt: skip
M, S = _numbers(3, 3) + np.eye(3), np.array([[3.0, 0.5, 0.2], [0.5, 2.0, 0.1], [0.2, 0.1, 1.0]])
ARRAYS = {
    "V": V, "W": W, "A": A, "B": B, "T": T, "M": M, "S": S,
    "K": S @ np.diag([1.0, 2.0, 3.0]),
    "P": np.abs(A) + 0.1,  # positive
    "Q": np.abs(V) + 0.1,
    "U": (np.abs(V) + 0.05) / 1.2,  # between 0 and 1
    "Z": V + 1j * W,
    "N": np.where(np.abs(A) > 0.7, np.nan, A),
    "SORTED": np.sort(V) + 0.05,
    "I": np.array([0, 2, 1, 2, 0]),
    "J": np.array([[3, 1, 2, 0], [1, 0, 2, 3], [2, 0, 1, 3]]),
    "C": A > 0,
    "D": V > 0,
    "L": np.array([4, 9, 6, 15, 8]),
}  # fmt: skip
FOR_UFUNCS = {
    "acos": "V", "acosh": "1 + Q", "arccos": "V", "arccosh": "1 + Q", "log": "Q", "log2": "Q",
    "log10": "Q", "log1p": "Q", "sqrt": "Q", "pow": "Q, W", "power": "Q, W", "float_power": "Q, W",
    "bitwise_and": "I, L", "bitwise_count": "-L", "bitwise_or": "I, L", "bitwise_xor": "I, L",
    "invert": "I",
    "bitwise_not": "I", "bitwise_invert": "I", "left_shift": "L, I", "right_shift": "L, I",
    "bitwise_left_shift": "L, I", "bitwise_right_shift": "L, I", "gcd": "L, I + 6",
    "lcm": "L, I + 6", "matmul": "A, A.T", "matvec": "M, W[:3]", "vecmat": "W[:3], M",
    "vecdot": "A, B", "ldexp": "V, I", "conj": "Z", "conjugate": "Z", "heaviside": "V, W",
}  # fmt: skip
FOR_SPECIAL = {
    "betainc": "Q, Q[::-1], U", "betaincc": "Q, Q[::-1], U", "binom": "3 + Q, 1 + U",
    "boxcox": "Q, W", "boxcox1p": "Q, W", "inv_boxcox": "Q, U", "inv_boxcox1p": "Q, U",
    "chdtr": "Q, U", "chdtrc": "Q, U", "erfinv": "V", "erfcinv": "2 * U", "fdtr": "Q, Q[::-1], U",
    "fdtrc": "Q, Q[::-1], U", "gdtr": "Q, Q[::-1], U", "gdtrc": "Q, Q[::-1], U",
    "gammainc": "Q, U", "gammaincc": "Q, U", "gammaln": "Q", "loggamma": "Q", "psi": "Q",
    "digamma": "Q", "gamma": "V", "rgamma": "V", "huber": "Q, W", "pseudo_huber": "Q, W",
    **dict.fromkeys(("jv", "jn", "yv", "yn", "iv", "ive", "kv", "kn", "kve"), "3, Q + 1"),
    "k0": "Q", "k1": "Q", "k0e": "Q", "k1e": "Q", "y0": "Q", "y1": "Q", "logit": "U", "ndtri": "U",
    "pdtr": "I, U", "pdtrc": "I, U", "poch": "Q, U", "powm1": "Q, W", "rel_entr": "Q, U",
    "kl_div": "Q, U", "entr": "Q", "xlogy": "V, Q", "xlog1py": "V, Q", "stdtr": "1 + Q, V",
    "agm": "Q, U", "airy": "V", "betaincinv": "Q, 1 + U, U", "betainccinv": "Q, 1 + U, U",
    "chdtri": "Q, U", "ellipe": "V", "ellipeinc": "3 * V, W", "ellipk": "V",
    "ellipkinc": "3 * V, W",
    "ellipkm1": "U", "elliprf": "Q, U, Q[::-1]", "exp1": "Q", "expi": "V", "expn": "I, Q",
    "fdtri": "Q, 1 + U, U", "gammaincinv": "Q, U", "gammainccinv": "Q, U", "gdtrix": "Q, 1 + U, U",
    "hyp0f1": "3, V", "hyp1f1": "1, 3, V", "hyp2f1": "1, 2, 3, V", "hyperu": "1, 3, Q",
    "modstruve": "1, Q", "ndtri_exp": "-Q", "owens_t": "V, W", "shichi": "Q", "sici": "Q",
    "spence": "Q", "stdtrit": "1 + Q, U", "struve": "1, Q", "tklmbda": "V, 0.5",
    "wright_bessel": "1, 3, Q", "jve": "3, Q + 1", "yve": "3, Q + 1",
    "eval_genlaguerre": "I, 2, V", "eval_gegenbauer": "I, 2, V", "eval_jacobi": "I, 2, 1, V",
    "beta": "Q, U", "betaln": "Q, U", "zetac": "2 + Q", "radian": "V, W, Q", "cotdg": "Q",
    **{f"eval_{n}": "I, V" for n in (
        "chebyt", "chebyu", "hermite", "hermitenorm", "laguerre", "legendre", "sh_chebyt",
        "sh_chebyu", "chebyc", "chebys", "sh_legendre")},
}  # fmt: skip
CALLS: dict[str, tuple[str, ...]] = {
    "all": ("C", "C, axis=0", "A, axis=(0, 1), keepdims=True", "C, where=B > 0"),
    "any": ("C", "C, axis=0", "C, where=B > 0"),
    "argmax": ("A", "A, axis=1", "A, axis=0, keepdims=True"),
    "argmin": ("A", "A, axis=1"),
    "average": ("A", "A, axis=1, weights=P", "A, axis=0, weights=Q[:3], returned=True"),
    "count_nonzero": ("C", "C, axis=1, keepdims=True"),
    "cumprod": ("A", "A, axis=1"),
    "cumsum": ("A", "A, axis=0", "I", "C, axis=1"),
    "cumulative_prod": ("V", "A, axis=1, include_initial=True"),
    "cumulative_sum": ("V", "A, axis=0, include_initial=True"),
    **dict.fromkeys(("max", "amax", "min", "amin"), (
        "A", "T, axis=(0, 2)", "A, axis=1, keepdims=True", "A, axis=0, initial=0.5",
        "A, axis=1, where=C, initial=0.2", "I")),
    "mean": ("A", "T, axis=(0, 2)", "I", "A, axis=1, keepdims=True, where=C"),
    "median": ("A", "T, axis=(0, 1)", "I"),
    **dict.fromkeys(("nanargmax", "nanargmin"), ("N", "N, axis=0")),
    **dict.fromkeys(("nancumprod", "nancumsum"), ("N", "N, axis=1")),
    **dict.fromkeys(("nanmax", "nanmin", "nanmean", "nanmedian", "nanprod", "nansum"), (
        "N", "N, axis=0", "N, axis=1, keepdims=True")),
    **dict.fromkeys(("nanstd", "nanvar"), ("N", "N, axis=0, ddof=1")),
    **dict.fromkeys(("percentile", "nanpercentile"), (
        "A, 30", "A, [10, 50, 90], axis=0", "A, 40, method='higher'")),
    **dict.fromkeys(("quantile", "nanquantile"), (
        "A, 0.3", "A, [0.1, 0.5], axis=1, keepdims=True", "T, 0.4, axis=(0, 2)",
        *(f"A, [0.2, 0.75], axis=1, method={m!r}" for m in (
            "hazen", "inverted_cdf", "averaged_inverted_cdf", "closest_observation")),
        "A, [0.1, 0.6], weights=P, method='inverted_cdf'")),
    "prod": ("A", "T, axis=(0, 2)", "I", "A, axis=1, where=C, initial=2.0"),
    "ptp": ("A", "A, axis=1"),
    **dict.fromkeys(("std", "var"), (
        "A", "T, axis=(0, 2)", "A, axis=1, ddof=1, keepdims=True", "Z", "I", "A, where=C",
        "A, axis=0, correction=1")),
    "sum": ("A", "T, axis=(0, -1)", "I", "C, axis=0", "A, axis=1, keepdims=True, initial=2.0",
            "A, where=C", "A, axis=()", "A, dtype='float32'", "I.astype('uint8')"),
    "angle": ("Z", "Z, deg=True", "V"),
    "around": ("10 * V", "10 * V, decimals=1"),
    "round": ("10 * V", "10 * V, 1", "I"),
    "astype": ("V, 'float32'", "I, float"),
    "clip": ("A, -0.3, 0.4", "A, B - 0.2, B + 0.2", "A, min=0.1", "A, None, 0.2", "I, 1, None"),
    "fix": ("3 * V",),
    "i0": ("V",),
    "imag": ("Z", "V"),
    "interp": ("V, SORTED[1:-1], W[:3]", "V, SORTED[1:4], W[:3], left=0.0, right=2.0",
               "3 * V, SORTED, W, period=1.5"),
    "isclose": ("V, W", "V, V + 1e-9"),
    "iscomplex": ("Z", "V"),
    "isin": ("I, [0, 1]", "I, [2], invert=True"),
    **dict.fromkeys(("isneginf", "isposinf", "isreal"), ("V",)),
    "nan_to_num": ("N", "N, nan=2.0"),
    "piecewise": ("V, [V < 0, V >= 0], [lambda x: x**2, lambda x: 3 * x]", "V, [D], [1.0, 2.0]"),
    "real": ("Z", "V"),
    "real_if_close": ("Z", "V"),
    "select": ("[V < -0.3, V < 0.5], [V, W]", "[D], [V], 7.0"),
    "sinc": ("V",),
    "unwrap": ("9 * V", "9 * A, axis=0"),
    "where": ("D, V, W", "D, V, 0.0", "D", "I, V, W"),
    "append": ("A, B, axis=0", "A, V"),
    "array_split": ("V, 3", "A, [1, 3], axis=1"),
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), ("V[0]", "V", "V, A")),
    "block": ("[[M, W[:3, None]], [V[None, :3], V[None, :1]]]", "[V, 1.0]"),
    "broadcast_arrays": ("V[:3], M",),
    "broadcast_shapes": ("(3, 1), (4,)",),
    "broadcast_to": ("V, (2, 5)",),
    "column_stack": ("[V, W]",),
    **dict.fromkeys(("concatenate", "concat"), (
        "[A, B]", "[A, B], axis=1", "(A, B), axis=None", "[I, V]")),
    "copy": ("V",),
    "delete": ("V, 1", "A, [0, 2], axis=1", "V, slice(1, 3)"),
    "diag": ("V", "M", "M, 1"),
    "diagflat": ("A",),
    "diagonal": ("A", "T, 1, 0, 2"),
    "dsplit": ("T, 2",),
    "dstack": ("[V, W]",),
    "expand_dims": ("V, 0", "V, (0, 2)"),
    **dict.fromkeys(("flip", "fliplr", "flipud"), ("A",)),
    "hsplit": ("A, 2", "V, [2]"),
    "hstack": ("[V, W]", "[A, B]"),
    "insert": ("V, 2, 7.0", "A, 1, 5.0, axis=1", "V, [1, 3], [5.0, 6.0]", "A, 1, W[:4], axis=0"),
    "matrix_transpose": ("T",),
    "meshgrid": ("V, W", "V, W, indexing='ij'", "V, W[:2], sparse=True"),
    "moveaxis": ("T, 0, 2", "T, (0, 1), (2, 0)"),
    "pad": ("V, 2", "A, ((1, 2), (0, 1)), mode='edge'", "V, (1, 3), 'reflect'",
            "A, (1, 2), 'reflect', reflect_type='odd'",
            "V, 2, 'symmetric'", "V, 2, 'wrap'", "A, 1, 'constant', constant_values=3.0",
            "V, (2, 1), 'mean'", "A, 2, 'maximum'", "V, 3, 'linear_ramp', end_values=2.0",
            "A, (1, 0), 'median'", "V, 2, 'minimum', stat_length=2"),
    "ravel": ("A", "A, order='F'"),
    "repeat": ("V, 2", "A, [1, 2, 0], axis=0"),
    "reshape": ("A, (4, 3)", "A, -1", "A, (2, 6), order='F'"),
    "resize": ("V, (2, 4)", "V, 3"),
    "roll": ("V, 2", "A, (1, 2), axis=(0, 1)", "A, 1, axis=(0, 1)"),
    "rollaxis": ("T, 2", "T, 0, 3"),
    "rot90": ("A", "A, 3"),
    "split": ("T, 2", "V, [1, 4]"),
    "squeeze": ("V[None, :, None]", "V[None, :, None], axis=0"),
    "stack": ("[V, W]", "[V, W], axis=1"),
    "swapaxes": ("T, 0, 2",),
    "tile": ("V, 2", "A, (2, 1, 2)"),
    **dict.fromkeys(("transpose", "permute_dims"), ("T", "T, (1, 0, 2)")),
    "tri": ("3", "3, 4, 1, dtype=int"),
    **dict.fromkeys(("tril", "triu"), ("M", "A, 1", "T, -1")),
    "trim_zeros": ("V * (V > 0)", "V * (V > 0), 'f'"),
    "unstack": ("T", "T, axis=1"),
    "vsplit": ("T, 2",),
    "vstack": ("[V, W]", "[A, B]"),
    **dict.fromkeys(("convolve", "correlate"), (
        "V, W[:3]", "V, W[:3], mode='same'", "V, W[:3], mode='valid'", "W[:3], V", "I, L", "Z, V",
        "V[:2], W, 'full'", "V, W[:2], 'same'")),
    "corrcoef": ("A", "V, W", "A, rowvar=False"),
    "cov": ("A", "V, W", "A, bias=True", "A, rowvar=False, ddof=0", "A, aweights=Q[:4]"),
    "cross": ("A[:, :3], B[:, :3]", "A[:, :3].T, B[:, :3].T, axis=0"),
    "dot": ("V, W", "A, B.T", "T, B.T", "T, W[:4]", "V, 2.0", "T, T[0].T", "I, V",
            "T, T.swapaxes(1, 2)"),
    "einsum": ("'ij,kj->ik', A, B", "'ii', M", "A, [0, 1], B, [0, 1], [0]", "'i,i', I, V",
               "'...j->...', T"),
    "inner": ("V, W", "A, B", "V, 2.0"),
    "kron": ("A, V", "M, S"),
    "outer": ("V, W", "A, W"),
    "tensordot": ("A, B.T, 1", "A, B", "T, A, ([1, 2], [0, 1])"),
    "trace": ("M", "T, 1, 0, 2"),
    "vander": ("V", "V, 3, increasing=True"),
    "vdot": ("V, W", "Z, Z * 2", "A, B"),
    "argsort": ("A", "A, axis=None", "A, axis=0"),
    "digitize": ("V, SORTED[1:3]", "V, SORTED[::-1][1:3], right=True"),
    "lexsort": ("(I, I[::-1])",),
    "searchsorted": ("SORTED, W", "SORTED, W, side='right'", "V, W, sorter=np.argsort(V)"),
    "sort": ("A", "A, axis=0", "A, axis=None"),
    "sort_complex": ("Z",),
    "intersect1d": ("I, [2, 1, 5]", "I, [2, 1, 5], return_indices=True"),
    "setdiff1d": ("I, [2]",),
    "setxor1d": ("I, [2, 7]",),
    "union1d": ("I, [2, 7]",),
    "unique": ("I", "I, return_index=True, return_inverse=True, return_counts=True", "V"),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse"), ("I",)),
    "argwhere": ("C",),
    "bincount": ("I", "I, V", "I, minlength=6"),
    "choose": ("I, [V, W, 2 * V]", "I + 2, [V, W, 2 * V], mode='wrap'"),
    "compress": ("[True, False, True], A, axis=0", "D, V"),
    **dict.fromkeys(("diag_indices", "tril_indices", "triu_indices"), ("3",)),
    "diag_indices_from": ("M",),
    "extract": ("C, A",),
    "flatnonzero": ("C",),
    "ix_": ("[0, 1], [2, 0, 3]", "D, [0, 1]"),
    "mask_indices": ("3, np.triu",),
    "nonzero": ("C",),
    "ravel_multi_index": ("([0, 1], [2, 1]), (2, 3)",),
    "take": ("V, I", "A, [[0, 3], [1, 1]], axis=1", "V, [7, -9], mode='wrap'", "V, -1"),
    "take_along_axis": ("A, J, 1", "A, J, axis=1"),
    "tril_indices_from": ("M",),
    "triu_indices_from": ("A, 1",),
    "unravel_index": ("[3, 5], (2, 3)",),
    "arange": ("5", "1, 4, 0.5", "3, dtype='float32'", "0, 10, 3"),
    "array": ("[1.0, 2.0]", "[[1, 2], [3, 4]]", "[V, W]", "V, ndmin=3", "V, dtype='float32'"),
    **dict.fromkeys(("asarray", "asanyarray", "ascontiguousarray", "asfortranarray"), (
        "V", "[1, 2]", "A, 'float32'")),
    "asarray_chkfinite": ("V",),
    **dict.fromkeys(("bartlett", "blackman", "hamming", "hanning"), ("7", "1")),
    **dict.fromkeys(("ones", "zeros"), ("3", "(2, 3)", "(2, 3), int")),
    "empty": (),
    "empty_like": (),
    "eye": ("3", "2, 4, 1", "3, dtype=int"),
    "frombuffer": ("b'12345678', 'int8'",),
    "fromfile": (),
    "fromfunction": ("lambda i, j: i + 2 * j, (2, 3)",),
    "fromiter": ("(i * 0.5 for i in range(3)), float",),
    "fromstring": ("'1 2', sep=' '",),
    "full": ("(2, 2), 3.5", "3, 2", "(2, 5), V"),
    "full_like": ("I, 2", "A, 2.5", "A, 1, dtype=int"),
    "geomspace": ("1.0, 8.0, 4", "1 + Q, 3.0, 3", "1.0, 8.0, 4, endpoint=False"),
    "identity": ("3",),
    "indices": ("(2, 3)",),
    "kaiser": ("7, 3.0",),
    "linspace": ("0.0, 1.0, 5", "V, W, 4", "0, 3, 4, endpoint=False", "V, 2.0, 3, axis=1",
                 "0.0, 5.0, 4, dtype=int"),
    "logspace": ("0.0, 1.0, 5", "V, W, 3, base=2.0"),
    **dict.fromkeys(("ones_like", "zeros_like"), ("A", "I, float", "A, shape=(2,)")),
    "diff": ("V", "A, 2", "A, axis=0", "V, prepend=0.0, append=W", "I"),
    "ediff1d": ("A", "V, 9.0, [1.0, 2.0]"),
    "gradient": ("V", "A", "V, 0.5", "A, axis=1", "V, SORTED", "V, edge_order=2",
                 "A, 2.0, np.cumsum(Q[:4])", "V, SORTED, edge_order=2"),
    "histogram": ("V", "V, 4, (-1, 1)", "V, SORTED, density=True", "V, 3, weights=W"),
    "histogram_bin_edges": ("V, 4",),
    "histogram2d": ("V, W, 3", "V, W, [2, 3], [[-1, 1], [-1, 1]]"),
    "histogramdd": ("(M[:, :2] + 2) ** 2, 2",),
    "poly": ("V", "S"),
    "polyadd": ("V, W[:2]",),
    "polyder": ("V", "V, 2"),
    "polydiv": ("V, W[:2]",),
    "polyfit": ("V, W, 2", "V, W, 1, w=Q"),
    "polyint": ("V", "V, 2", "V, 1, 3.0"),
    "polymul": ("V, W[:2]",),
    "polysub": ("V, W[:2]",),
    "polyval": ("V, W", "V, 2.0"),
    "roots": (),
    "trapezoid": ("V", "A, axis=0", "V, SORTED", "A, dx=0.5"),
    "apply_along_axis": ("np.cumsum, 0, A", "lambda r: (r**2).sum(), 1, A"),
    "apply_over_axes": ("np.sum, T, [0, 2]",),
    "vectorize": (),
    "allclose": ("V, V", "V, W"),
    "array_equal": ("V, V", "V, A"),
    "array_equiv": ("V, V[None]", "V, A"),
    "can_cast": ("'int32', float",),
    "common_type": ("V", "I"),
    **dict.fromkeys(("iscomplexobj", "isrealobj"), ("V", "Z")),
    "isscalar": ("3.0", "V"),
    "iterable": ("V", "3"),
    **dict.fromkeys(("may_share_memory", "shares_memory"), ("V, W",)),
    "min_scalar_type": ("3",),
    "ndim": ("A",),
    "promote_types": ("'int32', 'float32'",),
    "result_type": ("V, I", "I, 'float32'"),
    "shape": ("A",),
    "size": ("A", "A, 1"),
}  # fmt: skip
LINALG: dict[str, tuple[str, ...]] = {
    "cholesky": ("S", "S, upper=True"),
    "cond": ("M", "M, 1", "A"),
    "cross": ("A[:, :3], B[:, :3]", "A[:, :3], V[:3]"),
    **dict.fromkeys(("det", "inv", "slogdet"), ("M",)),
    "diagonal": ("T", "M, offset=1"),
    "eig": (),
    "eigh": (),
    "eigvals": (),
    "eigvalsh": ("S", "S, 'U'"),
    "lstsq": ("A.T, V[:4]", "A.T, B.T"),
    "matmul": ("A, B.T",),
    "matrix_norm": ("A", "A, ord=1", "A, keepdims=True", "A, ord='nuc'"),
    "matrix_power": ("M, 3", "M, -2"),
    "matrix_rank": ("M", "A, 0.5"),
    "matrix_transpose": ("T",),
    "multi_dot": ("[A, B.T, M]",),
    "norm": (
        "V",
        "A",
        "A, axis=1",
        "A, 1",
        "V, 3",
        "A, 'nuc'",
        "T, axis=(0, 2), keepdims=True",
        "A, np.inf",
        "A, 2",
    ),
    "outer": ("V, W",),
    "pinv": ("A", "M"),
    "qr": (),
    "solve": ("M, V[:3]", "M, A", "S, T"),
    "svd": ("A, compute_uv=False",),
    "svdvals": ("A",),
    "tensordot": ("A, B.T, axes=1",),
    "tensorinv": ("(M[:2, :2, None, None] * S[:2, :2]).swapaxes(1, 2)",),
    "tensorsolve": ("M, V[:3]",),
    "trace": ("M", "T, offset=1"),
    "vecdot": ("A, B", "A, B, axis=0"),
    "vector_norm": ("V", "A, axis=0", "A, ord=3", "A, keepdims=True"),
}
FFT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("fft", "ifft"), ("V", "Z, 7", "A, axis=0, norm='ortho'", "I")),
    **dict.fromkeys(("rfft", "ihfft"), ("V", "V, 4", "A, axis=0")),
    **dict.fromkeys(("irfft", "hfft"), ("Z", "Z, 6", "A, axis=0, norm='forward'")),
    **dict.fromkeys(
        ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn"), ("A", "T, (2, 3), (0, 2)")
    ),
    **dict.fromkeys(("irfft2", "irfftn"), ("A",)),
    **dict.fromkeys(("fftshift", "ifftshift"), ("V", "A, 1", "A")),
    **dict.fromkeys(("fftfreq", "rfftfreq"), ("5", "4, 0.5")),
}
SPECIAL: dict[str, tuple[str, ...]] = {
    "factorial": ("Q",),
    "comb": ("3 + Q, 1 + U",),
    "log_softmax": ("A", "A, axis=1"),
    "softmax": ("A", "A, axis=0"),
    "logsumexp": ("A", "A, axis=1, keepdims=True", "A, b=P", "A, axis=0, return_sign=True"),
    "multigammaln": ("3 + Q, 2",),
    "polygamma": ("1, Q",),
    "sinc": ("V",),
    "softplus": ("V",),
    "zeta": ("2 + Q, U", "2 + Q"),
}
pytestmark = pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
WINDOWS = {"sliding_window_view": ("V, 3", "A, (2, 3)", "T, 2, axis=1", "T, (2, 2), axis=(1, 1)")}
SCIPY_LINALG = {
    "block_diag": ("A, M", "V, 3.0"), "cholesky": ("S", "S, lower=True"), "det": ("M",),
    "cho_factor": (), "cho_solve": (), "expm": ("M", "T[:, :3, :3]"), "inv": ("M",),
    "lu": ("M", "M, permute_l=True"), "solve": ("M, W[:3]", "M, A", "M, A, transposed=True"),
    "solve_sylvester": ("S, M, A[:, :3]",), "sqrtm": ("S", "K"), "logm": ("S",),
    "polar": ("S", "A", "A, side='left'"), "svdvals": ("A",),
    "solve_triangular": ("M, W[:3]", "M, A, lower=True", "M, A, 1", "M, W[:3], 'C', True"),
    "toeplitz": ("V", "V, W[:3]", "Z"),
}  # fmt: skip
PER_MODULE = {
    "scipy_linalg": SCIPY_LINALG,
    "": CALLS, "linalg": LINALG, "fft": FFT, "special": SPECIAL, "stride_tricks": WINDOWS,
}  # fmt: skip
# Two of several equally right answers, or values that nobody set: compared elsewhere or not at all.
WITHOUT_SAMPLES = {"argpartition", "partition", "copyto", "fill_diagonal", "place", "put",
                   "put_along_axis", "putmask", "row_stack", "unique_values",
                   "from_dlpack", "frompyfunc"}  # fmt: skip
# Functions that NumPy does not hand to others, or that take no arrays.
NOT_HANDED_ON = {"asarray_chkfinite", "isscalar", "iterable", "broadcast_shapes", "vectorize",
                 "promote_types", "apply_along_axis", "array", "asarray", "asanyarray",
                 "ascontiguousarray", "asfortranarray", "full"}  # fmt: skip


def _samples(module: str, name: str) -> tuple[str, ...]:
    row = reading.TABLES[module][name]
    if reading.is_ufunc(row):
        ufunc = getattr(THEIRS[module], name)
        given = (FOR_UFUNCS if module == "" else FOR_SPECIAL).get(name)
        return (given or ", ".join("VWQ"[: ufunc.nin]),)
    return PER_MODULE[module].get(name, ())


CASES = [
    (module, name, sample)
    for module, rows in reading.TABLES.items()
    for name, row in rows.items()
    if row.section not in ("theirs", "same")
    for sample in _samples(module, name)
]


def _call(function: Any, sample: str, arrays: dict[str, Any]) -> Any:
    return eval(f"function({sample})", {"function": function, "np": np, **arrays})


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


def _plain(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, ad.Tensor) else np.asarray(value)


def _same(ours: Any, theirs: Any, *, dtype: bool = True) -> None:
    left, right = _leaves(ours), _leaves(theirs)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        a, b = _plain(a), np.asarray(b)
        assert a.shape == b.shape
        if dtype:
            assert a.dtype == b.dtype
        if a.dtype.kind in "biufc":
            assert np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)
        else:
            assert np.array_equal(a, b)


@pytest.mark.parametrize(("module", "name", "sample"), CASES, ids=lambda v: v or "numpy")
def test_every_name_equals_numpys(module: str, name: str, sample: str) -> None:
    expected = _call(getattr(THEIRS[module], name), sample, ARRAYS)
    ours = reading.function(module, name)
    _same(_call(ours, sample, ARRAYS), expected)
    if any(letter in sample for letter in ARRAYS) and name not in NOT_HANDED_ON:
        tensors = {k: ad.tensor(v) for k, v in ARRAYS.items()}
        row = reading.TABLES[module][name]
        if row.section not in ("special", "scipy_linalg"):  # SciPy takes arrays
            got = _call(getattr(THEIRS[module], name), sample, tensors)
            _same(got, expected)
            assert any(isinstance(v, ad.Tensor) for v in _leaves(got)) or not isinstance(
                _leaves(expected)[0], np.ndarray
            )


def _is_of(value: Any, said: Any) -> bool:
    """Whether a value is of a type: Tensor, bool, list[Tensor], tuple[Tensor, ...]."""
    origin, inside = get_origin(said), get_args(said)
    if said is Any or origin is None:
        return said is Any or isinstance(value, said or type(None))
    parts = inside[:1] * len(value) if origin is list or inside[1:] == (...,) else inside
    return isinstance(value, origin) and all(map(_is_of, value, parts))


def test_a_name_returns_what_its_row_says() -> None:
    """One tensor, unless a type stands there; type checkers are told so."""
    for module, name, sample in CASES:
        function = reading.function(module, name)
        found = _call(function, sample, ARRAYS)
        if isinstance(function, Ufunc):
            assert function.nout == (1 if isinstance(found, ad.Tensor) else len(found)), name
        elif reading.TABLES[module][name].section not in ("same", "theirs"):
            said = inspect.signature(function).return_annotation
            assert _is_of(found, said), (name, said, found)


def _total(found: Any, weights: list[Any]) -> Any:
    """A number made of all results that have derivatives."""
    total: Any = 0.0
    for leaf, weight in zip(_leaves(found), weights, strict=True):
        if weight is not None:
            total = total + (leaf * weight).sum()
    return total.real


@pytest.mark.parametrize(("module", "name", "sample"), CASES, ids=lambda v: v or "numpy")
def test_every_gradient_equals_differences(module: str, name: str, sample: str) -> None:
    function = getattr(THEIRS[module], name)
    found = _leaves(_call(function, sample, ARRAYS))
    weights = [
        _random.standard_normal(np.shape(v)) if np.asarray(v).dtype.kind in "fc" else None
        for v in found
    ]
    used = [k for k, v in ARRAYS.items() if k in sample and v.dtype.kind == "f" and k != "N"]
    if not used or not any(w is not None for w in weights) or "float32" in sample:
        return
    ours = reading.function(module, name)

    def of_ours(arrays: dict[str, Any]) -> Any:
        return _total(_call(ours, sample, {**ARRAYS, **arrays}), weights)

    for key in used:
        x = ARRAYS[key]
        gradient = ad.grad(lambda t, key=key: of_ours({key: t}))(ad.tensor(x)).numpy()
        if not _close_to_differences(function, sample, weights, key, gradient):
            raise AssertionError(f"the gradient of {key} in {name}({sample}) is {gradient}")


def _close_to_differences(
    function: Any, sample: str, weights: list[Any], key: str, gradient: Any
) -> bool:
    x, step = ARRAYS[key], 1e-6
    direction = _random.standard_normal(x.shape)
    if key == "S":
        direction = direction + direction.T
    ends = [
        _total(_call(function, sample, {**ARRAYS, key: x + s * step * direction}), weights)
        for s in (1, -1)
    ]
    wanted = (ends[0] - ends[1]) / (2 * step)
    return bool(np.isclose((gradient * direction).sum(), wanted, rtol=1e-5, atol=1e-6))


# Of these SciPy and NumPy choose by how they compute: in double precision, or by where zeros are.
OWN_DTYPES = {"factorial", "multigammaln", "polygamma", "histogram2d", "polydiv", "polymul"}


@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.filterwarnings("ignore")
def test_dtypes_of_every_name_are_numpys(kind: str) -> None:
    def converted(array: Any) -> Any:
        if array.dtype.kind != "f" or np.isnan(array).any():
            return array
        return array.astype(kind) if kind == "float32" else np.round(array * 3 + 4).astype(kind)

    arrays = {k: converted(v) for k, v in ARRAYS.items()}
    for module, name, sample in CASES:
        try:
            expected = _call(getattr(THEIRS[module], name), sample, arrays)
        except (TypeError, ValueError, np.linalg.LinAlgError):
            continue  # NumPy itself does not take these
        if name not in OWN_DTYPES:
            found = _leaves(_call(reading.function(module, name), sample, arrays))
            pairs = zip(found, _leaves(expected), strict=True)
            assert [_plain(a).dtype for a, _ in pairs] == [
                np.asarray(b).dtype for b in _leaves(expected)
            ], (name, sample)


# Names whose results have a shape, or an error, that only the values can tell.
DEPEND_ON_VALUES = {"asarray_chkfinite", "trim_zeros", "unique"}


@pytest.mark.parametrize("transform", ["trace", "vmap"])
def test_every_name_is_traced_and_batched(transform: str) -> None:
    for module, name, sample in CASES:
        key = next((k for k, v in ARRAYS.items() if k in sample and v.dtype.kind == "f"), None)
        if key is None or name in DEPEND_ON_VALUES:
            continue

        def tensors(t: Any, call: Any = (module, name, sample, key)) -> list[Any]:
            module, name, sample, key = call
            found = _call(reading.function(module, name), sample, {**ARRAYS, key: t})
            return [v for v in _leaves(found) if isinstance(v, ad.Tensor)]

        x = ad.tensor(ARRAYS[key])
        if expected := tensors(x):
            if transform == "trace":
                _same(ad.trace(tensors, x)(x), [v.numpy() for v in expected])
            else:
                batch = ad.vmap(tensors)(ad.stack([x, x]))
                _same([v[1] for v in batch], [v.numpy() for v in expected])


# -- the table ---------------------------------------------------------------------------------


SIZED = ("size", "fill_value")
OF_JAX = {
    **dict.fromkeys(("argwhere", "flatnonzero", "nonzero", "unique"), SIZED),
    **dict.fromkeys(("argsort", "sort"), ("descending",)),
    "bincount": ("length",), "repeat": ("total_repeat_length",), "take": ("fill_value",),
}  # fmt: skip


def test_sizes_that_jax_asks_for_are_known_to_compiled_programs() -> None:
    x = ad.tensor([0.0, 3.0, 0.0, 1.0, 3.0])
    cases = (
        (lambda v: door.nonzero(v, size=4, fill_value=9)[0], [1, 3, 4, 9]),
        (lambda v: door.flatnonzero(v > 2, size=1), [1]),
        (lambda v: door.argwhere(v, size=2), [[1], [3]]),
        (lambda v: door.where(v > 2, size=3, fill_value=-1)[0], [1, 4, -1]),
        (lambda v: door.unique(v, size=4), [0, 1, 3, 0]),
        (lambda v: door.unique(v, size=2), [0, 1]),
        (lambda v: door.bincount(v.astype(int), length=3), [2, 1, 0]),
        (lambda v: door.repeat(v[:2], door.array([1, 2]), total_repeat_length=3), [0, 3, 3]),
        (lambda v: door.sort(v, descending=True), [3, 3, 1, 0, 0]),
        (lambda v: door.argsort(v, descending=True), [1, 4, 3, 0, 2]),
        (lambda v: door.take(v, [1, 7], mode="fill", fill_value=5.0), [3, 5]),
    )
    for function, expected in cases:
        assert function(x).tolist() == expected
        assert ad.compile(function)(x).tolist() == expected
    assert np.isnan(door.take(x, 7, mode="fill"))


def test_arguments_have_numpys_names_and_order() -> None:
    # NumPy's own signatures do not say what they take, or have words that mean nothing any more
    free = {"arange", "where", "fromstring", "sqrtm", "logm"}
    for module, rows in reading.TABLES.items():
        for name, row in rows.items():
            if reading.is_ufunc(row) or row.section in ("theirs", "same") or name in free:
                continue
            if not hasattr(THEIRS[module], name):  # later versions of NumPy leave some names out
                continue
            theirs = inspect.signature(getattr(THEIRS[module], name)).parameters.values()
            ours = inspect.signature(reading.function(module, name)).parameters.values()
            of_numpy = [(p.name, p.kind) for p in ours if p.name not in OF_JAX.get(name, ())]
            assert of_numpy == [(p.name, p.kind) for p in theirs], name


def test_every_row_is_sampled() -> None:
    sampled = {(module, name) for module, name, _ in CASES}
    known = {(m, n) for m, rows in PER_MODULE.items() for n, calls in rows.items() if not calls}
    for module, rows in reading.TABLES.items():
        for name, row in rows.items():
            if row.section not in ("theirs", "same") and name not in WITHOUT_SAMPLES:
                assert (module, name) in sampled | known, name


def test_factors_are_factors() -> None:
    """What NumPy's function gives up to signs and phases is checked by what it is for."""
    x = ad.tensor(ARRAYS["S"])
    w, v = np.linalg.eigh(x)
    assert np.allclose((v * w) @ v.T, x)
    values, vectors = np.linalg.eig(x)
    assert np.allclose(x @ vectors, vectors * values)
    assert np.allclose(np.sort(np.linalg.eigvals(x).real), np.sort(w))
    u, s, vh = np.linalg.svd(A, full_matrices=False)
    assert np.allclose(np.matmul(u * s, vh), A)
    q, r = np.linalg.qr(ad.tensor(A))
    assert np.allclose(q @ r, A)
    assert np.allclose(np.sort(door.roots([1.0, -3.0, 2.0]).real), [1.0, 2.0])


def test_only_the_triangle_that_numpy_reads_has_a_gradient() -> None:
    matrix = ad.tensor(M + 3 * np.eye(3))
    pseudo_inverse = functools.partial(np.linalg.pinv, hermitian=True)
    for function in (np.linalg.eigvalsh, np.linalg.cholesky, pseudo_inverse):
        weights = np.arange(3.0) + 1
        gradient = ad.grad(lambda x, f=function, w=weights: np.sum(w * f(x)))(matrix)
        assert np.all(np.triu(gradient, 1) == 0)
        assert np.all(gradient[np.tril_indices(3)] != 0)


# -- ufuncs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["add", "multiply", "maximum", "minimum", "logaddexp", "subtract", "hypot", "fmax"]
)
def test_methods_of_ufuncs_are_numpys(name: str) -> None:
    theirs, x = getattr(np, name), ad.tensor(A)
    for axis in (0, 1):
        assert np.allclose(theirs.reduce(x, axis=axis), theirs.reduce(A, axis=axis))
        assert np.allclose(theirs.accumulate(x, axis=axis), theirs.accumulate(A, axis=axis))
    assert theirs.reduce(x, axis=1, keepdims=True).shape == (3, 1)
    assert np.allclose(theirs.reduce(x, initial=0.5), theirs.reduce(A, initial=0.5))
    assert np.allclose(theirs.outer(ad.tensor(V), W), theirs.outer(V, W))
    assert np.allclose(theirs.reduceat(ad.tensor(V), [0, 3]), theirs.reduceat(V, [0, 3]))
    expected, got = V.copy(), ad.tensor(V)
    theirs.at(expected, [0, 2, 0], 0.25)
    theirs.at(got, [0, 2, 0], 0.25)
    assert np.allclose(got, expected)
    ad.testing.gradcheck(
        lambda t: theirs.reduce(theirs.outer(t, t), axis=0), ad.tensor(V, requires_grad=True)
    )


def test_where_out_and_dtype_of_ufuncs() -> None:
    x, out = ad.tensor(V, requires_grad=True), ad.zeros(5, dtype=ad.float64)
    result = np.exp(x, out=out, where=V > 0)
    assert result is out
    assert np.allclose(result.detach(), np.where(V > 0, np.exp(V), 0))
    result.sum().backward()
    assert np.allclose(x.grad, np.where(V > 0, np.exp(V), 0))
    assert np.add(x, 1, dtype=np.float32).dtype is ad.float32
    target = np.zeros(5)
    assert np.sin(x.detach(), out=target) is target
    assert np.allclose(target, np.sin(V))
    with pytest.raises(GradError, match="x = x \\+ y"):
        target += x


@pytest.mark.parametrize("kind", ["bool", "int8", "uint16", "uint64", "float32"])
def test_whole_numbers_are_added_up_in_numpys_dtypes(kind: str) -> None:
    array = np.ones(3, kind)
    for f in (np.sum, np.prod, np.cumsum, np.nansum, np.add.reduce, np.multiply.accumulate):
        assert f(ad.tensor(array)).numpy().dtype == f(array).dtype, f


def test_vectorize_takes_matrices_and_vectors_by_a_signature() -> None:
    norms = door.vectorize(lambda m, v: m @ v, signature="(n,m),(m)->(n)")
    assert np.allclose(norms(T, W[:4]), T @ W[:4])
    gradient = ad.grad(lambda m: door.sum(norms(m, W[:4])))(ad.tensor(T))
    assert np.allclose(gradient, np.broadcast_to(W[:4], T.shape))
    with pytest.raises(ArgumentError, match="at least \\[2, 1\\] dimensions"):
        norms(V, W)


def test_vectors_of_products_are_along_an_axis() -> None:
    assert np.allclose(np.vecdot(ad.tensor(A), B, axis=0), np.vecdot(A, B, axis=0))
    with pytest.raises(ArgumentError, match="np.moveaxis"):
        np.matmul(ad.tensor(A), B, axes=[(0, 1), (1, 0), (0, 1)])


def test_dtypes_of_ufuncs_are_numpys() -> None:
    kinds = ["bool", "uint8", "int8", "int16", "int64", "float16", "float32", "float64"]
    for name in ("sin", "sqrt", "square", "negative", "add", "divide", "maximum", "equal", "hypot"):
        theirs, ours = getattr(np, name), getattr(door, name)
        for left in kinds:
            for right in kinds if theirs.nin == 2 else ["bool"]:
                arrays = [np.ones(2, left), np.ones((), right)][: theirs.nin]
                if name == "negative" and left == "bool":
                    continue
                assert ours(*arrays).numpy().dtype == theirs(*arrays).dtype, (name, left, right)
            for number in (True, 2, 0.5) if theirs.nin == 2 else ():
                dtype = theirs(np.ones(2, left), number).dtype
                assert ours(np.ones(2, left), number).numpy().dtype == dtype, (name, left, number)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**", "@", "<", "==", ">="])
def test_mixed_expressions_are_tensors(operator: str) -> None:
    """`array * x` is `x * array`'s mirror image: a tensor, with its dtype and its gradient."""
    x = ad.tensor(np.abs(V), dtype=ad.float32)
    others = [np.abs(W), np.arange(1, 6), np.abs(W).astype(np.float32), np.array(2.0)]
    for other in [*others[: 3 if operator == "@" else 4], *([] if operator == "@" else [
        np.float64(2), np.float32(2), np.int64(2)
    ])]:  # fmt: skip
        number = ad.as_tensor(other) if isinstance(other, np.ndarray) else other.item()
        left, same = (eval(f"a {operator} x", {"a": a, "x": x}) for a in (other, number))
        assert isinstance(left, ad.Tensor)
        assert left.dtype is same.dtype
        assert np.allclose(left, same)
    if operator not in ("<", "==", ">=", "//", "%"):
        weight = np.abs(W)
        names = {"weight": weight}
        gradient = ad.grad(lambda t: np.sum(eval(f"weight {operator} t", {**names, "t": t})))(
            x.to(ad.float64)
        )
        assert np.any(gradient != 0)


def test_products_of_mixed_dtypes_are_promoted() -> None:
    x, y = ad.tensor(A, dtype=ad.float32), ad.tensor(B)
    for function in (np.dot, np.matmul, np.inner, np.tensordot, np.kron, np.vdot):
        right = y if function in (np.inner, np.kron, np.tensordot, np.vdot) else y.T
        assert function(x, right).dtype is ad.float64
    assert np.einsum("ij,ij->i", x, y).dtype is ad.float64
    assert (A @ x.T).dtype is ad.float64
    assert np.linalg.solve(ad.tensor(S, dtype=ad.float32), A).dtype is ad.float64


# -- transforms --------------------------------------------------------------------------------


def _program(x: Any) -> Any:
    """NumPy code that knows nothing of tensors."""
    x = np.where(x > 0, np.sqrt(np.abs(x)), np.exp(x)) - np.mean(x, axis=0, keepdims=True)
    y = np.concatenate([x[::-1], np.cumsum(x, axis=0)]) @ np.linspace(0.0, 1.0, x.shape[-1])
    y = np.fft.irfft(np.fft.rfft(y)) + np.convolve(y, [0.25, 0.5, 0.25], mode="same")
    return np.linalg.norm(y) + np.add.reduce(np.clip(y, -0.5, 0.5)) + np.std(y, ddof=1)


def test_numpy_programs_run_in_every_transform() -> None:
    x = ad.tensor(A)
    value, gradient = ad.value_and_grad(_program)(x)
    assert np.allclose(value, _program(A))
    step = 1e-6 * B
    assert np.isclose(
        (gradient * ad.tensor(B)).sum().item(), (_program(A + step) - _program(A - step)) / 2e-6
    )
    assert np.allclose(ad.jvp(_program, (x,), (ad.tensor(B),))[1], (gradient.numpy() * B).sum())
    both = ad.stack([x, 2 * x])
    assert np.allclose(ad.vmap(ad.grad(_program))(both)[0], gradient)
    assert np.allclose(ad.trace(_program, x)(x), value)
    compiled = ad.compile(ad.value_and_grad(_program))(x)
    assert np.allclose(compiled[0], value)
    assert np.allclose(compiled[1], gradient)


def test_special_functions_of_scipy_take_tensors() -> None:
    def log_density(x: Any, a: Any) -> Any:
        return scipy.special.xlogy(a - 1, x) - x - scipy.special.gammaln(a)

    x, a = ad.tensor(ARRAYS["Q"]), ad.tensor(2.5, dtype=ad.float64)
    assert np.allclose(log_density(x, a), log_density(ARRAYS["Q"], 2.5))
    slope = ad.grad(lambda a: np.sum(log_density(x, a)))(a)
    exact = np.sum(np.log(ARRAYS["Q"]) - scipy.special.digamma(2.5))
    assert np.isclose(slope.item(), exact)


def test_scipys_dispatch_finds_special_functions() -> None:
    """Under SCIPY_ARRAY_API SciPy asks the namespace of the arrays for them."""
    code = """
import adjoint as ad, scipy.special as special
x = ad.tensor([0.5, 1.5], dtype=ad.float64)
for f, slope in ((special.gammaln, special.digamma), (special.expit, None), (special.ndtr, None)):
    found = ad.grad(lambda x: ad.sum(f(x)))(x)
    assert slope is None or ad.allclose(found, slope(x))
assert ad.allclose(ad.grad(special.logsumexp)(x), special.softmax(x))
"""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment)


# -- what leaves, and what comes in -------------------------------------------------------------


def test_what_has_no_operator_says_so() -> None:
    x = ad.tensor(V, requires_grad=True)
    with pytest.raises(TypeError, match=r"np.busday_count\(tensor\): there is no operator"):
        np.busday_count(x, x)
    with pytest.raises(TypeError, match=r"scipy.special.mathieu_a\(tensor\): there is no operator"):
        scipy.special.mathieu_a(x, x)
    with pytest.raises(GradError, match="np.stack"):
        np.array([x, x])
    with pytest.raises(ArgumentError, match="mask"):
        np.add(x, np.ma.masked_array(V, V > 0))
    with pytest.raises(AttributeError, match="did you mean"):
        door.summ


def test_values_are_printed_and_saved_by_numpy(tmp_path: Any) -> None:
    x = ad.tensor([1.0, 2.0])
    np.save(tmp_path / "x.npy", x)
    assert np.array_equal(door.load(tmp_path / "x.npy"), x)
    assert np.array2string(x) == "[1. 2.]"
    with pytest.raises(GradError, match=r"detach\(\)"):
        np.save(tmp_path / "x.npy", x.requires_grad_())


def test_objects_with_arrays_are_operands() -> None:
    class Series:
        """As a column of pandas."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return W.copy()

        def __array_ufunc__(self, *args: Any, **keywords: Any) -> Any:
            return NotImplemented

    x, y = ad.tensor(V), Series()
    for result in (x * y, y * x, np.multiply(x, y), door.multiply(V, y), ad.mul(x, y)):
        assert isinstance(result, ad.Tensor)
        assert np.allclose(result, V * W)
    assert np.allclose(ad.grad(lambda t: np.sum(t**2))(y), 2 * W)


def test_random_numbers_are_numpys() -> None:
    door.random.seed(3)
    ours = door.random.randn(2, 3)
    np.random.seed(3)
    assert np.array_equal(ours, np.random.randn(2, 3))
    assert isinstance(door.random.default_rng(0).normal(size=3), ad.Tensor)
    assert isinstance(door.random.randn(), float)


def test_numbers_are_doubles_whatever_the_default() -> None:
    for default in (ad.float32, ad.float16):
        before = ad.get_default_dtype()
        ad.set_default_dtype(default)
        try:
            made = (
                door.array([0.1, 0.2]), door.sin(0.1), door.mean([1, 2]), door.zeros(2),
                door.linspace(0, 1, 3), door.divide(1, 3), door.dot([0.1], [0.2]),
                door.where([True], 0.1, 0.2), door.std([1, 2]), door.fft.rfft([1, 2]).real,
            )  # fmt: skip
        finally:
            ad.set_default_dtype(before)
        assert all(m.dtype is ad.float64 for m in made)
        assert made[1].item() == math.sin(0.1)


def test_brackets_join_and_count() -> None:
    x = ad.tensor(V)
    assert np.array_equal(door.r_[x, 1:3, 0.5], np.r_[V, 1:3, 0.5])
    assert np.array_equal(door.c_[x, W], np.c_[V, W])
    assert np.array_equal(door.r_["0,2", x, W], np.r_["0,2", V, W])
    assert np.array_equal(door.mgrid[0:2, 0:3], np.mgrid[0:2, 0:3])
    gradient = ad.grad(lambda x: np.sum(door.c_[x, 2 * x] ** 2))(x)
    assert np.allclose(gradient, 10 * V)


def test_writing_functions_write() -> None:
    calls = [
        ("copyto", "x, 7.0"), ("copyto", "x, W, where=V > 0"), ("place", "x, V > 0, [1.0, 2.0]"),
        ("put", "x, [0, 3], [5.0, 6.0]"), ("putmask", "x, V > 0, W"),
    ]  # fmt: skip
    for name, sample in calls:
        expected, got = V.copy(), ad.tensor(V)
        _call(getattr(np, name), sample, {**ARRAYS, "x": expected})
        _call(getattr(np, name), sample, {**ARRAYS, "x": got})
        assert np.array_equal(got, expected), name
    expected, got = A.copy(), ad.tensor(A)
    for target in (expected, got):
        np.fill_diagonal(target, 9.0)
        np.put_along_axis(target, np.array([[0], [1], [2]]), 4.0, 1)
    assert np.array_equal(got, expected)


# -- Python's functions, and the cost -------------------------------------------------------------


def test_round_divmod_and_dtypes() -> None:
    x = ad.tensor([1.26, -2.5], dtype=ad.float64)
    assert np.array_equal(round(x), np.round([1.26, -2.5]))
    assert np.array_equal(round(x, 1), np.round([1.26, -2.5], 1))
    for pair, expected in (
        (divmod(x, 2), divmod(x.numpy(), 2)),
        (divmod(7, x), divmod(7, x.numpy())),
    ):
        assert all(np.allclose(a, b) for a, b in zip(pair, expected, strict=True))
    assert np.dtype(ad.float32) == np.float32 == ad.float32
    assert np.zeros(2, ad.complex64).dtype == ad.complex64
    assert ad.float32 != np.float64
    assert x.dtype.kind == "f"
    assert x.size == 2 == x.size(0)
    assert x.astype("float32").dtype is ad.float32


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have buffers from 3.12 on")
def test_tensors_have_buffers() -> None:
    x = ad.tensor([1.0, 2.0])
    view = memoryview(x)
    view[0] = 5.0
    assert x[0] == 5
    with pytest.raises(GradError):
        memoryview(x.requires_grad_())


def test_the_door_is_opened_when_numpy_first_asks() -> None:
    code = (
        "import sys, numpy as np, adjoint as ad; x = ad.ones(2);"
        "assert 'adjoint.doors.numpy' not in sys.modules; np.sin(x);"
        "assert 'adjoint.doors.numpy.protocol' in sys.modules;"
        "assert 'scipy.special' not in sys.modules; assert 'adjoint.numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- SciPy -------------------------------------------------------------------------------------


def _rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize(
    "method", ["BFGS", "L-BFGS-B", "SLSQP", "TNC", "Newton-CG", "trust-exact", "trust-constr"]
)
def test_minimizers_take_our_derivatives(method: str) -> None:
    second = {"hess": ad.hessian(_rosenbrock)} if method[0] in "Nt" else {}
    found = scipy.optimize.minimize(
        _rosenbrock, np.array([1.2, 0.8, 1.1]), jac=ad.grad(_rosenbrock), method=method, **second
    )
    assert type(found.x) is np.ndarray
    assert np.allclose(found.x, 1, atol=1e-2)


def test_the_first_call_of_all_may_be_a_librarys() -> None:
    code = (
        "import adjoint as ad, numpy as np; from scipy.optimize import minimize;"
        "f = lambda x: (x**2).sum(); r = minimize(ad.value_and_grad(f), np.ones(2), jac=True,"
        "method='L-BFGS-B'); assert type(r.jac) is np.ndarray"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_solvers_take_tensors_for_arrays() -> None:
    def curve(p: Any) -> Any:
        return p[0] * np.exp(-p[1] * np.linspace(0, 1, 9)) - 2 * np.exp(-1.5 * np.linspace(0, 1, 9))

    def on_tensors(p: Any) -> Any:
        return curve(ad.as_tensor(p))

    for function in (curve, on_tensors):
        fit = scipy.optimize.least_squares(function, [1.0, 1.0], jac=ad.jacobian(curve))
        assert np.allclose(fit.x, [2, 1.5])
        root = scipy.optimize.root(lambda p, f=function: f(p)[:2], [1.0, 1.0])
        assert np.allclose(root.x, [2, 1.5])
    motion = scipy.integrate.solve_ivp(
        lambda t, y: ad.stack([ad.as_tensor(y)[1], -ad.as_tensor(y)[0]]), (0, 1), [1.0, 0.0],
        method="Radau", jac=lambda t, y: ad.tensor([[0.0, 1.0], [-1.0, 0.0]]), rtol=1e-8,
    )  # fmt: skip
    assert np.allclose(motion.y[:, -1], [np.cos(1), -np.sin(1)], atol=1e-5)


@pytest.mark.parametrize(
    "run",
    [
        lambda f: ad.grad(lambda x: f(x).sum())(1.0),
        lambda f: ad.jvp(f, (ad.tensor(1.0),), (ad.tensor(1.0),)),
        lambda f: ad.vmap(f)(ad.ones(2)),
        lambda f: ad.trace(f, 1.0),
        lambda f: f(ad.tensor(1.0, requires_grad=True)),
    ],
    ids=["grad", "jvp", "vmap", "trace", "tape"],
)
def test_an_array_of_tensors_says_what_to_write_for_it(run: Any) -> None:
    """NumPy hands neither np.array nor lists of tensors on."""
    for function in (lambda x: np.array([x, 2 * x]), lambda x: np.mean([x, x])):
        with pytest.raises(ad.AdjointError, match=r"np.asarray\(x\).* Use np.stack\(\[x, y\]\)"):
            run(function)


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv", "ive", "kve"])
def test_bessel_functions_take_any_real_orders(name: str) -> None:
    """Also several, negative ones, and arguments at which only the scaled ones have a value."""
    ours, theirs = getattr(door.special, name), getattr(scipy.special, name)
    x = np.array([0.3, 2.0, 7.5])
    for order in (np.array([0.5, 2.0, 3.7]), 2, 2.0, -1.5, -2, np.array([[1.0], [1.0]])):
        np.testing.assert_allclose(ours(order, x).numpy(), theirs(order, x), rtol=2e-14)
    assert ad.autograd.gradcheck(lambda x: ours(1.5, x), ad.tensor(x, requires_grad=True))
    assert ad.autograd.gradgradcheck(lambda x: ours(1.5, x), ad.tensor(x, requires_grad=True))
    if name.endswith("e"):
        np.testing.assert_allclose(ours(1, 800.0).item(), theirs(1, 800.0), rtol=1e-14)
    with pytest.raises(ad.AdjointError, match="nu"):
        ad.grad(lambda order: ours(order, 2.0))(1.5)


def test_no_file_of_ours_hides_a_name_of_numpys() -> None:
    np.sin(ad.tensor(1.0))  # which imports what there is
    for name in reading.TABLES[""]:
        assert getattr(door, name) is reading.function("", name), name
