"""The table: schemas, rows, formulas, what is saved, and the errors of a wrong row."""

from __future__ import annotations

import ast
import csv
import re
import sys
import traceback
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.calls import checking
from adjoint.core import promotion
from adjoint.core.errors import MissingOperator, NotDifferentiable, TableError
from adjoint.core.shapes import Spec
from adjoint.table import TABLE
from adjoint.table import schema as schemas
from adjoint.table.reading import WORDS
from adjoint.tape import saving
from tests import DATA

with (DATA / "catalogue.csv").open() as _file:
    CATALOGUE = list(csv.DictReader(_file))
FAMILIES = (
    "elementwise", "reduction", "shaping", "indexing", "matmul", "linalg", "fft", "special",
    "activation", "sorting", "random", "dropout", "foreach", "losses", "normalization",
    "padding", "embedding", "sparse",
)  # fmt: skip
# Arguments that PyTorch calls not differentiable and that have no derivative: degrees of
# polynomials, pivots, indices, masks, and what only gives its shape.
WITHOUT = {"n", "mask", "LU_pivots", "noise", "index", "condition"}
SHAPE_ALONE = {"_new_zeros_with_same_feature_meta"}


def test_every_schema_of_the_catalogue_parses() -> None:
    assert len(CATALOGUE) == 687
    for entry in CATALOGUE:
        parsed = schemas.parse(entry["schema"])
        assert f"{parsed.name}{'.' if parsed.overload else ''}{parsed.overload}" == entry["name"]
        assert set(entry["reverse"].split()) <= set(parsed.names)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("f(Tensor?[] indices, int[2] size=1) -> Tensor", ["Tensor?[]", "int[2]"]),
        ("f(Tensor(a!)[] x, float[]? scale=None) -> ()", ["Tensor[]", "float[]?"]),
        ("f(Tensor(a -> *) x, str mode='mean', *, bool[3] mask) -> (Tensor, Tensor y)", None),
    ],
)
def test_schema_types(text: str, types: list[str] | None) -> None:
    parsed = schemas.parse(text)
    if types is not None:
        assert [str(a.type) for a in parsed.arguments] == types


def test_schema_parts() -> None:
    parsed = schemas.parse(
        "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0, *, Scalar? p=2.5) -> "
        "Tensor(a)[]"
    )
    assert parsed.is_view
    assert not parsed.mutates
    assert parsed.full_name == "split.Tensor"
    assert parsed.arguments[3].keyword_only
    assert parsed.arguments[3].default == 2.5
    assert parsed.returns[0].type.is_list
    assert schemas.parse("add_(Tensor(a!) self) -> Tensor(a!)").mutates


@pytest.mark.parametrize(
    "text", ["no arrow(Tensor x)", "f(Tensor) -> Tensor", "f(Tensor x, int x) -> Tensor"]
)
def test_wrong_schema_is_refused(text: str) -> None:
    with pytest.raises(TableError):
        schemas.parse(text)


def test_catalogue_families_are_complete() -> None:
    missing = []
    for entry in CATALOGUE:
        if entry["family"] in FAMILIES:
            parsed = schemas.parse(entry["schema"])
            try:
                getattr(getattr(ad.ops, parsed.name), parsed.overload or "default")
            except MissingOperator:
                missing.append(entry["name"])
    assert missing == []


def test_catalogue_derivatives_exist() -> None:
    """Every argument with a reverse rule in PyTorch has one here, its own or through the
    decomposition; and so has every argument that PyTorch leaves out and mathematics does not.
    """
    lacking = []
    for entry in CATALOGUE:
        columns = [entry["reverse"], entry["not_implemented_in_pytorch"]]
        ours = set(entry["non_differentiable"].split()) - WITHOUT
        wanted = set(" ".join(columns).split()) | ours
        if entry["family"] not in FAMILIES or not wanted or entry["name"] in SHAPE_ALONE:
            continue
        parsed = schemas.parse(entry["schema"])
        operator = getattr(getattr(ad.ops, parsed.name), parsed.overload or "default")
        row = operator.row
        given = {a.name for a in row.differentiable}
        if operator.is_derived_inplace and row.archetype.result == "bool":
            continue  # eq_ and the like write a result without derivative: the engine gives zeros
        if not row.decompose and not wanted <= given:
            lacking.append((entry["name"], wanted - given))
    assert lacking == []


def test_catalogue_schemas_are_ours() -> None:
    """Arguments, defaults, alias marks and returns are those of the catalogue."""
    other = []
    for entry in CATALOGUE:
        if entry["family"] in FAMILIES:
            parsed = schemas.parse(entry["schema"])
            ours = getattr(getattr(ad.ops, parsed.name), parsed.overload or "default").schema
            if (ours.arguments, _marks(ours)) != (parsed.arguments, _marks(parsed)):
                other.append((entry["name"], str(ours)))
    assert other == []


def _marks(schema: schemas.Schema) -> list[tuple[str, bool]]:
    return [(str(r.type), r.writes) for r in schema.returns]


def test_every_row_loads_and_every_formula_compiles() -> None:
    """Our rows pass the checks that users' rows must pass."""
    wrong = []
    for row in TABLE.rows():
        try:
            checking.check_text(row)
            checking.check_functions(row)
        except TableError as error:
            wrong.append(str(error))
    assert wrong == []


@pytest.mark.parametrize("layer", ["kernels", "decompositions", "formulas", "batching"])
def test_a_row_names_one_function(layer: str) -> None:
    """A family in a folder defines each function that rows name in one of its files."""
    folder = Path(ad.__file__).parent / layer
    named = "".join(
        path.read_text() for path in (Path(ad.__file__).parent / "table").glob("*.yaml")
    )
    defined = Counter(
        f"{path.parent.name}.{node.name}"
        for path in folder.glob("*/*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    )
    twice = {name for name, count in defined.items() if count > 1}
    assert {name for name in twice if re.search(rf"\b{name}\b", named)} == set()


def test_nothing_is_not_implemented() -> None:
    waiting = [r.full_name for r in TABLE.rows() for e in r.reverse if e.word == "not_implemented"]
    assert waiting == []


def saved(name: str) -> dict[str, str]:
    overload = ad.ops.packet(name).operators[0]
    return {s.name: s.kind for s in saving.saves_of(overload.row)}


def test_tape_saves_only_what_a_formula_uses() -> None:
    assert saved("exp") == {"result": saving.RESULT}
    assert saved("sin") == {"self": saving.TENSOR}
    assert saved("mm") == {"mat2": saving.TENSOR, "self": saving.TENSOR}
    kinds = {s.kind for s in saving.saves_of(ad.ops.sum.dim_IntList.row)}
    assert kinds == {saving.VALUE, saving.FACT}  # dims and the shape, not the tensor


def test_tape_saves_for_the_inputs_that_need_it() -> None:
    x = ad.ones(3, requires_grad=True)
    c = ad.ones(3)
    node = (x * c).grad_fn
    assert node is not None
    assert node._saved_other is c
    assert node._saved_self is None


# -- tables of users
# ----------------------------------------------------------------------------------------


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}_{abs(hash((text, str(folder))))}.yaml"
    path.write_text(text)
    return path


def test_library_rows_get_everything(tmp_path: Path) -> None:
    text = """
- name: user_cube(Tensor self) -> Tensor
  like: pointwise
  kernel: xp.power(self, 3)
  self: grad * (3 * self * self).conj()
  result: auto_element_wise

- name: user_swish(Tensor self, Scalar beta=1) -> Tensor
  decompose: self * (beta * self).sigmoid()
"""
    ad.library(write(tmp_path, text))
    x = ad.tensor([1.0, -2.0], dtype=ad.float64, requires_grad=True)
    assert ad.user_cube(x).tolist() == [1.0, -8.0]
    assert ad.autograd.gradcheck(ad.user_cube, (x,), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(ad.user_cube, (x,))
    assert ad.autograd.gradcheck(lambda x: x.user_swish(2.0), (x,), check_forward_ad=True)
    assert ad.vmap(ad.grad(ad.user_cube))(x.detach()).tolist() == [3.0, 12.0]
    y = ad.tensor([2.0])
    assert y.user_cube_() is y
    assert y.tolist() == [8.0]
    assert ad.ops.user_cube.default.row.where.line == 2


def test_library_rows_are_mapped_over_lists(tmp_path: Path) -> None:
    text = """
- name: user_fourth(Tensor self) -> Tensor
  like: pointwise
  kernel: xp.power(self, 4)
  self: grad * 4 * self ** 3

- name: _foreach_user_fourth(Tensor[] self) -> Tensor[]
  like: foreach

- name: user_first(Tensor[] self) -> Tensor
  doc: "It is not like: foreach"
  decompose: self[0]

- name: user_cubed(Tensor self) -> Tensor
  decompose: self ** 3

- name: _foreach_user_cubed(Tensor[] self) -> Tensor[]
  like: foreach
  inplace: False
"""
    ad.library(write(tmp_path, text))
    x = [ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor(3.0, requires_grad=True)]
    first, second = ad._foreach_user_fourth(x)
    (first.sum() + second).backward()
    assert [t.grad.tolist() for t in x] == [[4.0, 32.0], 108.0]
    y = [ad.tensor([2.0])]
    ad._foreach_user_fourth_(y)
    assert y[0].tolist() == [16.0]
    assert not any(name in TABLE for name in ("user_first_", "_foreach_user_cubed_"))


def test_operator_that_is_mapped_by_its_own_decomposition_is_refused(tmp_path: Path) -> None:
    text = """
- name: user_circle(Tensor self) -> Tensor
  decompose: _foreach_user_circle([self])[0]

- name: _foreach_user_circle(Tensor[] self) -> Tensor[]
  like: foreach
"""
    with pytest.raises(TableError, match="decomposed into itself"):
        ad.library(write(tmp_path, text))


def test_forward_formulas_of_a_library_are_derived(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.write_text(f"""
- name: user_pairs(Tensor self, Tensor other) -> Tensor
  kernel: xp.outer
  shape: {path.stem}.pairs
  self: grad.mv(other.conj())
  other: grad.t().mv(self.conj())
  result: auto_multilinear

- name: user_smallest(Tensor self, int dim) -> (Tensor values, Tensor indices)
  kernel: {path.stem}.smallest
  shape: {path.stem}.selected
  output_differentiability: [True, False]
  self: value_selecting_reduction_backward(grad, dim, indices, self.shape, False)
  values: auto_gather
""")

    def smallest(array: Any, dim: int) -> Any:
        return array.min(axis=dim), array.argmin(axis=dim)

    def pairs(one: Any, other: Any) -> Any:
        return Spec((*one.shape, *other.shape), one.dtype)

    def selected(spec: Any, dim: int) -> Any:
        shape = tuple(n for i, n in enumerate(spec.shape) if i != dim)
        return Spec(shape, spec.dtype), Spec(shape, ad.int64)

    ad.library(path, SimpleNamespace(smallest=smallest, pairs=pairs, selected=selected))
    x = ad.tensor([1.0, -2.0], dtype=ad.float64, requires_grad=True)
    y = ad.tensor([3.0, 5.0, 7.0], dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(ad.user_pairs, (x, y), check_forward_ad=True)
    z = ad.tensor([[1.0, 0.5], [-2.0, 3.0]], dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(lambda z: ad.user_smallest(z, 1)[0], (z,), check_forward_ad=True)
    tangent = ad.trace(
        lambda a, b, t: ad.jvp(lambda a: ad.user_pairs(a, b), (a,), (t,))[1], x, y, x
    )
    assert [n.op.name for n in tangent.nodes] == ["user_pairs"]


def test_library_with_kernels_and_only_a_forward_formula(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    family = path.stem
    path.write_text(f"""
- name: user_double(Tensor self) -> Tensor
  kernel: {family}.double
  shape: {family}.same
  result: 2 * self_t
""")
    ad.library(path, kernels=SimpleNamespace(double=lambda a: 2 * a, same=lambda spec: spec))
    x = ad.ones(3, dtype=ad.float64, requires_grad=True)
    assert ad.autograd.grad(ad.user_double(x).sum(), x)[0].tolist() == [2.0, 2.0, 2.0]
    assert ad.autograd.gradcheck(ad.user_double, (x,), check_forward_ad=True)


def test_results_of_a_library_row_have_memory_of_their_own(tmp_path: Path) -> None:
    """A write to a result does not reach the argument, whatever the kernel returned."""
    path = write(tmp_path, "")
    row = "- name: user_{0}(Tensor self) -> Tensor\n  kernel: {1}\n  self: grad\n"
    kernels = ("self", "xp.asarray(self)", "self.real", "self.T", f"{path.stem}.same")
    path.write_text("".join(row.format(f"same{i}", k) for i, k in enumerate(kernels)))
    for operator in ad.library(path, SimpleNamespace(same=lambda x: x)):
        x = ad.ones(2, 2)
        operator(x).mul_(3)
        assert (x == 1).all()


def test_kernel_that_is_a_property_serves_formulas_of_others(tmp_path: Path) -> None:
    """`self.real` is an expression in the argument, not a function of a family `self`."""
    path = write(
        tmp_path,
        "- name: user_part(Tensor self) -> Tensor\n  like: pointwise\n  kernel: self.real\n"
        "  self: grad\n"
        "- name: user_of_part(Tensor self) -> Tensor\n  kernel: self + 0\n  shape: shape.same\n"
        "  self: grad.user_part() * 2\n",
    )
    ad.library(path)
    x = ad.ones(2, requires_grad=True)
    assert ad.autograd.grad(ad.user_of_part(x).sum(), x)[0].tolist() == [2.0, 2.0]


def test_kernels_of_a_library_are_exported_or_refused(tmp_path: Path) -> None:
    """A kernel over several lines, and one that asks for what an export does not know."""
    path = write(
        tmp_path,
        '- name: user_lines(Tensor self) -> Tensor\n  like: pointwise\n  kernel: "self +\\n 1"\n'
        "  self: grad\n"
        "- name: user_sizes(Tensor self) -> Tensor\n  like: pointwise\n"
        "  kernel: self if len(self.shape) > 1 else self * 2\n  self: grad\n",
    )
    ad.library(path)
    text = ad.export.python(ad.trace(ad.user_lines, ad.ones(2)))
    assert "+ 1" in text
    with pytest.raises(ad.AdjointError, match="user_sizes"):
        ad.export.python(ad.trace(ad.user_sizes, ad.ones(2)))


def test_kernel_that_returns_no_numbers_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "- name: user_texts(Tensor self) -> Tensor\n  kernel: self.dtype.char\n"
                           "  self: zero\n")  # fmt: skip
    ad.library(path)
    with pytest.raises(ad.AdjointError, match="which no tensor can hold"):
        ad.user_texts(ad.ones(2))


def test_reduction_of_a_library_without_dim_is_mapped_as_a_loop(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "- name: user_all_of_it(Tensor self) -> Tensor\n  like: reduction\n  kernel: xp.sum(self)\n"
        "  self: grad.expand(self.shape)\n",
    )
    ad.library(path)
    with pytest.warns(UserWarning, match="runs as a loop"):
        assert ad.vmap(ad.user_all_of_it)(ad.ones(3, 2)).tolist() == [2.0, 2.0, 2.0]


WRONG = {
    "unknown name": (
        "- name: w1(Tensor self) -> Tensor\n  kernel: xp.sin\n  self: grad * nonsense\n",
        3,
        "nonsense",
    ),
    "duplicate key": (
        "- name: w2(Tensor self) -> Tensor\n  self: grad\n  self: grad\n",
        3,
        "duplicate",
    ),
    "no such argument": ("- name: w3(Tensor self) -> Tensor\n  other: grad\n", 2, "other"),
    "mixed styles": (
        "- name: w4(Tensor a, Tensor b) -> (Tensor, Tensor)\n  a: grad\n  b: grads[0]\n",
        None,
        "choose one",
    ),
    "not an expression": (
        "- name: w5(Tensor self) -> Tensor\n  self: grad *\n",
        2,
        "not an expression",
    ),
    "a statement": (
        '- name: w6(Tensor self) -> Tensor\n  self: "(lambda x: x)(grad)"\n',
        2,
        "Lambda",
    ),
    "private attribute": (
        "- name: w7(Tensor self) -> Tensor\n  self: grad.__class__\n",
        2,
        "private",
    ),
    "not a tensor": ("- name: w8(Tensor self, int n) -> Tensor\n  n: grad\n", 2, "not a tensor"),
    "archetype": ("- name: w9(Tensor self) -> Tensor\n  like: nothing\n", 2, "nothing"),
    "second formula": (
        "- name: w10(Tensor a, Tensor b) -> Tensor\n  a, b: grad\n  b: grad\n",
        3,
        "second",
    ),
    "outputs": (
        "- name: w11(Tensor a) -> Tensor\n  output_differentiability: [True, False]\n",
        2,
        "booleans",
    ),
    "not a row": ("- nome: w12(Tensor a) -> Tensor\n", 1, "starts with"),
    "duplicate row": ("- name: sin(Tensor self) -> Tensor\n  self: grad\n", 1, "already"),
}


_UNARY = "- name: {}(Tensor self) -> Tensor\n"
_KERNEL = _UNARY + "  kernel: xp.sin\n"
# Mistakes that were found late, or never: (row, place, what the message says).
MISTAKES = {
    "kernel misspelt": (_UNARY + "  kernel: xp.sinn\n  self: grad\n", "2:11", "did you mean sin"),
    "kernel in an expression": (
        _UNARY + "  kernel: self + xp.cosin(self)\n  self: grad\n",
        "2:18",
        "did you mean .*cos",
    ),
    "kernel of a family": (
        _UNARY + "  kernel: pointwise.frexpp\n  self: grad\n",
        "2:11",
        "did you mean frexp",
    ),
    "no such family": (_UNARY + "  kernel: pointwize.frexp\n  self: grad\n", "2:11", "pointwise"),
    "kernel with too many arguments": (
        "- name: {}(Tensor self, Tensor other) -> Tensor\n  kernel: xp.sin\n  self, other: zero\n",
        "2:11",
        "does not take 2 arguments",
    ),
    "neither kernel nor decompose": (
        _UNARY + "  self: grad\n",
        "1",
        "needs a kernel, or decompose",
    ),
    "schema type": ("- name: {}(Tensr self) -> Tensor\n  decompose: self\n", "1:11", "Tensor"),
    "type of a result": ("- name: {}(Tensor self) -> Tnsor\n  decompose: self\n", "1:27", "Tensor"),
    "result that is a number": (
        "- name: {}(Tensor self) -> int\n  decompose: 3\n",
        "1:27",
        "result",
    ),
    "default of another type": (
        "- name: {}(Tensor self, int n=x) -> Tensor\n  decompose: self\n",
        "1:24",
        "no default for a int",
    ),
    **{
        f"no value for a {kind}": (
            f"- name: {{}}(Tensor self, *, {kind} n=None) -> Tensor\n  decompose: self\n",
            "1:27",
            f"'None' is no default for a {kind}",
        )
        for kind in ("ScalarType", "Layout", "Device", "MemoryFormat", "Generator", "int", "Tensor")
    },
    "like": (_KERNEL + "  like: pointwize\n  self: grad\n", "3:9", "did you mean pointwise"),
    "order": (_KERNEL + "  like: pointwise\n  order: neded\n  self: grad\n", "4:10", "needed"),
    "domain": (_KERNEL + "  domain: positiv\n  self: grad\n", "3:11", "did you mean positive"),
    "numbers": (_KERNEL + "  numbers: cheked\n  self: grad\n", "3:12", "did you mean checked"),
    "order without promotion": (_KERNEL + "  order: needed\n  self: grad\n", "3:10", "promote"),
    "batch": (_KERNEL + "  batch: shape.squeez\n  self: grad\n", "3:10", "did you mean squeeze"),
    "batch by a word": (
        _KERNEL + "  batch: shiftd\n  self: grad\n",
        "3:10",
        "did you mean shifted",
    ),
    "batch with other arguments": (
        _KERNEL + "  batch: matmul.mm\n  self: grad\n",
        "3:10",
        "does not take 2",
    ),
    "shape": (_KERNEL + "  shape: shape.sme\n  self: grad\n", "3:10", "did you mean same"),
    "fan": (_KERNEL + "  fan: _linalg_eigh_fam\n  self: grad\n", "3:8", "_linalg_eigh_fan"),
    "kink": (_KERNEL + "  kink: ordd == 2\n  self: grad\n", "3:9", "ordd"),
    "promote": (_KERNEL + "  promote: [slf]\n  self: grad\n", "3:13", "did you mean self"),
    "promote word": (_KERNEL + "  promote: summ\n  self: grad\n", "3:12", "did you mean sum"),
    "inplace": (_KERNEL + "  inplace: maybe\n  self: grad\n", "3:12", "True or False"),
    "inplace without self": (
        "- name: {}(Tensor x) -> Tensor\n  kernel: xp.sin\n  inplace: True\n  x: grad\n",
        "3:12",
        "in-place variant",
    ),
    "method in a formula": (_KERNEL + "  self: grad * self.coss()\n", "3:21", "did you mean .*cos"),
    "method on a later line": (
        _KERNEL + "  self: >-\n    grad *\n    self.coss()\n",
        "5:10",
        "did you mean .*cos",
    ),
    "attribute in a formula": (_KERNEL + "  self: grad.reshape(self.shap)\n", "3:27", "shape"),
    "function of a family": (
        _KERNEL + "  self: linalg.eigh_vjpp(grad)\n",
        "3:9",
        "did you mean eigh_vjp",
    ),
    "operator in a formula": (
        _KERNEL + "  self: grad * coss(self)\n",
        "3:16",
        "did you mean .*cos",
    ),
    "method in a decomposition": (
        _UNARY + "  decompose: self.sinn()\n",
        "2:19",
        "did you mean sin",
    ),
    "method of a number": (
        "- name: {}(Tensor self, int n) -> Tensor\n  kernel: xp.add\n  self: n.sum()\n",
        "3:11",
        "n is a int",
    ),
    "write in a formula": (_KERNEL + "  self: grad.mul_(self)\n", "3:14", "writes to its argument"),
    "forward formula": (_KERNEL + "  self: grad\n  result: self_tt * 2\n", "4:11", "self_t"),
    "forward formula without a tangent": (
        "- name: {}(Tensor self, Tensor other) -> Tensor\n  kernel: xp.add\n  self: grad\n"
        "  other: grad\n  result: self_t\n",
        "5:11",
        "other_t",
    ),
    "forward formula of one output": (
        "- name: {}(Tensor self) -> (Tensor a, Tensor b)\n  kernel: pointwise.frexp\n"
        "  self: grad_a + grad_b\n  a: self_t\n",
        "1",
        "none for b",
    ),
    "auto without a reverse formula": (
        _KERNEL + "  result: auto_element_wise\n",
        "3:11",
        "needs a reverse formula",
    ),
    "auto misspelt": (_KERNEL + "  self: grad\n  result: auto_lineer\n", "4:11", "auto_linear"),
    "auto_linear of several results": (
        "- name: {}(Tensor self) -> (Tensor a, Tensor b)\n  kernel: pointwise.frexp\n"
        "  self: grad_a + grad_b\n  a: auto_linear\n  b: auto_linear\n",
        "4:6",
        "auto_linear needs one result",
    ),
    "auto_element_wise of a formula for two": (
        "- name: {}(Tensor self, Tensor other) -> Tensor\n  kernel: xp.add\n"
        "  self, other: (grad, grad)\n  result: auto_element_wise\n",
        "4:11",
        "one formula for each input",
    ),
    "auto_element_wise of a list": (
        "- name: {}(Tensor[] tensors) -> Tensor\n  kernel: shape.stack(tensors, 0)\n"
        "  tensors: grad.unbind(0)\n  result: auto_element_wise\n",
        "4:11",
        "tensors, not a list",
    ),
    "auto_multilinear of one factor": (
        _KERNEL + "  self: grad\n  result: auto_multilinear\n",
        "4:11",
        "two inputs with a derivative",
    ),
    "a word of a fact": (_KERNEL + "  moves: shap\n  self: grad\n", "3:10", "did you mean shape?"),
    "no argument to fill with": (_KERNEL + "  fills: vlaue\n  self: zero\n", "3:10", "argument"),
    "no such view": (_KERNEL + "  overwrites: slise.Tensor\n  self: grad\n", "3:15", "view takes"),
    "no matrices": (_KERNEL + "  product: self + self\n  self: grad\n", "3:12", "a @ b"),
    "an identity of one": (_KERNEL + "  identity: self=1\n  self: grad\n", "3:13", "one other"),
    "a linear argument": (
        _KERNEL + "  like: pointwise\n  linear: slef\n  self: grad\n",
        "4:11",
        "did you mean self?",
    ),
    "a reduction of nothing": (
        "- name: {}(int dim) -> Tensor\n  kernel: creation.zeros\n  reduces: sum\n",
        "3:12",
        "reduces needs a tensor",
    ),
    "random or not": (_KERNEL + "  random: perhaps\n  self: grad\n", "3:11", "True or False"),
    "auto_gather of two inputs": (
        "- name: {}(Tensor self, Tensor other) -> Tensor\n  kernel: xp.add\n  self: grad\n"
        "  other: grad\n  result: auto_gather\n",
        "5:11",
        "one input with a derivative",
    ),
    "auto_gather without dim": (
        _KERNEL + "  self: grad\n  result: auto_gather\n",
        "4:11",
        "an argument `int dim`",
    ),
    "auto_gather without indices": (
        "- name: {}(Tensor self, int dim) -> (Tensor values, Tensor places)\n"
        "  kernel: sorting.sort(self, dim, False)\n  self: grad\n  values: auto_gather\n",
        "4:11",
        "a result `indices`",
    ),
    "foreach of no operator": (
        "- name: _foreach_{}(Tensor[] self) -> Tensor[]\n  like: foreach\n",
        "1:9",
        "there is no operator .* to map",
    ),
    "foreach without a list": (_UNARY + "  like: foreach\n", "1:9", "is for _foreach_<operator>"),
    "foreach with a formula": (
        "- name: _foreach_{}(Tensor[] self) -> Tensor[]\n  like: foreach\n  self: grads\n",
        "3:3",
        "follows from the operator it maps",
    ),
    "word misspelt": (_KERNEL + "  self: non_diferentiable\n", "3:9", "non_differentiable"),
    "no derivative word at all": (_KERNEL, "1:18", "nothing says how .* is differentiated in self"),
    "no derivative word for one input": (
        "- name: {}(Tensor self, Tensor other) -> Tensor\n  kernel: xp.add\n  self: grad\n",
        "1:31",
        "differentiated in other",
    ),
    "argument misspelt": (_KERNEL + "  slf: grad\n", "3:3", "did you mean self"),
    "column misspelt": (_UNARY + "  kernl: xp.sin\n  self: grad\n", "2:3", "did you mean kernel"),
    "pointwise without a tensor": (
        "- name: {}(int n) -> Tensor\n  like: pointwise\n  kernel: xp.sin\n",
        "2:9",
        "needs a tensor",
    ),
    "view without an alias": (_KERNEL + "  like: view\n  self: grad\n", "3:9", "shares memory"),
    "alias of nothing": (
        "- name: {}(Tensor self) -> Tensor(a)\n  kernel: xp.sin\n  self: grad\n",
        "1:34",
        "no argument is marked",
    ),
    "kernel that writes": (
        "- name: {}(Tensor self, Tensor(b!) other) -> Tensor\n  kernel: xp.add\n"
        "  self, other: zero\n",
        "1:9",
        "writes",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_found_at_load_with_its_place(mistake: str, tmp_path: Path) -> None:
    text, place, message = MISTAKES[mistake]
    path = write(tmp_path, text.format("w"))
    with pytest.raises(TableError, match=message) as caught:
        ad.library(path)
    assert f"{path}:{place}: " in str(caught.value)
    assert "w" not in TABLE


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    rows = [text.format(f"w{i}") for i, (text, _, _) in enumerate(MISTAKES.values())]
    path = write(tmp_path, "".join(rows))
    with pytest.raises(TableError) as caught:
        ad.library(path)
    told = str(caught.value).splitlines()
    line = 1
    for row, (_, place, message) in zip(rows, MISTAKES.values(), strict=True):
        number, _, column = place.partition(":")
        start = f"{path}:{line + int(number) - 1}" + (f":{column}: " if column else ": ")
        if number == "1":
            start = f"{path}:{line}:" if column else start  # the name is longer here
        assert any(t.startswith(start) and re.search(message, t) for t in told), (start, message)
        line += row.count("\n")


def test_all_mistakes_of_a_formula_are_told(tmp_path: Path) -> None:
    text = (
        "- name: w(Tensor self) -> Tensor\n  kernel: xp.sinn(self) + xp.coss(self) + slf.flat\n"
        "  self: grad * self.sinn() * coss(self) * self.shap * linalg.nothing(grad) + oops\n"
    )
    with pytest.raises(TableError) as caught:
        ad.library(write(tmp_path, text))
    places = [line.split(".yaml:")[1].split(": ")[0] for line in str(caught.value).splitlines()]
    assert sorted(places) == sorted(
        ["2:11", "2:27", "2:43", "3:21", "3:30", "3:48", "3:55", "3:78"]
    )


def test_words_of_the_table_are_those_that_the_code_knows() -> None:
    assert set(promotion.PROMOTIONS) == set(WORDS["numbers"])


def test_row_without_derivative_is_refused_and_the_words_are_taken(tmp_path: Path) -> None:
    row = "- name: w_word{}(Tensor self) -> Tensor\n  kernel: xp.sin\n  {}\n"
    words = (
        "self: zero",
        "self: non_differentiable",
        "self: not_implemented('later')",
        "output_differentiability: [False]",
        "result: self_t",
        "self: grad",
    )
    with pytest.raises(TableError, match="nothing says how"):
        ad.library(write(tmp_path, row.format("", "doc: nothing")))
    ad.library(write(tmp_path, "".join(row.format(i, w) for i, w in enumerate(words))))
    x = ad.ones(2, requires_grad=True)
    assert ad.autograd.grad(ad.w_word0(x).sum(), x)[0].tolist() == [0.0, 0.0]
    for refused in (ad.w_word1, ad.w_word2):
        with pytest.raises(NotDifferentiable):
            refused(x).sum().backward()
    assert not ad.w_word3(x).requires_grad
    assert ad.autograd.grad(ad.w_word4(x).sum(), x)[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_row_is_refused_with_its_line(mistake: str, tmp_path: Path) -> None:
    text, line, message = WRONG[mistake]
    path = write(tmp_path, text)
    with pytest.raises(TableError, match=message) as caught:
        ad.library(path)
    assert str(path) in str(caught.value)
    if line is not None:
        assert f"{path}:{line}" in str(caught.value)


def test_refused_file_leaves_nothing_behind(tmp_path: Path) -> None:
    text = "- name: w20(Tensor self) -> Tensor\n  self: grad\n\n"
    text += "- name: w21(Tensor self) -> Tensor\n  self: grad * oops\n"
    with pytest.raises(TableError):
        ad.library(write(tmp_path, text))
    assert "w20" not in TABLE
    with pytest.raises(MissingOperator):
        _ = ad.ops.w20


def test_traceback_in_a_formula_shows_the_line_of_the_table(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "- name: user_bad(Tensor self) -> Tensor\n  kernel: xp.sin(self)\n  shape: shape.same\n"
        "  self: grad.reshape((7, 7))\n",
    )
    ad.library(path)
    y = ad.user_bad(ad.ones(3, requires_grad=True)).sum()
    with pytest.raises(ad.AdjointError) as caught:
        y.backward()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(f.filename == str(path) and f.lineno == 4 for f in frames)
    assert any("grad.reshape((7, 7))" in (f.line or "") for f in frames)


def test_wrap_opt_if_saves_under_its_condition(tmp_path: Path) -> None:
    text = """
- name: user_scaled(Tensor self, Tensor other, bool flag) -> Tensor
  like: pointwise
  kernel: self * other
  self: grad * wrap_opt_if(other, flag) if flag else grad
  other: non_differentiable
"""
    ad.library(write(tmp_path, text))
    x, c = ad.ones(2, requires_grad=True), ad.full((2,), 3.0)
    with_it, without = ad.user_scaled(x, c, True), ad.user_scaled(x, c, False)
    assert with_it.grad_fn._saved_other is c
    assert without.grad_fn._saved_other is None
    assert ad.autograd.grad(with_it.sum(), x)[0].tolist() == [3.0, 3.0]


def test_several_outputs_and_grad_input_mask(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.write_text(f"""
- name: user_pair(Tensor a, Tensor b) -> (Tensor total, Tensor product)
  kernel: {path.stem}.pair
  shape: {path.stem}.shapes
  a, b: "((grad_total + grad_product * b) if grad_input_mask[0] else None, (grad_total +
  grad_product * a) if grad_input_mask[1] else None)"
""")
    kernels = SimpleNamespace(pair=lambda a, b: (a + b, a * b), shapes=lambda a, b: (a, a))
    ad.library(path, kernels=kernels)
    a = ad.tensor([2.0], dtype=ad.float64, requires_grad=True)
    b = ad.tensor([5.0], dtype=ad.float64, requires_grad=True)
    total, product = ad.user_pair(a, b)
    grads = ad.autograd.grad((total + 2 * product).sum(), (a, b))
    assert [g.item() for g in grads] == [11.0, 5.0]


def test_unknown_operator_suggests(capsys: Any) -> None:
    with pytest.raises(MissingOperator, match="tanh"):
        _ = ad.ops.tahn
    with pytest.raises(MissingOperator, match="overload"):
        _ = ad.ops.add.Nothing


def test_import_is_light() -> None:
    """SciPy's heavier modules are not loaded by import; benchmarks/ measures the time itself."""
    import subprocess

    heavy = "[m for m in sys.modules if m.startswith('scipy.') or m == 'torch']"
    code = f"import sys, adjoint; print({heavy})"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


def test_numpy_error_state_is_the_users() -> None:
    before = np.geterr()
    assert (ad.tensor(1.0) / 0).item() == float("inf")
    assert np.geterr() == before
