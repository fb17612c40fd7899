"""Where the layers are handed to one another, once, before anything else of the package runs.

Operators do not import tensors, and the tape does not import transforms. The functions that they
need of the layers above are given to them here.
"""

from __future__ import annotations

import warnings

from adjoint import exchange, legacy
from adjoint.c_kernels import conversions
from adjoint.calls import dispatch, eager, gradients, methods, operators
from adjoint.core import allocation, generator, promotion
from adjoint.core.importing import imported
from adjoint.functions import lu, polygamma_of, unique, unique_consecutive
from adjoint.homes import complex32, fans, nested, pullback, sparse, subclasses
from adjoint.ops import runtime
from adjoint.table import TABLE
from adjoint.tape.saved import saved_attribute
from adjoint.tensor import memory, shared_memory
from adjoint.tensor.nodes import Node
from adjoint.tensor.tensor import Tensor, make, offer
from adjoint.transforms import jacobians
from adjoint.transforms.batch import mapped
from adjoint.transforms.vectorize import vmap

runtime.install(
    Tensor,
    make,
    methods.tensor_of,
    eager.build,
    eager.build_parts,
    sparse.assemble,
    dispatch.again,
)
runtime.gradients = pullback.gradients
operators.install()
methods.install()
legacy.install()
subclasses.install()
nested.install()
complex32.install()
memory.install()
shared_memory.install()
exchange.install()
Tensor.unique, Tensor.unique_consecutive = unique, unique_consecutive  # type: ignore[attr-defined]
Tensor.lu, Tensor.polygamma = lu, polygamma_of  # type: ignore[attr-defined]
offer(TABLE.names())
gradients.vmap = vmap
fans.mapped = mapped
jacobians.SparseMaker.make = lambda *asked: imported(  # a layer that most programs never load
    "adjoint.sparse_derivatives.derivatives"
).made(*asked)
generator.wrap = methods.from_numpy
promotion.large = conversions
Node.saved_attribute = staticmethod(saved_attribute)
# Infinities and NaN are results here, not accidents; NumPy's warnings about them are for its users.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")
allocation.keep_freed_memory()
