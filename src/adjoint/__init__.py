"""adjoint: derivatives of numerical Python.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x.sin() * x).sum().backward()
    >>> x.grad
    tensor([ 1.3818,  0.0770, -2.8289])

Functions of the table (`ad.sin`, `ad.linalg.vector_norm`, …) and the upper layers (graphs, the
compiler, export) are found by name when they are first used; `dir(ad)` lists everything.
"""

from __future__ import annotations

import importlib as _importlib
import math as _math
from typing import Any

from adjoint import _wiring, autograd, core, func, ops, table
from adjoint._version import __version__
from adjoint.core import errors
from adjoint.core.devices import Device as device  # noqa: N813 - PyTorch spells it so
from adjoint.core.dtypes import (
    DType,
    bfloat16,
    complex32,
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
    uint16,
    uint32,
    uint64,
)
from adjoint.core.dtypes import bool_ as bool
from adjoint.core.errors import AdjointError
from adjoint.core.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from adjoint.core.layouts import Layout as layout  # noqa: N813 - PyTorch spells it so
from adjoint.core.layouts import MemoryFormat as memory_format  # noqa: N813
from adjoint.core.layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from adjoint.core.promotion import can_cast, promote_types
from adjoint.core.pytrees import register as register_pytree
from adjoint.functions import (
    broadcast_shapes,
    chain_matmul,
    einsum,
    lu,
    tensordot,
    unique,
    unique_consecutive,
    unravel_index,
)
from adjoint.library import library
from adjoint.ops.namespace import Namespace as _Namespace
from adjoint.ops.operator import exists as _exists
from adjoint.tensor.indexing import as_strided, nonzero
from adjoint.tensor.methods import (
    allclose,
    as_tensor,
    asarray,
    equal,
    from_numpy,
    is_inference,
    is_tensor,
    numel,
    result_type,
    tensor,
)
from adjoint.tensor.modes import (
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from adjoint.tensor.printing import get_printoptions, printoptions, set_printoptions
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.checkpoints import checkpoint
from adjoint.transforms.custom import custom_jvp, custom_rule, custom_vjp
from adjoint.transforms.jacobians import (
    gvp,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
)
from adjoint.transforms.reverse import grad, stop_gradient, value_and_grad, vjp
from adjoint.transforms.vectorize import vmap

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
chalf, cfloat, cdouble = complex32, complex64, complex128
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None

linalg = _Namespace("linalg", LinAlgError=errors.LinAlgError)
special = _Namespace("special")
fft = _Namespace("fft")

# The upper layers, imported when first asked for, so that `import adjoint` stays light.
_MODULES = (
    "compiler",
    "decompositions",
    "export",
    "graph",
    "masked",
    "nested",
    "nn",
    "optim",
    "random",
    "serialization",
    "signal",
    "sparse",
    "testing",
    "utils",
)
_NAMES = {
    "ShapeDtype": "adjoint.graph",
    "compile": "adjoint.compiler.compiled",
    "cond": "adjoint.graph.control",
    "decompose": "adjoint.graph.passes.decompose",
    "differentiate": "adjoint.graph",
    "fori_loop": "adjoint.graph.control",
    "load": "adjoint.serialization",
    "lobpcg": "adjoint.lowrank",
    "pca_lowrank": "adjoint.lowrank",
    "save": "adjoint.serialization",
    "scan": "adjoint.graph.control",
    "simplify": "adjoint.graph",
    "svd_lowrank": "adjoint.lowrank",
    "sparse_bsc_tensor": "adjoint.sparse",
    "sparse_bsr_tensor": "adjoint.sparse",
    "sparse_compressed_tensor": "adjoint.sparse",
    "sparse_coo_tensor": "adjoint.sparse",
    "sparse_csc_tensor": "adjoint.sparse",
    "sparse_csr_tensor": "adjoint.sparse",
    "trace": "adjoint.graph",
    "while_loop": "adjoint.graph.control",
}
# What users of PyTorch may look for in vain, and what to do instead.
_ABSENT = {
    "cuda": ": tensors live on the CPU",
    "device_count": ": tensors live on the CPU",
    "jit": ": ad.compile makes native code of a function",
    "mps": ": tensors live on the CPU",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _importlib.import_module(f"adjoint.{name}")
    if name in _NAMES:
        found = getattr(_importlib.import_module(_NAMES[name]), name)
    elif name.startswith("__") or not _exists(name):
        known = () if name.startswith("_") else __dir__()
        reason = _ABSENT.get(name) or errors.did_you_mean(name, known)
        raise AttributeError(f"adjoint has no {name!r}{reason}")
    else:
        found = ops.packet(name).function
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    own = (n for n in globals() if not n.startswith("_"))
    return sorted({*own, *_MODULES, *_NAMES, *(n for n in table.TABLE.names() if n[0] != "_")})
