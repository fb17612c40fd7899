"""Kernels in C stay inside their memory, whatever they are called with: under AddressSanitizer.

Every tensor argument of every row of a family that has native kernels is replaced by one that is
shorter, of another dtype or of another rank, and indices by wild ones. The call may raise what it
likes; an access outside of an array ends the process. This file is that process when it is run as a
program (see compiler/test_safety.py).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint.c_kernels import copies, distance, indexing, ordering, reduction, rows, selection
from adjoint.core import dtypes
from adjoint.ops.operator import operator
from adjoint.table import TABLE
from adjoint.testing import laws
from adjoint.toolchain import build
from tests.compiler.test_safety import leave_the_compiler_alone, sanitized

FAMILIES = (
    "attention", "convolution", "indexing", "normalization", "padding", "pooling", "recurrent",
    "reduction", "resampling", "scan", "shape", "sorting", "sparse",
)  # fmt: skip
CASES = 2  # of each row and dtype
# of families that mostly are NumPy's
NATIVE = {
    "shape": ("cat", "tril", "triu", "clone", "flip", "roll", "repeat", "stack", "copy", "fill"),
    "sorting": ("topk", "sort", "searchsorted", "_histc", "median", "kthvalue"),
}


def spoilt(tensor: ad.Tensor) -> Iterator[ad.Tensor]:
    """Tensors that do not fit where this one does."""
    yield ad.ones(7, 11, 13, dtype=tensor.dtype)
    for dim, size in enumerate(tensor.shape):
        if size:
            yield tensor.narrow(dim, 0, size - 1).clone()
            yield tensor.select(dim, 0).clone()
    if tensor.dtype.is_floating_point:
        yield tensor.to(ad.float32 if tensor.dtype is ad.float64 else ad.float64)
    elif tensor.dtype is not ad.bool:
        yield tensor + 1_000_000
        yield tensor - 1_000_000


def wrong_ones(given: Any) -> Iterator[Any]:
    """Arguments that do not fit where this one does: tensors, or lists that begin with one."""
    if isinstance(given, ad.Tensor) and given.layout is ad.strided:
        yield from spoilt(given)
    elif isinstance(given, (list, tuple)) and given and isinstance(given[0], ad.Tensor):
        yield from ([wrong, *given[1:]] for wrong in spoilt(given[0]))


def copied(value: Any) -> Any:
    """Memory of its own, so that what lies behind it is guarded."""
    if isinstance(value, (list, tuple)):
        return [copied(v) for v in value]
    return value.detach().clone() if isinstance(value, ad.Tensor) else value


def spoil(family: str) -> int:
    """Call every row of a family wrongly; how often."""
    for module in (copies, distance, indexing, ordering, reduction, rows, selection):
        module.LARGE = 1  # of small arrays, too
    copies._ALIKE = 1
    calls = 0
    for row in (row for row in TABLE.rows() if row.family == family):
        if row.name not in NATIVE.get(family, (row.name,)):
            continue
        call = operator(row.schema.name, row.schema.overload)
        for dtype in (dtypes.float64, dtypes.float32):
            for case in laws.cases(row, dtype)[:CASES]:
                for position, given in enumerate(case.arguments):
                    for wrong in wrong_ones(given):
                        arguments = [copied(a) for a in case.arguments]
                        arguments[position] = wrong
                        calls += 1
                        try:
                            call(*arguments)
                        except Exception:  # any error will do
                            continue
    return calls


@pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_arguments_touch_no_other_memory(family: str) -> None:
    done = sanitized(__file__, family)
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout) > 30


if __name__ == "__main__":
    leave_the_compiler_alone()
    warnings.simplefilter("ignore")
    print(spoil(sys.argv[1]))
