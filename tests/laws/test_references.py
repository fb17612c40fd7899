"""Values by other means: how many samples have one, and that the means are others."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections import Counter
from pathlib import Path

import pytest

from adjoint.core import dtypes
from adjoint.table import FAMILIES, TABLE
from adjoint.testing import references, samples
from adjoint.testing.samples import backwards

# Percent of a family's samples in float64 (complex128 where it takes no other) that have a
# reference, at least. What is left: results that are random (dropout, random), not unique (most
# factors of linalg) or uninitialised (creation), and families that nobody has written yet.
SHARES = {
    "activation": 94,
    "attention": 62,
    "convolution": 100,
    "creation": 69,
    "dropout": 0,
    "embedding": 12,
    "fft": 90,
    "foreach": 96,
    "indexing": 88,
    "linalg": 61,
    "loss": 50,
    "matmul": 89,
    "nested": 80,
    "normalization": 53,
    "padding": 78,
    "pointwise": 99,
    "pooling": 100,
    "quantization": 57,
    "random": 0,
    "recurrent": 70,
    "reduction": 81,
    "resampling": 94,
    "scan": 100,
    "shape": 99,
    "sorting": 42,
    "sparse": 80,
    "special": 81,
    "vendor": 70,
}
FILES = [m.name for m in pkgutil.iter_modules(references.__path__)]


def test_most_samples_have_an_independent_reference() -> None:
    total, known = Counter[str](), Counter[str]()
    for row in TABLE.rows():
        if any(backwards.forwards(row)) and not samples.samplers_of(row):
            continue  # laws compare the gradients of the forward with differences
        found = samples.for_row(row, dtypes.float64) or samples.for_row(row, dtypes.complex128)
        total[row.family] += len(found)
        known[row.family] += sum(reference is not None for _, reference in found)
    shares = {family: 100 * known[family] / total[family] for family in total}
    assert shares.keys() == SHARES.keys()
    assert {f: share for f, share in shares.items() if share < SHARES[f]} == {}
    assert known.total() / total.total() > 0.82


@pytest.mark.parametrize("family", [name for name in FILES if name in FAMILIES])
def test_every_reference_names_an_operator(family: str) -> None:
    rows = [row for row in TABLE.rows() if row.family == family]
    known = {row.name for row in rows} | {row.full_name for row in rows}
    written = importlib.import_module(f"adjoint.testing.references.{family}").REFERENCES
    assert written.keys() - known == set()


@pytest.mark.parametrize("name", FILES)
def test_references_ask_nothing_of_ours(name: str) -> None:
    source = Path(references.__path__[0]) / f"{name}.py"
    imported = [
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    ours = {module for module in imported if module.startswith("adjoint")}
    assert {m for m in ours if not m.startswith("adjoint.testing.references.")} == set()
