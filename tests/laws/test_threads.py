"""Values do not depend on the number of threads, to the last bit: large arrays are shared in parts
whose borders stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.toolchain import build

COMPUTATIONS: dict[str, Callable[[Any], list[Any]]] = {
    "searches": lambda x: [ad.searchsorted(x[0].sort()[0], x)],
    "counts": lambda x: [ad.histc(x.reshape(-1), 10)],
    "running logarithms": lambda x: [x.logcumsumexp(0), x.logcumsumexp(1)],
    "reductions": lambda x: [x.sum(), x.sum(0), x.sum(1), x.prod(), x.norm(dim=1), x.std(0)],
    "scattered sums": lambda x: [
        x.scatter_add(dim, ad.zeros(x.shape, dtype=ad.int64), x) for dim in (0, 1)
    ],
    "rows added": lambda x: [x.index_add(0, ad.arange(300) * 7 % 290, x)],
    "complex sums": lambda x: [ad.complex(x, x.flip(0)).sum()],
    "distances": lambda x: [ad.cdist(x, x[:70])],
    "elements": lambda x: [x.T.sigmoid() * x[:1].T, ad.nn.functional.gelu(x)],
    "elements of halves": lambda x: [x.half().T.sigmoid(), ad.nn.functional.gelu(x.half())],
}


@pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
@pytest.mark.usefixtures("threads_restored")
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_values_do_not_depend_on_the_number_of_threads(name: str, dtype: Any) -> None:
    x = ad.tensor(1 + 0.1 * np.random.default_rng(0).standard_normal((300, 401)), dtype=dtype)
    found = []
    for count in (1, 2, 3):
        ad.set_num_threads(count)
        found.append([result.numpy() for result in COMPUTATIONS[name](x)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
