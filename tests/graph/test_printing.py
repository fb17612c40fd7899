"""Graphs as text: Python that runs and reads back as itself; pictures; the command line."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.cli import main
from adjoint.graph.ir import Block, GraphError
from adjoint.graph.parsing import ParseError
from tests.graph import call
from tests.watching import limited, watched


def f(params: Any, x: Any, *, scale: int = 2) -> Any:
    y = (x @ params["w"] + ad.tensor([0.5, -ad.inf])).tanh() * scale
    first, second = y.split(1)
    value, index = first.max(-1)
    return {"y": y.to(ad.float64), "rest": [value, index, second.sum(-1)], "n": 3}


def example() -> ad.graph.Graph:
    return ad.trace(
        f, {"w": ad.ShapeDtype((3, 2), requires_grad=True)}, ad.ShapeDtype((2, 3)), scale=2
    )


TEXT = '''\
import adjoint as ad


def f(params_w: "f32[3,2] grad", x: "f32[2,3]"):
    """f({'w': params_w}, x, scale=2)"""
    matmul = ad.ops.matmul.default(x, params_w)  # f32[2,2] grad
    constant = ad.tensor([0.5, -ad.inf], dtype=ad.float32)  # f32[2]
    add = ad.ops.add.Tensor(matmul, constant)  # f32[2,2] grad
    tanh = ad.ops.tanh.default(add)  # f32[2,2] grad
    mul = ad.ops.mul.Scalar(tanh, 2)  # f32[2,2] grad
    split, split_1 = ad.ops.split.Tensor(mul, 1)  # f32[1,2] grad; f32[1,2] grad
    max_values, max_indices = ad.ops.max.dim(split, -1)  # f32[1] grad; i64[1]
    to_copy = ad.ops._to_copy.default(mul, dtype=ad.float64)  # f64[2,2] grad
    sum = ad.ops.sum.dim_IntList(split_1, (-1,))  # f32[1] grad
    return {'y': to_copy, 'rest': [max_values, max_indices, sum], 'n': 3}
'''


def test_the_text_of_a_graph() -> None:
    graph = example()
    for node in graph.nodes:
        node.place = ""
    assert str(graph) == TEXT


def test_the_text_runs() -> None:
    graph = example()
    namespace: dict[str, Any] = {}
    exec(str(graph), namespace)
    w, x = ad.randn(3, 2), ad.randn(2, 3)
    got, expected = namespace["f"](w, x), f({"w": w}, x)
    assert ad.equal(got["y"], expected["y"])
    assert ad.equal(got["rest"][1], expected["rest"][1])


def test_the_text_reads_back_as_itself() -> None:
    graph = example()
    again = ad.graph.verify(ad.graph.parse(str(graph)))
    assert str(again) == str(graph)
    assert again.signature.inputs == graph.signature.inputs
    assert again.signature.outputs == graph.signature.outputs
    assert again.signature.static == graph.signature.static
    assert [n.place for n in again.nodes] == [n.place for n in graph.nodes]
    w, x = ad.randn(3, 2), ad.randn(2, 3)
    assert ad.equal(again({"w": w}, x, scale=2)["y"], f({"w": w}, x)["y"])


def test_blocks_and_detached_values_read_back() -> None:
    graph = ad.trace(lambda x: x.exp().detach() * x, ad.ShapeDtype(3, requires_grad=True))
    for number, node in enumerate(graph.nodes):
        node.block = Block(number, "exp.default")
    again = ad.graph.parse(str(graph))
    assert again.ssa() == graph.ssa()
    assert [n.block for n in again.nodes] == [n.block for n in graph.nodes]


@pytest.mark.parametrize(
    "constant",
    [
        ad.tensor([1.5, ad.nan, -0.0, 1e-30]),
        ad.tensor([[True], [False]]),
        ad.tensor(3, dtype=ad.int8),
        ad.tensor([1 + 2j, complex(ad.inf, -0.0), -1j]),
        ad.zeros(0, 3, dtype=ad.int64),
        ad.tensor([0.1, 2.0], dtype=ad.bfloat16),
        ad.tensor([0.1], dtype=ad.float64),
        ad.arange(100.0),
        ad.ones(2, requires_grad=True),
    ],
    ids=[
        "floats",
        "bools",
        "int8",
        "complex",
        "empty",
        "bfloat16",
        "float64",
        "large",
        "with-gradient",
    ],
)
def test_constants_read_back_exactly(constant: ad.Tensor) -> None:
    graph = ad.trace(lambda: constant)
    again = ad.graph.parse(str(graph), graph.constants)
    assert str(again) == str(graph)
    got = again()
    assert (got.dtype, got.shape) == (constant.dtype, constant.shape)
    assert got.detach().numpy().tobytes() == constant.detach().numpy().tobytes()


def test_large_constants_stay_outside_the_text() -> None:
    graph = ad.trace(lambda x: x + ad.arange(100.0), ad.ShapeDtype(100))
    weight = ad.randn(100)
    graph = ad.trace(lambda x: x + weight, ad.ShapeDtype(100))
    assert 'constants["constant"]' in str(graph)
    assert list(graph.constants) == ["constant"]
    namespace: dict[str, Any] = {"constants": graph.constants}
    exec(str(graph), namespace)
    assert ad.allclose(next(v for k, v in namespace.items() if k == "f")(ad.zeros(100)), weight)
    with pytest.raises(GraphError, match="pass constants=graph.constants"):
        ad.graph.parse(str(graph))


def test_nested_graphs_are_nested_functions() -> None:
    inner = ad.trace(lambda a: a.sin() * 2, ad.ShapeDtype(3))
    graph = ad.trace(lambda x: x.exp(), ad.ShapeDtype(3))
    graph.outputs = [call(graph, inner, [graph.outputs[0]]).output]
    again = ad.graph.verify(ad.graph.parse(str(graph)))
    assert str(again) == str(graph)
    x = ad.randn(3)
    assert ad.allclose(again(x), x.exp().sin() * 2)
    namespace: dict[str, Any] = {}
    exec(str(graph), namespace)
    assert ad.allclose(namespace["f"](x), x.exp().sin() * 2)


def test_control_flow_reads_back() -> None:
    def g(x: Any) -> Any:
        return ad.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y * 2, x)

    graph = ad.trace(g, ad.ShapeDtype(3))
    again = ad.graph.verify(ad.graph.parse(str(graph), graph.constants))
    assert str(again) == str(graph)
    for x in (ad.ones(3), -ad.ones(3)):
        assert ad.allclose(again(x), g(x))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "only `import adjoint as ad` and one function"),
        ("def f(x):\n    return x", "an input needs its type"),
        ('def f(x: "f99[3]"):\n    return x', "is not a type"),
        ('def f(x: "f32[3]"):\n    return y', "used before it is defined"),
        ('def f(x: "f32[3]"):\n    y = open(x)\n    return y', "expected ad.ops"),
        ('def f(x: "f32[3]"):\n    y = ad.ops.nothing.default(x)\n    return y', "nothing"),
        (
            'def f(x: "f32[3]"):\n    y = ad.ops.sin.default(x).numpy()\n    return y',
            "expected ad.ops",
        ),
        ('def f(x: "f32[3]"):\n    import os\n    return x', "a graph holds assignments"),
        ('def f(x: "f32[3]"):\n    y = ad.ops.mm.default(x, x)\n    return y', "line 2"),
        (
            'def f(x: "f32[3]"):\n    y, z = ad.ops.sin.default(x)\n    return y',
            "has 1 results, not 2",
        ),
        (
            'def f(x: "f32[3]"):\n    x = ad.ops.sin.default(x)\n    return x',
            "x has a value already",
        ),
        (
            'def f(x: "f32[3]"):\n    y = ad.ops.sin.default(x)  # f32[4]\n    return y',
            r"said to be f32\[4\]",
        ),
        ('def f(x: "f32[3]"):\n    y = ad.ops.sin.default(x)', "has no return"),
        ("def f(:", "line 1"),
    ],
)
def test_other_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        ad.graph.parse(text)


F = 'def f(x: "f32[3]"):\n    '
MALFORMED = {
    "nothing": "",
    "null byte": "def f(x\0):",
    "an import": "import os\n" + F + "return x",
    "imports under another name": "import adjoint as a\n" + F + "return x",
    "a star": 'def f(*x: "f32[3]"):\n    return x',
    "a keyword": 'def f(*, x: "f32[3]"):\n    return x',
    "a default": 'def f(x: "f32[3]" = 1):\n    return x',
    "a decorator": "@print\n" + F + "return x",
    "an input twice": 'def f(x: "f32[3]", x: "f32[3]"):\n    return x',
    "a type without sizes": 'def f(x: "f32[--]"):\n    return x',
    "a type with many digits": f'def f(x: "f32[{"9" * 5000}]"):\n    return x',
    "asynchronous": "async " + F + "return x",
    "depth": F + "return " + "[" * 150 + "]" * 150,
    "signs": F + "y = ad.ops.mul.Scalar(x, " + "-" * 5000 + "1)\n    return y",
    "no argument of a region": F + "y, = ad.graph.region()\n    return y",
    "a list for a region": F + "y, = ad.graph.region([x])\n    return y",
    "a region without graphs": F + "y, = ad.graph.region('scan', x)\n    return y",
    "a region with a number": F + "y, = ad.graph.region('cond', x, true=3)\n    return y",
    "no overload": F + "y = ad.ops.sin.nothing(x)\n    return y",
    "an argument of another kind": F + "y = ad.ops.sum.dim_IntList(x, 'a')\n    return y",
    "a value for a number": F + "y = ad.ops.mul.Scalar(x, x)\n    return y",
    "a number for a value": F + "y = ad.ops.sin.default(3)\n    return y",
    "a sum of names": F + "y = ad.ops.mul.Scalar(x, x + x)\n    return y",
    "a negative text": F + "y = ad.ops.mul.Scalar(x, -'a')\n    return y",
    "a huge number": F + f"y = ad.ops.mul.Scalar(x, {'9' * 400})\n    return y",
    "a long number": F + f"y = ad.ops.mul.Scalar(x, {'9' * 5000})\n    return y",
    "no dtype": F + "y = ad.ops.zeros_like.default(x, dtype=ad.nothing)\n    return y",
    "a complex of text": F + "y = ad.ops.mul.Scalar(x, complex('1'))\n    return y",
    **{
        f"a complex of {part}": F + f"y = ad.ops.mul.Scalar(x, complex({part}, 0.0))\n    return y"
        for part in ("1j", "1.0 + 1j", "True", "None", "x", "-'a'", "9" * 400)
    },
    "no data": F + "y = ad.tensor()\n    return y",
    "ragged data": F + "y = ad.tensor([[1.0], 2.0])\n    return y",
    "huge zeros": F + "y = ad.zeros((10000000, 10000000))\n    return y",
    "a constant that is none": F + 'y = constants["z"]\n    return y',
    "a key that is a list": F + "return {x: x}",
    "two equal keys": F + 'return {"a": x, "a": x}',
    "unpacked": F + "return {**x}",
    "a call that is none": F + '"""x +"""\n    return x',
    "a call with stars": F + '"""f(**x)"""\n    return x',
    "a call of code": F + '"""f(__import__(\'os\'))"""\n    return x',
    "a write": F + "y = ad.ops.sin_.default(x)\n    return y",
    "many results": 'def f(x: "f32[999999999999]"):\n    y, = ad.ops.unbind.int(x)\n    return y',
    "too large": 'def f(x: "f32[999999999999]"):\n    y = ad.ops.t.default(x)\n    return y, z',
    "combinations": 'def f(x: "f32[9999999]"):\n    y = ad.ops.combinations.default(x, 999999)\n'
    "    return y",
    "a function of its own": F
    + 'def g(z: "f32[3]"):\n        return z\n    y = g(3)\n    return y',
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_text_raises_parse_error_and_ends(kind: str) -> None:
    with limited(20), watched() as events, pytest.raises(ParseError, match="^parse: "):
        ad.graph.parse(MALFORMED[kind], {"z": 3})
    assert events == []


def test_what_is_wrong_is_told_with_line_and_column() -> None:
    text = F + "y = ad.ops.sin.default(x)\n    z = ad.ops.mul.Tensor(y, w)\n    return z"
    with pytest.raises(ParseError, match="line 3, column 30: 'w': is used before it is defined"):
        ad.graph.parse(text)


@pytest.mark.parametrize("number", ["complex(0.0, 1j)", "-complex(1j, 0.0)", "1 + complex(2j, 1j)"])
def test_a_complex_number_of_complex_parts_is_told_with_line_and_column(number: str) -> None:
    text = F + f"y = ad.ops.mul.Scalar(x, {number})\n    return y"
    column = text.splitlines()[1].index("j")  # from 1, of the digit before it
    with pytest.raises(ParseError, match=rf"line 2, column {column}: '\dj': is not a real number"):
        ad.graph.parse(text)


def test_long_comments_are_read_in_linear_time() -> None:
    text = F + "y = ad.ops.sin.default(x)  # f32[3]" + " " * 200_000 + "x\n    return y"
    with limited(20):
        assert len(ad.graph.parse(text)) == 1


def test_names_that_python_does_not_allow() -> None:
    graph = ad.trace(lambda x: x.__and__(True), ad.ShapeDtype(3, ad.bool))
    for name in ("lambda", "ad", "constants"):
        graph.inputs[0].name = name
        again = ad.graph.parse(str(graph))
        assert ad.equal(again(ad.tensor([True, False, True])), ad.tensor([True, False, True]))


def test_ssa_is_compact() -> None:
    graph = ad.trace(lambda x: (x * ad.tensor([1.0, 2.0])).sum(0), ad.ShapeDtype((3, 2)))
    assert graph.ssa().splitlines() == [
        "graph f(%x: f32[3,2]) {",
        "  %constant: f32[2] = constant([1.0, 2.0])",
        "  %mul: f32[3,2] = mul.Tensor(%x, %constant)",
        "  %sum: f32[2] = sum.dim_IntList(%mul, (0), False, None)",
        "  return %sum",
        "}",
    ]
    assert repr(graph) == "<graph f: 1 inputs, 3 nodes, 1 outputs>"


def test_pictures_are_svg(tmp_path: Path) -> None:
    graph = ad.trace(lambda x: (x.tanh() @ x.t()).sum() + ad.rand(()), ad.ShapeDtype((3, 3)))
    list(graph.nodes)[2].block = Block(0, "tanh.default")
    root = ET.fromstring(graph.show()._repr_svg_())
    shown = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"x", "tanh", "matmul", "sum", "rand", "output 0", "36 B"} <= set(shown)
    graph.show(tmp_path / "graph.svg")
    assert ET.parse(tmp_path / "graph.svg").getroot().tag.endswith("svg")
    assert graph._repr_svg_() == graph.show()._repr_svg_()


MODEL = """
import adjoint as ad

def loss(params, x):
    return (x @ params["w"]).tanh().sum()

NUMBER = 3
"""


def test_the_trace_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    at = ["--at", "{'w': [1.0, 2.0]}", "f32[3,2]"]
    assert main(["trace", f"{path}:loss", *at]) == 0
    text = capsys.readouterr().out
    graph = ad.graph.parse(text)
    assert graph({"w": ad.ones(2)}, ad.zeros(3, 2)).item() == 0
    assert "at model.py:5" in text
    options = ["--grad", "--simplify", "--ssa", "--statistics", "--svg", str(tmp_path / "a.svg")]
    assert main(["trace", f"{path}:loss", *at, *options]) == 0
    text = capsys.readouterr().out
    assert text.startswith("graph grad_loss(%params_w: f32[2], %x: f32[3,2])")
    assert "nodes," in text
    assert (tmp_path / "a.svg").exists()


@pytest.mark.parametrize(
    ("function", "at", "message"),
    [
        ("model.py", "1", "write FILE:FUNCTION"),
        ("nowhere.py:f", "1", "there is no file"),
        ("model.py:los", "1", "has no function 'los'; it has loss"),
        ("model.py:NUMBER", "1", "has no function"),
        ("broken.py:f", "1", "cannot be imported: ZeroDivisionError"),
        ("model.py:loss", "1 +", "not a Python literal"),
    ],
)
def test_the_trace_command_says_what_is_wrong(
    function: str,
    at: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "broken.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    assert main(["trace", function, "--at", at]) == 1
    assert message in capsys.readouterr().err
