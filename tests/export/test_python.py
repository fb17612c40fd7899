"""export.python: files that run with NumPy alone and give what the graph gives; `adjoint grad`."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.cli import main
from adjoint.core import dtypes
from adjoint.export import renderers
from adjoint.expressions import special_functions
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import jacobians, laws
from adjoint.testing.jacobians import Call, array_of
from tests import tables
from tests.expressions.test_c_text import ROWS
from tests.graph.test_control import FUNCTIONS, XS, W
from tests.laws.test_laws import UNSAMPLED

# A Python in which only NumPy and the standard library can be imported.
ALONE = """
import json, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("adjoint", "scipy", "ml_dtypes", "yaml", "torch"):
            raise ImportError(name + " is not NumPy")
sys.meta_path.insert(0, Refuse())
space = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), space)
import numpy as np
result = space[sys.argv[2]](*[np.array(a) for a in json.load(open(sys.argv[3]))])
results = result if isinstance(result, tuple) else (result,)
print(json.dumps([np.asarray(r).tolist() for r in results]))
"""


def run_alone(path: Path, text: str, name: str, *arrays: Any) -> list[Any]:
    """Run an exported function in a process of its own."""
    (path / "exported.py").write_text(text)
    (path / "arguments.json").write_text(json.dumps([np.asarray(a).tolist() for a in arrays]))
    command = [
        sys.executable,
        "-c",
        ALONE,
        str(path / "exported.py"),
        name,
        str(path / "arguments.json"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_here(text: str, name: str, *arrays: Any) -> tuple[Any, ...]:
    space: dict[str, Any] = {}
    exec(compile(text, "exported", "exec"), space)
    result = space[name](*arrays)
    return result if isinstance(result, tuple) else (result,)


def network(params: Any, x: Any, y: Any) -> Any:
    *hidden, (w, b) = params
    for weight, bias in hidden:
        x = (x @ weight + bias).tanh()
    z = x @ w + b
    return -((z - z.logsumexp(1, keepdim=True)) * y).sum(1).mean()


def test_the_gradient_of_a_network_runs_with_numpy_alone(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    params = [
        (ad.tensor(r.normal(size=(3, 4))), ad.tensor(r.normal(size=4))),
        (ad.tensor(r.normal(size=(4, 2))), ad.tensor(r.normal(size=2))),
    ]
    x, y = ad.tensor(r.normal(size=(5, 3))), ad.tensor(np.eye(2)[r.integers(0, 2, 5)])
    text = ad.export.python(ad.trace(ad.value_and_grad(network), params, x, y), "step")
    assert "adjoint" not in {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    found = run_alone(
        tmp_path, text, "step", *[p.numpy() for pair in params for p in pair], x.numpy(), y.numpy()
    )
    value, grads = ad.value_and_grad(network)(params, x, y)
    for a, b in zip(found, [value, *(g for pair in grads for g in pair)], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-12)


def test_loops_and_branches_run_with_numpy_alone(tmp_path: Path) -> None:
    for function in FUNCTIONS:
        text = ad.export.python(ad.trace(ad.value_and_grad(function), W, XS), "f")
        found = run_alone(tmp_path, text, "f", W.numpy(), XS.numpy())
        for a, b in zip(found, ad.value_and_grad(function)(W, XS), strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-10)


def test_constants_small_and_large_are_in_the_file(tmp_path: Path) -> None:
    small, large = (
        ad.tensor([1.0, 2.0], dtype=ad.float64),
        ad.tensor(np.random.default_rng(0).normal(size=(100, 2))),
    )
    f = lambda x: (large * (x + small)).sum()
    x = ad.tensor([3.0, 4.0], dtype=ad.float64)
    found = run_alone(tmp_path, ad.export.python(ad.trace(f, x), "f"), "f", x.numpy())
    np.testing.assert_allclose(found[0], f(x).item(), rtol=1e-12)


def test_names_that_python_or_the_file_use_are_changed() -> None:
    def f(np: Any, slice: Any) -> Any:
        return np.sum() * slice[1:].sum()

    graph = ad.trace(f, ad.ones(2), ad.ones(3))
    assert float(run_here(ad.export.python(graph, "lambda"), "f", np.ones(2), np.ones(3))[0]) == 4.0


def test_a_custom_rule_is_written_as_what_it_computes() -> None:
    clipped = ad.custom_vjp(lambda x: x**2)
    clipped.defvjp(lambda x: (x**2, x), lambda x, g: (g * (2 * x).clamp(-1, 1),))
    x = ad.tensor(3.0, dtype=ad.float64)
    text = ad.export.python(ad.trace(ad.value_and_grad(clipped), x), "f")
    assert [float(v) for v in run_here(text, "f", 3.0)] == [9.0, 1.0]


def test_columns_name_functions_that_exist() -> None:
    named = [row.texts.get("numpy", "") for row in TABLE.rows()]
    names = {n.partition(".")[2] for n in named if n.startswith("renderers.")}
    assert {n for n in names if not callable(getattr(renderers, n, None))} == set()


def test_a_row_of_a_library_is_exported_as_it_says(tmp_path: Path) -> None:
    rows = """
- name: distance(Tensor self, Scalar width=0) -> Tensor
  like: pointwise
  kernel: mine.distance
  numpy: xp.abs(self).astype(result.dtype) if width == 0 else xp.abs(self - width)
  self: grad * (self - width).sign()
"""
    kernels = SimpleNamespace(distance=lambda x, width: np.abs(x - width))
    with tables.added(tmp_path, rows, kernels):
        x = ad.tensor([1.0, -2.0])
        text = ad.export.python(ad.trace(lambda x: ad.distance(x) + ad.distance(x, 3), x))
        assert "np.abs(x).astype(np.float32)" in text
        assert "np.abs(x - 3)" in text
        space: dict[str, Any] = {}
        exec(text, space)
        assert space["f"](x.numpy()).tolist() == [3.0, 7.0]


def test_what_numpy_cannot_do_is_refused_by_name() -> None:
    with pytest.raises(ad.export.ExportError, match=r"rand.*random numbers"):
        ad.export.python(ad.trace(lambda x: x + ad.rand(3), ad.ones(3)))
    with pytest.raises(ad.export.ExportError, match="bfloat16"):
        ad.export.python(ad.trace(lambda x: x + 1, ad.ones(3, dtype=ad.bfloat16)))


# Operators whose kernels need more than NumPy or are long; they are refused, and named.
REFUSED = frozenset(
    [
        "_grouped_mm",
        "_histc",
        "_median",
        "_new_zeros_with_same_feature_meta",
        "combinations",
        "hash_tensor",
        "median",
        "mode",
        "nanmedian",
        "new_empty_strided",
        "repeat_interleave",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "searchsorted",
        "segment_reduce",
    ]
)
FAMILIES = ("creation", "indexing", "matmul", "pointwise", "reduction", "scan", "shape", "sorting")


EXPORTED = {
    row.full_name: row
    for row in TABLE.rows()
    if row.family in FAMILIES
    and not row.schema.mutates
    and "empty" not in row.schema.name
    and row.name != "bfloat16"  # which NumPy does not have
    and row.full_name not in UNSAMPLED
}


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_equals_eager(name: str) -> None:
    case = next(case for dtype in laws.DTYPES for case in laws.cases(EXPORTED[name], dtype))
    tensors = [t.detach() for t in jacobians.tensors_in(case.arguments)]
    values = Call(case.run, case.arguments, tuple(jacobians.tensors_in(case.arguments)))
    places = [
        k
        for k, t in enumerate(jacobians.tensors_in(case.arguments))
        if t.requires_grad and not case.sample.kink
    ]

    def both(*given: Any) -> Any:
        """The results, and the gradient of a function of them."""

        def total(*chosen: Any) -> Any:
            full = list(given)
            for place, tensor in zip(places, chosen, strict=True):
                full[place] = tensor
            outputs = values(full)
            parts = [(o * o.conj()).real.sum() for o in outputs if o.is_differentiable_dtype()]
            return sum(parts, ad.zeros((), dtype=ad.float64)), outputs

        if not places:
            return values(given)
        _, pull, outputs = ad.vjp(total, *(given[k] for k in places), has_aux=True)
        return [*outputs, *pull(ad.ones((), dtype=ad.float64))]

    try:
        graph = ad.trace(both, *tensors)
    except ad.graph.TraceError:
        return  # sizes that depend on values
    try:
        text = ad.export.python(graph, "f")
    except ad.export.ExportError as error:
        if str(error).split()[1].partition(".")[0] not in REFUSED:
            raise
        return
    found = run_here(text, "f", *map(array_of, tensors))
    expected = both(*tensors)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == array_of(b).dtype
        np.testing.assert_allclose(a, array_of(b), rtol=1e-9, atol=1e-11)


# Functions of elements that NumPy lacks, and that are not functions with loops.
LACKING = frozenset(("lgamma",))
ELEMENTS = [row for row in ROWS if row.family in ("activation", "special")]


def exported(graph: Any) -> tuple[str, str]:
    """The text of a graph, or the function for which it is refused."""
    try:
        return ad.export.python(graph, "f"), ""
    except ad.export.ExportError as error:
        return "", str(error).rpartition("its element calls ")[2].removesuffix("()")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("row", ELEMENTS, ids=lambda row: row.full_name)
def test_an_element_is_exported_as_it_is_computed(row: Row, dtype: str) -> None:
    """Only functions with loops, which are written in C, are refused."""
    case = next(iter(laws.cases(row, dtypes.named(dtype))))
    tensors = [t.detach() for t in jacobians.tensors_in(case.arguments)]
    values = Call(case.run, case.arguments, tuple(jacobians.tensors_in(case.arguments)))
    graph = ad.trace(lambda *given: values(given), *tensors)
    text, function = exported(graph)
    if function:
        assert function in {*special_functions.called(), *LACKING}
        return
    found = run_here(text, "f", *map(array_of, tensors))
    for a, b in zip(found, values(tensors), strict=True):
        assert np.asarray(a).dtype == array_of(b).dtype
        tolerance = 1e-12 if dtype == "float64" else 3e-6
        np.testing.assert_allclose(a, array_of(b), rtol=tolerance, atol=tolerance)


# --- the command line ----------------------------------------------------------------------------

MODEL = """
import adjoint as ad

def loss(x, scale=2.0):
    return (scale * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum()

def pair(p):
    return (p["a"] * p["b"]).sum()
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


def test_grad_prints_value_and_gradient(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", f"{model}:loss", "--at", "[1.0, 2.0]", "--double"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["value", "3.0"]
    assert lines[1].split(maxsplit=1)[1] == "[-8.,  6.]"


def test_grad_names_the_parts_of_a_tree(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", f"{model}:pair", "--at", "{'a': [1.0, 2.0], 'b': [3.0, 4.0]}"]) == 0
    text = capsys.readouterr().out
    assert "gradient['a']  [3., 4.]" in text
    assert "gradient['b']  [1., 2.]" in text


def test_grad_source_runs_with_numpy_alone(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grad", f"{model}:loss", "--at", "f64[2]", "--source"]) == 0
    text = capsys.readouterr().out
    found = run_alone(tmp_path, text, "value_and_grad_of_loss", [1.0, 2.0])
    assert found == [3.0, [-8.0, 6.0]]


def test_grad_explains_mistakes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ([f"{model}:loss"], "--at"),
        ([f"{model}:loss", "--at", "f64[2]"], "--source"),
        ([f"{model}:nothing", "--at", "1.0"], "no function"),
        ([f"{model}:loss", "--at", "[1.0]", "--wrt", "3"], "argnums"),
    ):
        assert main(["grad", *arguments]) == 1
        assert message in capsys.readouterr().err
