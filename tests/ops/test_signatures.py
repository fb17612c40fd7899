"""Signatures, help and texts of functions: they say what one calls."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pickle
import pydoc
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.dtypes import float64
from adjoint.ops import packet
from adjoint.ops.signatures import merged
from adjoint.table import TABLE
from adjoint.testing import laws

SIGNATURES = {
    ad.sin: "(input: TensorLike, *, out: Tensor | None = None) -> Tensor",
    ad.sin_: "(input: Tensor) -> Tensor",
    ad.sum: "(input: TensorLike, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, "
    "dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor",
    ad.linalg.svd: "(A: TensorLike, full_matrices: bool = True, *, driver: str | None = None, "
    "out: Sequence[Tensor] | None = None) -> return_types.linalg_svd",
    ad.ones(2).sum: "(dim: int | Sequence[int] | None = None, keepdim: bool = False, *, "
    "dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor",
    ad.ones(2).add_: "(other: Scalar | TensorLike, alpha: Scalar = 1) -> Tensor",
    ad.Tensor.contiguous: "(input: TensorLike, *, memory_format: MemoryFormat = "
    "ad.contiguous_format) -> Tensor",
    ad.view_copy: "(input: TensorLike, *size: int | DTypeLike | Sequence[int], "
    "dtype: DTypeLike = ..., out: Tensor | None = None) -> Tensor",
    ad.ops.argmax: "(input: TensorLike, dim: int | None = None, keepdim: bool = False, *, "
    "out: Tensor | None = None) -> Tensor",
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__name__)
def test_a_signature_is_what_one_calls(function: Any) -> None:
    assert str(inspect.signature(function)) == SIGNATURES[function]


def test_every_sample_fits_the_signature_of_its_operator() -> None:
    checked = 0
    for row in TABLE.rows():
        signature = merged([o.schema for o in packet(row.name).operators])
        for case in itertools.islice(laws.cases(row, float64), 2):
            given = case.sample.kwargs
            names = {"self": "input"} if "input" not in row.schema.names else {}
            signature.bind(*case.sample.args, **{names.get(k, k): v for k, v in given.items()})
            checked += 1
    assert checked > 1500


@pytest.mark.parametrize("name", ["sum", "sin", "linalg_svd", "view", "max", "normal"])
def test_an_argument_that_is_not_there_does_not_fit(name: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        inspect.signature(packet(name).function).bind(ad.ones(2), nothing=1)


def test_help_shows_signature_schemas_and_derivatives() -> None:
    text = pydoc.plain(pydoc.render_doc(ad.mul))
    assert "mul(input: TensorLike, other: TensorLike | Scalar" in text
    assert "mul.Tensor(Tensor self, Tensor other) -> Tensor" in text
    assert "other: grad * self.conj()" in text
    assert ">>> import adjoint as ad" in text
    assert ad.mul.__doc__ is not None
    assert ad.mul.__doc__.startswith("Multiply")


def scaled(x: Any) -> Any:
    return x * 2


def test_transformed_functions_say_what_they_are() -> None:
    line = scaled.__code__.co_firstlineno
    place = f"scaled at test_signatures.py:{line}"
    assert repr(ad.grad(scaled)) == f"<adjoint.grad of {place}>"
    assert repr(ad.vmap(ad.hessian(scaled))) == f"<adjoint.vmap of hessian of {place}>"
    assert repr(ad.custom_vjp(scaled)) == f"<adjoint.custom_vjp of {place}>"
    assert repr(ad.jacrev(ad.nn.Linear(2, 2))) == "<adjoint.jacrev of an object of Linear>"
    assert repr(ad.grad(ad.sum)) == "<adjoint.grad of adjoint.sum>"


def test_compiled_functions_say_what_they_are() -> None:
    compiled = ad.compile(ad.grad(scaled))
    line = scaled.__code__.co_firstlineno
    place = f"<adjoint.compile of grad of scaled at test_signatures.py:{line}"
    assert repr(compiled) == f"{place}: not compiled yet>"
    compiled(ad.tensor(1.0))
    assert repr(compiled) == f"{place}: 1 program>"
    compiled(ad.tensor([1.0], dtype=ad.float64).sum())
    assert repr(compiled) == f"{place}: 2 programs>"
    opened = ad.compile(lambda x: x.exp(), dynamic={"x": 0})
    for size in (20, 30, 40):
        opened(ad.ones(size))
    assert repr(opened).endswith(": 1 program for 3 signatures>")


def test_a_transformed_function_is_a_method_where_it_stands_in_a_class() -> None:
    class Energy:
        stiffness = 3.0

        @ad.checkpoint
        def of(self, x: Any) -> Any:
            return self.stiffness * x**2

    assert ad.grad(Energy().of)(1.0).item() == 6.0


@pytest.mark.parametrize("function", [ad.sum, ad.sin, ad.sin_, ad.linalg.svd, ad.softmax, ad.view])
def test_functions_of_operators_are_found_again_by_name(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", ["linalg", "fft", "special", "nn.functional", "return_types"])
def test_namespaces_are_modules(name: str) -> None:
    module = importlib.import_module(f"adjoint.{name}")
    names = dir(module)
    assert names
    assert all(hasattr(module, n) for n in names)
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name


def test_dir_lists_what_there_is_and_nothing_else() -> None:
    assert {"sin", "linalg", "grad", "compile", "float64", "nn"} <= set(dir(ad))
    assert {"kernels", "decompositions_", "annotations"}.isdisjoint(dir(ad))
    x = ad.ones(2, 2, dtype=ad.complex64)
    names = dir(x)
    assert {"sin", "unbind", "split", "backward", "T", "sum"} <= set(names)
    assert all(hasattr(x, n) for n in names)


def test_a_module_lists_the_same_names_whatever_was_asked_for() -> None:
    """`special.erf_` is made on demand, and is not listed because somebody asked."""
    listed = dir(ad.special)
    assert ad.special.erf_(ad.tensor([0.0])).item() == 0
    assert dir(ad.special) == listed
