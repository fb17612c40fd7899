"""Rows from outside: reading a table file runs nothing but what a formula may say, and ends.

Every outcome of `ad.library` is a working row or one `TableError`; what a row may name is a
whitelist of values (docs/library_files.md).
"""

from __future__ import annotations

import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import TableError
from adjoint.expressions.special_functions import called
from adjoint.ops import operator as operators
from adjoint.table import TABLE
from tests.watching import limited, watched

ROW = "- name: {name}(Tensor self, Tensor other, int dim=0, str mode='a') -> Tensor\n"
COLUMNS = {
    "kernel": "  kernel: {}\n  self, other: non_differentiable\n",
    "decompose": "  decompose: {}\n",
    "self": "  kernel: xp.add(self, other)\n  other: zero\n  self: {}\n",
    "result": "  kernel: xp.add(self, other)\n  result: {}\n",
    "shape": "  kernel: xp.add(self, other)\n  self, other: zero\n  shape: {}\n",
    "batch": "  kernel: xp.add(self, other)\n  self, other: zero\n  batch: {}\n",
    "kink": "  kernel: xp.add(self, other)\n  self, other: zero\n  kink: {}\n",
    "fan": "  kernel: xp.add(self, other)\n  self, other: zero\n  fan: {}\n",
    "numpy": "  kernel: xp.add(self, other)\n  self, other: zero\n  numpy: {}\n",
    "element": (
        "  like: pointwise\n  kernel: xp.add(self, other)\n  self, other: zero\n  element: {}\n"
    ),
}
HOSTILE = (
    # modules behind NumPy and behind our own files
    "xp.testing._private.utils.os.system('x')",
    "xp.testing",
    "xp.load('/etc/passwd')",
    "xp.fromfile('/etc/passwd')",
    "xp.memmap('/tmp/x')",
    "xp.frompyfunc(len, 1, 1)(self)",
    "xp.vectorize(len)(self)",
    "xp.linalg.norm(self)",
    "xp.add.at(self, 0, other)",
    "xp.add.reduce(self)",
    "xp.char.array('x')",
    "xp",
    "loss.dtypes.np.testing._private.utils.os.system('x')",
    "loss.dtypes",
    "loss.dtypes.np",
    "linalg.ops",
    "linalg.Any",
    "linalg.__builtins__",
    "linalg._private(self)",
    "shape.np.load(self)",
    "random.default_generator",
    "indexing.annotations",
    "os.system('x')",
    "adjoint.core(self)",
    "special.ufunc('test', self)",
    # attributes of values
    "self.__class__",
    "self.__class__.__base__.__subclasses__()",
    "self.interpreter",
    "self.value",
    "self.edge.rule",
    "self.array",
    "self.numpy()",
    "self.data.tofile('x')",
    "self.backward()",
    "self.register_hook(len)",
    "self.sum.__globals__",
    "self.sum.__func__",
    "grad.__globals__",
    "len.__self__",
    "mode.format(self)",
    "'{0.__class__}'.format(self)",
    "'%s' % self",
    "mode.join(mode)",
    "(1).to_bytes(4, 'big')",
    "self.dtype.np",
    "self.dtype.type(1)",
    "self.shape.__len__()",
    "self.tolist().append(1)",
    # names
    "__import__('os').system('x')",
    "__builtins__",
    "eval('1')",
    "exec('1')",
    "open('/etc/passwd')",
    "getattr(self, 'value')",
    "globals()",
    "type(self)",
    "vars(self)",
    "print(self)",
    "compile('1', '', 'eval')",
    "breakpoint()",
    "_frame(0)",
    "_new",
    "_modes",
    "_Tensor",
    "_op",
    "_op__sum(self)",
    "_of__xp__add(self, other)",
    "self__shape",
    "_v_nothing",
    # syntax
    "lambda: 0",
    "(lambda x=open('x'): x)()",
    "[x := 1, x][0]",
    "f'{self}'",
    "f'{self.__class__}'",
    "{1: 2}",
    "{1, 2}",
    "{x for x in dim}",
    "sum(*[self])",
    "sum(**mode)",
    "sum(self, __class__=1)",
    "[x async for x in self]",
    "await self",
    "(yield self)",
    "[0 for self.value in dim]",
    "[0 for self[0] in dim]",
    "[self for self in other]",
    "b'x'",
    "self()()",
    "'x'()",
    "'x'[0]",
    "self['x']",
    "[self, other][0, 1]",
    "(self, other)[None]",
    "[self, other][...]",
    "[self, other][[0]]",
    "1 is 1",
    "self\nimport os",
    "import os",
    "self; other",
    "self = other",
    "ｓelf.value",
    "self.ｖalue",
    "self.valuе",
    "wrap_opt_if(self)",
    "wrap_opt_if(self.value, other)",
    "wrap_opt_if(open('x'), True)",
    "self.add_(other)",
    "mul_(self, other)",
    "self.zero_()",
    "xp.add(self, other, self)",
    "xp.add(self, other, out=self)",
    "xp.clip(self, 0, 1, self)",
    "xp.sum(self, 0, None, self)",
    # comments: the rest of a formula would be lost, or hidden from the check
    "True # x",
    "True #\n) or open('x') or (True",
    "self #\n * open('x')",
    "grad # * self",
    # what would take for ever, or all memory
    "10**10**10",
    "self * 2**10**10",
    "(1 << 10**12)",
    "'a' * 10**12",
    "list(range(10**12))",
    "range(1000000000000)",
    "9" * 5000,
    "0x" + "f" * 1000,
    "-" * 1900 + "self",
    "(" * 900 + "self" + ")" * 900,
    "self" + ".mT" * 600,
    "self" + " + self" * 300,
    "[" * 150 + "]" * 150,
    "not " * 450 + "self",
    "self if " * 200 + "self" + " else self" * 200,
    "self" + " " * 100_000,
    "self + " * 10_000 + "self",
    "\\0",
    "",
    "self +",
)


def tried(folder: Path, text: str) -> tuple[list[Any], str]:
    """The operators of a table, or its mistakes; reading it does nothing else."""
    path = folder / "hostile.yaml"
    path.write_text(text, encoding="utf-8")
    called()  # our own C functions, which are looked up where a text names an unknown one
    with limited(20), watched() as events:
        try:
            found, mistakes = ad.library(path), ""
        except TableError as error:
            found, mistakes = [], str(error)
    assert [e for e in events if e != f"open {path}"] == []
    return found, mistakes


def quoted(text: str) -> str:
    """A text as YAML in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


@pytest.mark.parametrize("column", COLUMNS)
def test_hostile_texts_are_refused_in_every_column(column: str, tmp_path: Path) -> None:
    accepted = []
    for number, text in enumerate(HOSTILE):
        row = ROW.format(name=f"hostile_{number}") + COLUMNS[column].format(quoted(text))
        found, mistakes = tried(tmp_path, row)
        if found:
            accepted.append(text)
        else:
            told = [m for m in mistakes.splitlines() if "no forward formula uses" not in m]
            assert told
            assert all(m.startswith(str(tmp_path / "hostile.yaml")) for m in told)
    optional = column in ("shape", "batch", "kink", "fan", "numpy")
    assert accepted == [""] * optional  # an empty column is an absent one


def test_hostile_texts_are_refused_as_conditions(tmp_path: Path) -> None:
    accepted = []
    for number, text in enumerate(HOSTILE):
        formula = quoted(f"grad * wrap_opt_if(other, {text})")
        row = ROW.format(name=f"hostile_{number}") + COLUMNS["self"].format(formula)
        if tried(tmp_path, row)[0]:
            accepted.append(text)
    assert accepted == []


def test_a_kernel_of_ours_does_not_lead_on() -> None:
    from adjoint.kernels.special.common import ufunc

    for name in ("test", "np", "errstate", "seterr", "_ufuncs", "__builtins__"):
        with pytest.raises(ad.AdjointError, match="no special function"):
            ufunc(name, np.ones(2))


FILES = {
    "nothing": "",
    "a comment": "# nothing\n",
    "not a row": "operators: [sin]\n",
    "before the rows": "x: 1\n- name: h1(Tensor self) -> Tensor\n  decompose: self.sin()\n",
    "a list of lists": "- [a, b]\n",
    "not YAML": "- name: h2(Tensor self) -> Tensor\n  kernel: [xp.sin\n",
    "an alias": "- name: h3(Tensor self) -> Tensor\n  doc: &a text\n  decompose: *a\n",
    "laughs": "- name: h4(Tensor self) -> Tensor\n  doc: [&a [x, x], &b [*a, *a], &c [*b, *b]]\n",
    "a tag": "- name: h5(Tensor self) -> Tensor\n  doc: !!python/object/apply:os.system ['x']\n",
    "another tag": "- name: h6(Tensor self) -> Tensor\n  decompose: !!binary c2VsZg==\n",
    "a merge": "- name: h7(Tensor self) -> Tensor\n  <<: {kernel: xp.sin}\n",
    "depth": "- name: h8(Tensor self) -> Tensor\n  doc: " + "[" * 5000 + "]" * 5000 + "\n",
    "a list": "- name: h9(Tensor self) -> Tensor\n  like: [x]\n",
    "a mapping": "- name: h10(Tensor self) -> Tensor\n  kernel: {a: b}\n",
    "a key": "- name: h11(Tensor self) -> Tensor\n  ? [a]\n  : b\n",
    "a number": "- name: h12(Tensor self) -> Tensor\n  output_differentiability: 3\n",
    "dispatch": "- name: h13(Tensor self) -> Tensor\n  dispatch: [x]\n",
    "two documents": "- name: h14(Tensor self) -> Tensor\n  decompose: self\n---\n- name: h15(\n",
    "import": "- name: h16(Tensor import) -> Tensor\n  decompose: ones(3)\n",
    "None": "- name: h17(Tensor None) -> Tensor\n  kernel: xp.sin\n  None: grad\n",
    "self.x": "- name: h18(Tensor self.x) -> Tensor\n  decompose: ones(3)\n",
    "type": "- name: h19(Tensor type) -> Tensor\n  decompose: type.sin()\n",
    "_frame": "- name: h20(Tensor _frame) -> Tensor\n  decompose: ones(3)\n",
    "dunder": "- name: h21(Tensor __class__) -> Tensor\n  decompose: ones(3)\n",
    "an argument of code": "- name: h22(Tensor a=open('x')) -> Tensor\n  decompose: ones(3)\n",
    "a default of code": "- name: h23(Tensor self, int n=open('x')) -> Tensor\n  kernel: xp.sin\n",
    "a long list": "- name: h24(Tensor self, int[999999999] n=1) -> Tensor\n  kernel: xp.sin\n",
    "many digits": f"- name: h25(Tensor self, int n={'9' * 1500}) -> Tensor\n  kernel: xp.sin\n",
    "a unicode name": "- name: hｉ(Tensor self) -> Tensor\n  decompose: self.sin()\n",
    "results": "- name: h26(Tensor self) -> (Tensor def, Tensor b)\n  decompose: (self, self)\n",
    "same results": "- name: h27(Tensor self) -> (Tensor a, Tensor a)\n  decompose: (self, self)\n",
    "a circle": "- name: h28(Tensor self) -> Tensor\n  decompose: h28(self)\n",
    "a wide circle": "- name: h29(Tensor self) -> Tensor\n  decompose: self.h30()\n"
    "- name: h30(Tensor self) -> Tensor\n  decompose: h29(self) + 1\n",
    "a huge row": "- name: h31(Tensor self) -> Tensor\n  doc: " + "x" * 50_000 + "\n",
    "a huge file": "- name: h32(Tensor self) -> Tensor\n  decompose: self\n" + "# x\n" * 400_000,
    "no end": "- name: " + "h(" * 900 + "\n",
    "escape sequences": '- name: h34(Tensor self) -> Tensor\n  decompose: self\n  doc: "\\e[31m"\n',
    "text turned around": "- name: h35(Tensor self) -> Tensor\n  decompose: self\n  doc: \u202eb\n",
    "many rows": "".join(
        f"- name: h_r{i}(Tensor self) -> Tensor\n  decompose: self\n" for i in range(10_000)
    ),
    "a tower": "".join(
        f"- name: h_t{i}(Tensor self) -> Tensor\n  decompose: h_t{i + 1}(self)\n"
        for i in range(100)
    )
    + "- name: h_t100(Tensor self) -> Tensor\n  decompose: self.sin()\n",
    "control characters": "- name: h33(Tensor self) -> Tensor\n  doc: \x07\n",
}


@pytest.mark.parametrize("kind", FILES)
def test_malformed_files_raise_a_table_error_with_their_place(kind: str, tmp_path: Path) -> None:
    before = TABLE.names()
    found, mistakes = tried(tmp_path, FILES[kind])
    assert found == []
    assert mistakes.startswith(str(tmp_path / "hostile.yaml"))
    assert TABLE.names() == before


@pytest.mark.parametrize("content", [b"\xff\xfe", b"- name: a(\xc3(", b"\x00"])
def test_bytes_that_are_no_text_raise_a_table_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content)
    with pytest.raises(TableError):
        ad.library(path)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b.yaml"])
def test_what_is_no_file_raises_a_table_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(TableError):
        ad.library(tmp_path / name)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(TableError, match="no such file"):
        ad.library(tmp_path / "pipe.yaml")


@pytest.mark.parametrize(
    "name",
    ["grad", "backward", "shape", "sin", "sin_", "add", "tensor", "compile", "value", "numpy",
     "home", "requires_grad", "T", "linalg", "inf", "DType", "to", "item", "__version__"],
)  # fmt: skip
def test_names_that_mean_something_are_refused(name: str, tmp_path: Path) -> None:
    found, mistakes = tried(
        tmp_path, f"- name: {name}.mine(Tensor self) -> Tensor\n  decompose: self * 2\n"
    )
    assert not found
    assert "hostile.yaml:1:" in mistakes


@pytest.mark.parametrize("overload", ["default", "function", "operators", "name", "overloads"])
def test_overloads_that_mean_something_are_refused(overload: str, tmp_path: Path) -> None:
    _, mistakes = tried(
        tmp_path, f"- name: h.{overload}(Tensor self) -> Tensor\n  decompose: self\n"
    )
    assert f"an overload cannot be called {overload!r}" in mistakes


@pytest.mark.parametrize("family", ["linalg", "xp", "pointwise", "random"])
def test_families_of_ours_are_refused(family: str, tmp_path: Path) -> None:
    """A library adds operators and changes none: kernels of ours stay ours."""
    path = tmp_path / f"{family}.yaml"
    path.write_text("- name: h40(Tensor self) -> Tensor\n  decompose: self * 2\n")
    with pytest.raises(TableError, match="rename the file"):
        ad.library(path, SimpleNamespace(solve=None))


def test_kernels_name_what_the_given_module_defines(tmp_path: Path) -> None:
    module = types.ModuleType("own_kernels")
    exec(
        "import os, numpy as np\nfrom os import system\nfrom numpy import sin\n"
        "__all__ = ['sin']\nclass Kind: pass\nvalue = 3\n"
        "def twice(x): return 2 * x\ndef _hidden(x): return x\n",
        module.__dict__,
    )
    row = "- name: h_{0}(Tensor self) -> Tensor\n  kernel: own.{0}\n  self: non_differentiable\n"
    path = tmp_path / "own.yaml"
    for name in ("os", "system", "np", "_hidden", "value", "Kind", "missing", "os.system"):
        path.write_text(row.replace("h_{0}", "h_wrong").format(name))
        with pytest.raises(TableError, match="no function defined in the given kernels"):
            ad.library(path, module)
    path.write_text(row.format("twice") + row.format("sin"))
    twice, sine = ad.library(path, module)
    assert twice(ad.ones(2)).tolist() == [2.0, 2.0]
    assert sine(ad.zeros(2)).tolist() == [0.0, 0.0]


def test_two_files_of_one_name_keep_their_own_kernels(tmp_path: Path) -> None:
    for folder, factor in (("a", 2.0), ("b", 3.0)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "mine.yaml"
        path.write_text(
            f"- name: h_in_{folder}(Tensor self) -> Tensor\n  kernel: mine.scale\n"
            f"  self: grad * {factor}\n"
        )
        ad.library(path, SimpleNamespace(scale=lambda x, factor=factor: x * factor))
    assert ad.h_in_a(ad.ones(1)).tolist() == [2.0]
    assert ad.h_in_b(ad.ones(1)).tolist() == [3.0]


def test_a_row_is_read_as_it_is_written(tmp_path: Path) -> None:
    """YAML's own readings (010 is 8, 1:30 is 90) are not those of a formula."""
    path = tmp_path / "plain.yaml"
    path.write_text(
        "- name: h50(Tensor self) -> Tensor\n  kernel: xp.multiply(self, 1_0)\n  self: grad * 10\n"
        "- name: h51(Tensor self) -> Tensor\n  decompose: 0x10 * self\n"
        "- name: h52(Tensor self) -> Tensor\n  kernel: self + 0\n  self: 1_0\n"
    )
    ad.library(path)
    assert ad.ops.h52.default.row.texts["self"] == "1_0"
    assert ad.h51(ad.ones(1)).tolist() == [16.0]


def test_numpy_functions_for_kernels_only_compute() -> None:
    from adjoint.ops.binding import NUMPY

    risky = ("load", "save", "savez", "fromfile", "loadtxt", "genfromtxt", "memmap", "frompyfunc",
             "vectorize", "apply_along_axis", "apply_over_axes", "piecewise", "fromfunction",
             "testing", "ctypeslib", "f2py", "lib", "linalg", "random", "core", "put", "place",
             "putmask", "copyto", "fill_diagonal", "seterr", "setbufsize", "show_config", "info",
             "getbufsize", "set_printoptions", "require", "fromstring", "frombuffer")  # fmt: skip
    assert not NUMPY & set(risky)


@pytest.mark.parametrize("name", ["add.Tensor", "add.mine", "sin", "sum.dim_IntList"])
def test_a_refused_file_leaves_our_operators_as_they_were(name: str, tmp_path: Path) -> None:
    known = name.partition(".")[0]
    before = [operators.operator(known, o) for o in TABLE.overloads(known)]
    packet = operators.packet(known)
    _, mistakes = tried(tmp_path, f"- name: {name}(Tensor self) -> Tensor\n  decompose: self\n")
    assert mistakes
    assert [operators.operator(known, o) for o in TABLE.overloads(known)] == before
    assert operators.packet(known) is packet
    assert ad.add(ad.ones(2), 1).sin().sum(0).item() > 0
