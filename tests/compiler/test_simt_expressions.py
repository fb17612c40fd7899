"""Functions and elements of rows are texts for many threads, too: OpenCL C, CUDA C++ and C99
compile every one, and as C99 they have the values of the C target.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjoint.compiler.targets.simt import expressions as simt
from adjoint.compiler.targets.simt.headers import C99
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions import definitions, functions, special_functions
from adjoint.expressions.c_text import TYPES
from adjoint.expressions.trees import Expression, Operand
from adjoint.table import TABLE
from adjoint.toolchain import build
from tests import device_compilers
from tests.expressions.test_c_text import ROWS, elements

TARGETS = ("C99", "CUDA", "OpenCL")
DTYPES = ("float64", "float32", "int64", "int32", "bool", "complex128", "complex64")
WITH_LOOPS = [n for n, t in special_functions.called().items() if not t.startswith("const ")]
NAMES = [*sorted(definitions.names()), *WITH_LOOPS]

needs_gcc = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def compiler(target: str) -> tuple[Any, device_compilers.Compile]:
    header, compile_text = device_compilers.targets()[target]
    if compile_text is None:
        pytest.skip(f"no compiler of {header.name} is installed")
    return header, compile_text


def refused(target: str, called: list[str], kernels: dict[str, str]) -> dict[str, str]:
    """What a compiler says of the kernels that it refuses; {} if it takes all at once."""
    header, compile_text = compiler(target)
    text = simt.declared(called, header)
    if compile_text(text + "\n".join(kernels.values())) == "":
        return {}
    told = {name: compile_text(text + kernel) for name, kernel in kernels.items()}
    return {name: words for name, words in told.items() if words} or {"": "all at once"}


def kernel(target: str, name: str, given: list[DType], result: DType, value: str) -> str:
    """An entry that computes a value of numbers in memory: `value` names them a0, a1, …"""
    where = device_compilers.GLOBAL[target]
    memory = [simt.type_of(each) for each in (*given, result)]
    arguments = ", ".join(f"{where}{kind} *p{k}" for k, kind in enumerate(memory))
    lines = [f"  const {kind} a{k} = p{k}[0];" for k, kind in enumerate(memory[:-1])]
    head = device_compilers.KERNEL[target].format(name, arguments)
    return "\n".join([f"{head} {{", *lines, f"  p{len(given)}[0] = {value};", "}", ""])


def signature(name: str) -> tuple[list[DType], DType] | None:
    """The dtypes of parameters and result; None if a parameter points to memory."""
    if found := definitions.find(name):
        return [p.dtype for p in found.parameters], found.dtype
    head, _, given = special_functions.called()[name].partition(")")[0].partition("(")
    kinds = {"double": dtypes.float64, "int": dtypes.int32, "i64": dtypes.int64}
    result, words = (
        head.removeprefix("inline ").split()[0],
        [each.split() for each in given.split(", ")],
    )
    if result == "void" or any(len(w) != 2 or not w[1].isidentifier() for w in words):
        return None
    return [kinds[w[0]] for w in words], kinds[result]


@pytest.mark.parametrize("target", TARGETS)
def test_every_function_compiles(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = {}
    for name in NAMES:
        if (found := signature(name)) is not None:
            value = f"{name}({', '.join(f'a{k}' for k in range(len(found[0])))})"
            kernels[name] = kernel(target, f"k_{name}", *found, value)
    told = refused(target, NAMES, kernels)
    with capsys.disabled():
        print(f" {target}: {len(NAMES) - len(told)} of {len(NAMES)} functions")
    assert told == {}


@cache
def trees() -> dict[str, Expression]:
    """The elements of all rows for the arguments of their samples, and row and dtype of each."""
    found: dict[Expression, str] = {}
    for row in ROWS:
        for name in DTYPES:
            for tree in elements(row, dtypes.named(name)):
                found.setdefault(tree, f"{row.full_name} in {name}, {len(found)}")
    return {name: tree for tree, name in found.items()}


@pytest.mark.parametrize("target", TARGETS)
def test_every_row_compiles(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    kernels, called = {}, set[str]()
    for count, (name, tree) in enumerate(trees().items()):
        operands = {p.name: p.dtype for p in tree.walk() if isinstance(p, Operand)}
        names = {n: f"a{k}" for k, n in enumerate(operands)}
        value = simt.printed(simt.converted(tree, tree.dtype), names)
        called |= tree.calls
        kernels[name] = kernel(target, f"k{count}", [*operands.values()], tree.dtype, value)
    told = refused(target, sorted(called), kernels)
    rows = {name.partition(" in ")[0] for name in told}
    with capsys.disabled():
        print(f" {target}: {len(ROWS) - len(rows)} of {len(ROWS)} rows, {len(kernels)} elements")
    assert told == {}


# -- values ---------------------------------------------------------------------------------------

SPECIAL = [
    0.0, -0.0, 0.25, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, 2.5, -3.0, 7.0, 10.0, -10.0, 1e-5, 30.0,
    -30.0, 100.0, -100.0, 800.0, -800.0, 1e8, 1e-300, 1e300, -1e300, np.inf, -np.inf, np.nan,
    0.9999,
]  # fmt: skip
COUNT = 6000
# Functions of which the C target has its own: the C library's.
OTHER = sorted(
    name for name in definitions.names()
    if name in functions.OF_C
    and "bits" not in name and "times_plus" not in name
)  # fmt: skip


def built(text: str, folder: Path, name: str, *flags: str) -> Any:
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text)
    rounding = ("-O1", "-ffp-contract=off", "-D__FP_FAST_FMA", "-w", "-shared", "-fPIC")
    subprocess.run(["gcc", *flags, *rounding, source, "-o", library, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def loops(names: list[str], types: dict[str, str]) -> Iterator[str]:
    """A loop over arrays around each function."""
    for name in names:
        found = definitions.find(name)
        assert found is not None
        kinds = [types[p.dtype.name] for p in found.parameters]
        memory = ", ".join(f"const {kind} *a{k}" for k, kind in enumerate(kinds))
        given = ", ".join(f"a{k}[i]" for k in range(len(kinds)))
        yield f"void run_{name}(int n, {memory}, {types[found.dtype.name]} *to)"
        yield f"{{ for (int i = 0; i < n; i++) to[i] = {name}({given}); }}"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The functions as C99 of many threads, and as those of the C target."""
    folder, names = tmp_path_factory.mktemp("texts"), sorted(definitions.names())
    types = {name: simt.type_of(dtypes.named(name)) for name in TYPES}
    threads = "\n".join([simt.declared(names, C99), *loops(names, types)])
    ours = "\n".join([functions.prelude(names, 0), *loops(names, dict(TYPES))])
    return built(threads, folder, "threads", "-std=c99"), built(ours, folder, "c")


def numbers(dtype: DType, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if dtype is dtypes.bool_:
        return rng.integers(0, 2, COUNT).astype(np.int32)
    if not dtype.is_differentiable:
        return rng.integers(0 if not dtype.is_signed else -99, 99, COUNT).astype(dtype.np)
    wide = np.concatenate([
        rng.choice(SPECIAL, COUNT // 2), rng.normal(size=COUNT // 4) * 3,
        rng.uniform(size=COUNT // 4),
    ])  # fmt: skip
    rng.shuffle(wide)
    with np.errstate(over="ignore"):
        if not dtype.is_complex:
            return wide.astype(dtype.np)
        found = np.empty(COUNT, dtype.np)
        found.real, found.imag = wide, rng.permutation(wide)
        return found


def values(library: Any, name: str, seed: int) -> tuple[list[Any], np.ndarray[Any, Any]]:
    found, rng = definitions.find(name), np.random.default_rng(seed)
    assert found is not None
    given = [numbers(p.dtype, rng) for p in found.parameters]
    result = np.zeros(COUNT, np.int32 if found.dtype is dtypes.bool_ else found.dtype.np)
    places = [ctypes.c_void_p(each.ctypes.data) for each in (*given, result)]
    getattr(library, f"run_{name}")(COUNT, *places)
    return given, result


@needs_gcc
@pytest.mark.parametrize("name", sorted(definitions.names() - {*OTHER}))
def test_both_texts_have_the_same_values(name: str, both: tuple[Any, Any]) -> None:
    found = definitions.find(name)
    assert found is not None
    if found.calls & {*OTHER}:
        pytest.skip(f"calls {', '.join(sorted(found.calls & {*OTHER}))}, of which C has its own")
    threads, ours = (values(library, name, 3)[1] for library in both)
    np.testing.assert_array_equal(threads, ours)


@needs_gcc
@pytest.mark.parametrize("name", OTHER)
def test_functions_of_our_own_are_near_those_of_the_c_library(
    name: str, both: tuple[Any, Any]
) -> None:
    """For moderate numbers; next to their zeros errors are those of other places."""
    given, threads = values(both[0], name, 5)
    _, ours = values(both[1], name, 5)
    usual = np.all([np.isfinite(x) & (abs(x) < 60) & (abs(x) > 1e-4) for x in given], axis=0)
    usual &= np.isfinite(threads) & np.isfinite(ours)
    assert usual.sum() > COUNT // 8
    size = np.maximum(abs(ours[usual]), 0.01)
    worst = np.max(abs(threads[usual] - ours[usual]) / size)
    assert worst < (1e-12 if ours.itemsize >= 8 and ours.dtype != np.complex64 else 1e-5)


def test_rows_have_elements() -> None:
    assert len(ROWS) > 250
    assert {row.full_name for row in ROWS} <= {row.full_name for row in TABLE.rows()}
