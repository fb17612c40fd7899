"""Rows of a test: added, and taken out of the table again, so that no operator is left behind."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint.ops import operator as operators
from adjoint.table import TABLE
from adjoint.testing import samples


def forget(names: Iterable[str]) -> None:
    """Take operators out of the table, with everything that was built for them."""
    for name in names:
        if name in TABLE:
            TABLE.forget(name)
        operators.forget(name)
        for sampled in [n for n in samples._SAMPLERS if n.partition(".")[0] == name]:
            del samples._SAMPLERS[sampled]
        for owner in (ad.Tensor, ad, ad.ops):
            for attribute in (name, f"{name}_"):
                if attribute in vars(owner):
                    delattr(owner, attribute)


@contextmanager
def added(folder: Path, rows: str, kernels: Any = None) -> Generator[list[Any]]:
    """The operators of some rows, as long as the block runs."""
    path = folder / "mine.yaml"
    path.write_text(rows)
    before = set(TABLE.names())
    found = ad.library(path, kernels)
    try:
        yield found
    finally:
        forget(set(TABLE.names()) - before)
