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

import math as _math
import sys as _sys
from typing import Any

from adjoint import _wiring, autograd, core, func, ops, table
from adjoint import absent as _absent
from adjoint._version import __version__
from adjoint.calls.autocast import (
    autocast,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from adjoint.calls.methods import (
    allclose,
    as_tensor,
    asarray,
    equal,
    from_numpy,
    get_device,
    is_inference,
    is_nonzero,
    is_same_size,
    is_tensor,
    numel,
    resize_as_,
    result_type,
    tensor,
)
from adjoint.core import errors
from adjoint.core import importing as _importing
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
from adjoint.core.errors import OutOfMemory as OutOfMemoryError
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
from adjoint.core.shapes import Size
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
from adjoint.homes.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from adjoint.library import library
from adjoint.ops.operator import exists as _exists
from adjoint.tensor.indexing import as_strided, nonzero
from adjoint.tensor.modes import (
    default_dtype,
    enable_grad,
    get_default_device,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_default_device,
    set_grad_enabled,
)
from adjoint.tensor.printing import get_printoptions, printoptions, set_printoptions
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.checkpoints import checkpoint
from adjoint.transforms.custom import custom_gradient, custom_jvp, custom_rule, custom_vjp
from adjoint.transforms.jacobians import (
    gvp,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    value_and_jacobian,
)
from adjoint.transforms.reverse import grad, stop_gradient, value_and_grad, vjp
from adjoint.transforms.vectorize import vmap

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
chalf, cfloat, cdouble = complex32, complex64, complex128
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None
dtype = DType
is_complex, is_floating_point, is_signed = (
    Tensor.is_complex, Tensor.is_floating_point, Tensor.is_signed,
)  # fmt: skip
is_conj, is_neg, detach_ = Tensor.is_conj, Tensor.is_neg, Tensor.detach_

# The upper layers, imported when first asked for, so that `import adjoint` stays light.
_MODULES = (
    "accelerator",
    "amp",
    "array_api",
    "backends",
    "compiler",
    "cpu",
    "cuda",
    "debug",
    "decompositions",
    "distributed",
    "distributions",
    "export",
    "fft",
    "graph",
    "lax",
    "linalg",
    "masked",
    "mps",
    "mtia",
    "multiprocessing",
    "nested",
    "nn",
    "numpy",
    "onnx",
    "optim",
    "overrides",
    "random",
    "return_types",
    "scipy",
    "serialization",
    "signal",
    "sparse",
    "special",
    "testing",
    "tree",
    "tree_util",
    "types",
    "utils",
    "version",
    "xpu",
)
_NAMES = {
    "ShapeDtype": "adjoint.graph",
    "Sparsity": "adjoint.sparse_derivatives.report",
    "compile": "adjoint.compiler.compiled",
    "associative_scan": "adjoint.graph.control.associative_scan",
    "closure_convert": "adjoint.graph.closures",
    "cond": "adjoint.graph.control.cond",
    "custom_linear_solve": "adjoint.graph.control.implicit",
    "custom_root": "adjoint.graph.control.implicit",
    "decompose": "adjoint.graph.passes.decompose",
    "differentiate": "adjoint.graph",
    "eval_shape": "adjoint.graph.closures",
    "fori_loop": "adjoint.graph.control.while_loop",
    "lagrangian_hessian": "adjoint.sparse_derivatives.derivatives",
    "linear_transpose": "adjoint.graph.closures",
    "load": "adjoint.serialization",
    "GradScaler": "adjoint.amp",
    "lobpcg": "adjoint.lowrank",
    "memory": "adjoint.reports.memory",
    "make_graph": "adjoint.graph.closures",
    "map": "adjoint.graph.control.associative_scan",
    "pca_lowrank": "adjoint.lowrank",
    "pure_callback": "adjoint.graph.control.callbacks",
    "save": "adjoint.serialization",
    "scan": "adjoint.graph.control.scan",
    "simplify": "adjoint.graph",
    "smoothness": "adjoint.reports.smoothness",
    "sparsity": "adjoint.sparse_derivatives.report",
    "spmm": "adjoint.sparse",
    "svd_lowrank": "adjoint.lowrank",
    "switch": "adjoint.graph.control.cond",
    "sparse_bsc_tensor": "adjoint.sparse",
    "sparse_bsr_tensor": "adjoint.sparse",
    "sparse_compressed_tensor": "adjoint.sparse",
    "sparse_coo_tensor": "adjoint.sparse",
    "sparse_csc_tensor": "adjoint.sparse",
    "sparse_csr_tensor": "adjoint.sparse",
    "trace": "adjoint.graph",
    "while_loop": "adjoint.graph.control.while_loop",
    **dict.fromkeys(
        (
            "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
            "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
            "is_anomaly_check_nan_enabled", "is_deterministic_algorithms_warn_only_enabled",
            "is_warn_always_enabled", "set_anomaly_enabled", "set_default_tensor_type",
            "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
            "set_num_interop_threads", "set_num_threads", "set_warn_always",
            "use_deterministic_algorithms",
        ),
        "adjoint.settings",
    ),
    **dict.fromkeys(
        (
            "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor",
            "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "typename",
        ),
        "adjoint.legacy",
    ),
    **dict.fromkeys(
        ("from_dlpack", "from_file", "frombuffer", "get_device_module", "to_dlpack"),
        "adjoint.exchange",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _importing.imported(f"adjoint.{name}")
    if name in _NAMES:
        found = getattr(_importing.imported(_NAMES[name]), name)
    elif name.startswith("__") or not _exists(name):
        raise _absent.absent("adjoint", name, () if name.startswith("_") else __dir__())
    else:
        found = ops.packet(name).function
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    modules = {"autograd", "errors", "func", "ops", *_MODULES}  # others are our own affair
    return sorted({*_OWN, *modules, *_NAMES, *(n for n in table.TABLE.names() if n[0] != "_")})


_OWN = {
    n for n, v in globals().items()
    if n[0] != "_" and type(v) is not type(_sys) and n not in ("Any", "annotations")
}  # fmt: skip
