"""Special functions and derivatives by their Python text: of vectors as of single numbers."""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np

import adjoint as ad

SIZES = np.geomspace(1e-8, 1e8, 33)
POINTS = ad.tensor(np.concatenate([-SIZES[8:], SIZES, [0.0, 0.5, 1.0, np.inf, np.nan]]))


def takes_one_number(function: Any) -> bool:
    given = inspect.signature(function).parameters.values()
    return len([p for p in given if p.default is p.empty]) == 1


def check(name: str) -> int:
    function = getattr(ad.special, name)
    slope = lambda x: ad.grad(lambda x: function(x).sum())(x)
    with np.errstate(all="ignore"):
        for each in (function, slope):
            vector = each(POINTS).numpy()
            single = np.concatenate([each(POINTS[i : i + 1]).numpy() for i in range(len(POINTS))])
            np.testing.assert_allclose(vector, single, 1e-9, 1e-300, err_msg=name)
    return 2 * len(POINTS)


if __name__ == "__main__":
    assert os.environ["ADJOINT_NATIVE"] == "0"
    NAMES = [n for n in dir(ad.special) if n[0] != "_" and takes_one_number(getattr(ad.special, n))]
    REAL = [n for n in NAMES if n not in ("logit", "round")]  # which have no kernel of their own
    print(sum(map(check, REAL)), "numbers of", len(REAL), "functions")
