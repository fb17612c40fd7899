"""adjoint: derivatives of numerical Python.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x.sin() * x).sum().backward()
    >>> x.grad
    tensor([ 1.3818,  0.0770, -2.8289])

Functions of the table (`ad.sin`, `ad.linalg.vector_norm`, …) are found by name when they are first used; `dir(ad)` lists
them. This module is where the layers are wired together.
"""

from __future__ import annotations

import math as _math
import warnings as _warnings
from typing import Any

from adjoint import core, ops, table
from adjoint._version import __version__
from adjoint.core import errors
from adjoint.core.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from adjoint.core.dtypes import bool_ as bool
from adjoint.core.errors import AdjointError
from adjoint.core.generator import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from adjoint.core.promotion import can_cast, promote_types
from adjoint.ops import runtime as _runtime
from adjoint.ops.namespace import Namespace as _Namespace
from adjoint.ops.operator import exists as _exists
from adjoint.tensor import eager as _eager
from adjoint.tensor import limits as _limits
from adjoint.tensor import methods as _methods
from adjoint.tensor import operators as _operators
from adjoint.tensor.indexing import as_strided, nonzero
from adjoint.tensor.methods import allclose, as_tensor, asarray, equal, from_numpy, is_tensor, numel, result_type, tensor
from adjoint.tensor.modes import (
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from adjoint.tensor.printing import set_printoptions
from adjoint.tensor.tensor import Tensor

_runtime.install(Tensor, _methods.tensor_of, _eager.build, _eager.build_parts)
_runtime.quotient_limit = _limits.quotient_limit
_operators.install()
_methods.install()
# Infinities and NaN are results here, not accidents; NumPy's warnings about them are for NumPy's users.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")

from adjoint import autograd, nn, signal  # noqa: E402 - need the operators
from adjoint.functions import chain_matmul, einsum, tensordot, unique, unique_consecutive  # noqa: E402
from adjoint.library import library  # noqa: E402

Tensor.unique, Tensor.unique_consecutive = unique, unique_consecutive  # type: ignore[attr-defined]

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None

from adjoint import func, utils  # noqa: E402
from adjoint.core.pytrees import register as register_pytree  # noqa: E402
from adjoint.tensor import autograd as _tensor_autograd  # noqa: E402
from adjoint.transforms import functional as _functional  # noqa: E402
from adjoint.transforms.checkpoints import checkpoint  # noqa: E402
from adjoint.transforms.custom import custom_jvp, custom_rule, custom_vjp  # noqa: E402
from adjoint.transforms.jacobians import gvp, hessian, hvp, jacfwd, jacobian, jacrev, jvp, linearize  # noqa: E402
from adjoint.transforms.reverse import grad, stop_gradient, value_and_grad, vjp  # noqa: E402
from adjoint.transforms.vectorize import vmap  # noqa: E402

autograd.functional = _functional  # type: ignore[attr-defined]
_tensor_autograd.vmap = vmap
from adjoint import graph  # noqa: E402
from adjoint.graph import ShapeDtype, differentiate, simplify, trace  # noqa: E402
from adjoint import decompositions  # noqa: E402
from adjoint.graph.control import cond, fori_loop, scan, while_loop  # noqa: E402
from adjoint import export  # noqa: E402
from adjoint.graph.passes.decompose import decompose  # noqa: E402
from adjoint.graph.passes.decompose import table as _decomposition_table  # noqa: E402

decompositions.table = _decomposition_table

from adjoint.compiler.program import compile  # noqa: E402

linalg = _Namespace("linalg")
special = _Namespace("special")
fft = _Namespace("fft")


def __getattr__(name: str) -> Any:
    if name == "testing":
        import importlib

        return importlib.import_module("adjoint.testing")
    if name.startswith("_") or not _exists(name):
        raise AttributeError(f"adjoint has no {name!r}; `adjoint ops {name}` on the command line searches the operators")
    function = ops.packet(name).function
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in table.TABLE.names() if not n.startswith("_"))})
