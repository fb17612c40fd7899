"""The `adjoint` command: what it prints, and how it fails."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from adjoint.cli import main, parser
from adjoint.cli.parser import commands_of
from adjoint.table import TABLE
from adjoint.testing import laws


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = main(arguments)
    output = capsys.readouterr()
    assert status == 0, output.err
    return output.out


@pytest.mark.parametrize("function", ["rosenbrock", "himmelblau", "logistic"])
def test_demo_checks_its_derivatives(function: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "demo", function)
    deviations = re.findall(r"(?:gradient|hessian) +(\d\.\de-\d\d)", text)
    assert len(deviations) == 2
    assert all(float(d) < 1e-6 for d in deviations)


def test_demo_of_rosenbrock_prints_the_known_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "demo")
    assert re.search(r"value +24\.2\n", text)
    assert re.search(r"gradient +-215\.6 +-88\n", text)
    assert re.search(r"hessian +1330 +480\n +480 +200\n", text)


def test_demo_names_rows_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "demo")
    places = re.findall(r"(\S+\.yaml):(\d+)", text)
    assert places
    for path, line in places:
        assert Path(path).read_text().splitlines()[int(line) - 1].startswith("- name:")


def test_ops_lists_every_operator(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "ops").splitlines()
    assert {line.split()[0] for line in lines[:-1]} == set(TABLE.names())
    assert lines[-1] == f"{len(TABLE.names())} operators"


def test_ops_searches_by_part_and_by_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    assert "addmm" in run(capsys, "ops", "mm")
    matched = [line.split()[0] for line in run(capsys, "ops", "?mm").splitlines()[:-1]]
    assert matched == ["bmm"]
    families = {
        line.split()[1] for line in run(capsys, "ops", "--family", "matmul").splitlines()[:-1]
    }
    assert families == {"matmul"}


@pytest.mark.parametrize("arguments", [("show", "mm"), ("ops", "--show", "mm")])
def test_show_prints_the_row(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(capsys, *arguments)
    assert "name: mm(Tensor self, Tensor mat2) -> Tensor" in text
    assert "self: grad.mm(mat2.mH)" in text


def test_show_prints_one_overload(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "show", "sum.dim_IntList")
    assert text.count("- name:") == 1
    assert "sum.dim_IntList(" in text


@pytest.mark.parametrize("name", ["matmul", "tanh", "addmm_", "einsum", "bilinear"])
def test_where_points_at_definitions(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "where", name)
    places = re.findall(r"(\S+\.py):(\d+) (\w+)", text)
    for path, line, function in places:
        source = Path(path).read_text().splitlines()[int(line) - 1 :][:8]
        assert any(f"def {function}(" in text or "@" in text for text in source), (path, line)
    assert re.search(r"row +\S+\.yaml:\d+", text)


@pytest.mark.parametrize(
    "name", ["sin", "_foreach_add_", "fft_rfft", "special_laguerre_polynomial_l"]
)
def test_where_points_at_the_reference(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    places = re.findall(r"reference +(\S+\.py):?(\d*) \"(\S+)\"", run(capsys, "where", name))
    assert places
    for path, line, key in places:
        assert not line or f'"{key}":' in Path(path).read_text().splitlines()[int(line) - 1]


def test_where_finds_all_layers_of_an_operator(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "where", "matmul")
    assert "table/matmul.yaml" in text
    for layer in ("kernels", "shapes", "formulas", "samples"):
        assert f"{layer}/matmul.py" in text


WHERE = {
    "tanh": (r"element +.*tanh@\(self\)", "compiled +one loop", r"exported +np.tanh\("),
    "pow.Tensor_Scalar": (r"element +\S+/expressions/variants.py:\d+ power", "fact +identity: exp"),
    "cat": (r"numpy +\S+/export/renderers.py:\d+ cat", "compiled +one loop"),
    "mm": ("fact +product: self @ mat2", "compiled +a call of product", "exported .* @ "),
    "sort.stable": ("compiled +a call of sort", "batch +.*batching/words.py"),
    "hash_tensor": ("compiled +calls back to hash_tensor.default",),
    "reshape": ("fact +moves: shape", "fact +a view", "compiled +nothing to compute"),
    "rand": ("fact +random: True", "exported +rand.default cannot be .*: it draws random numbers"),
    "silu": (r"decompose +.*self \* self.sigmoid", "samples +.*activation.py", "fact +silu_"),
}


def test_where_finds_the_tests_of_an_operator(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "where", "matmul")
    assert re.search(r"tests +tests/laws -k matmul\.default\n", text)
    named = re.findall(r"tests +(\S+\.py):(\d+) (test_\w+)", text)
    assert named
    for path, line, name in named:
        assert f"def {name}(" in Path(path).read_text().splitlines()[int(line) - 1]
        assert "_matmul" in name
    assert re.search(r"tests +tests: \d+ more use the name \(", text)


@pytest.mark.parametrize("name", WHERE)
def test_where_tells_texts_facts_and_what_becomes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(capsys, "where", name)
    for line in WHERE[name]:
        assert re.search(rf"^  {line}", text, re.M), (line, text)


def test_where_knows_rows_of_a_library(
    capsys: pytest.CaptureFixture[str], library: list[str]
) -> None:
    text = run(capsys, "where", *library, "checked_clip")
    assert re.search(r"^  row +\S+\.yaml:\d+$", text, re.M)
    assert re.search(r"^  compiled +calls back to checked_clip.default$", text, re.M)


def test_unknown_operator_is_an_error_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "matmull"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("adjoint show: there is no operator 'matmull'")
    assert "matmul" in error.split("did you mean")[1]
    assert main(["ops", "no_such_thing"]) == 1


def test_command_is_installed_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "adjoint", "--version"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"adjoint \d+\.\d+\.\d+\n", run.stdout)


def test_coverage_counts_every_row_and_finds_no_loop(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "coverage")
    rows = list(TABLE.rows())
    counts = {line.split("  ")[0].strip(): line.split() for line in text.splitlines() if line}
    assert counts["rows"][-1] == str(len(rows))
    for question in ("value", "reverse", "forward", "shape", "batching"):
        lines = text.splitlines()
        start = lines.index(question) + 1
        block = lines[start : next(i for i in range(start, len(lines)) if lines[i][:1] != " ")]
        assert sum(int(line.split()[-1]) for line in block) == len(rows), question
    assert "loop:" not in text
    assert "missing:" not in text


def test_coverage_of_one_family(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "coverage", "--family", "matmul")
    assert text.split("\n", 1)[0].split() == ["matmul"]
    assert main(["coverage", "--family", "nothing"]) == 1
    assert "matmul" in capsys.readouterr().err


LIBRARY = """
- name: checked_clip(Tensor self, Scalar width=1) -> Tensor
  like: pointwise_float
  kernel: checked.clip
  self: grad * (self * self / (width * width) + 1) ** -1.5
- name: checked_form(Tensor x, Tensor A, Tensor y) -> Tensor
  decompose: x.dot(A.mv(y))
- name: checked_text(Tensor self, str way) -> Tensor
  decompose: self * 2
- name: checked_cube(Tensor self) -> Tensor
  like: pointwise
  kernel: xp.power(self, 3)
  self: grad * 2 * (self * self).conj()
"""

KERNELS = """
import numpy as np
from adjoint.testing import Sample, sampler

def clip(x, width):
    return x / np.hypot(1, x / width)

@sampler("checked_clip", reference=lambda x, width=1: x * width / np.sqrt(width**2 + x**2))
def clips(make):
    yield Sample(make(4), 0.5, name="narrow")
"""


@pytest.fixture
def library(tmp_path: Path) -> list[str]:
    table, kernels = tmp_path / "checked.yaml", tmp_path / "checked.py"
    table.write_text(LIBRARY, encoding="utf-8")
    kernels.write_text(KERNELS, encoding="utf-8")
    return ["--library", str(table), "--kernels", str(kernels)]


def verdicts(text: str) -> dict[str, list[str]]:
    """The lines of a table, by law: number of samples, (error, allowed,) verdict."""
    return {
        words[0]: words[1:] for line in text.splitlines() if (words := line.split())[:1]
        and words[0] in laws.LAWS
    }  # fmt: skip


def test_check_prints_one_line_for_each_law(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "check", "tanh")
    claims = laws.claims(TABLE.row("tanh"))
    assert text.startswith("tanh.default  ")
    assert text.rstrip().endswith(f"{len(claims)} checks, all hold")
    table = verdicts(text)
    assert {law: int(line[0]) for law, line in table.items()} == Counter(law for law, _ in claims)
    assert {line[-1] for line in table.values()} == {"holds"}
    _, error, allowed, _ = table["reverse_equals_differences"]
    assert 0 < float(error) < float(allowed) < 1e-2


def test_check_takes_several_names_and_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "check", "tanh", "add.Scalar", "mul_")
    assert re.findall(r"^(\S+)  \S+\.yaml:\d+$", text, re.M) == [
        "tanh.default", "add.Scalar", "mul.Tensor", "mul.Scalar",
    ]  # fmt: skip
    text = run(capsys, "check", "--family", "dropout")
    names = {f"{r.full_name}" for r in TABLE.rows() if r.family == "dropout"}
    assert set(re.findall(r"^(\S+)  \S+\.yaml:\d+$", text, re.M)) == names


def test_check_draws_other_values_with_another_seed(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (run(capsys, "check", "tanh", "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again != other


def test_check_runs_the_laws_of_a_library(
    capsys: pytest.CaptureFixture[str], library: list[str]
) -> None:
    text = run(capsys, "check", *library, "checked_clip", "checked_form")
    clip, form = (verdicts(part) for part in text.split("checked_form"))
    assert clip["value_equals_reference"][0] == "1"  # the sample of the file
    assert int(clip["reverse_equals_differences"][0]) > 4
    # real and complex, with x of every shape that x.dot, which is NumPy's product, takes
    assert int(form["second_order_equals_differences"][0]) == 16


def test_check_of_a_wrong_row_fails_and_says_where(
    capsys: pytest.CaptureFixture[str], library: list[str]
) -> None:
    assert main(["check", *library]) == 1
    out, err = capsys.readouterr()
    assert err == "adjoint check: broken: reverse_equals_differences of checked_cube.default\n"
    assert re.search(r"reverse_equals_differences +10 +\S+ +\S+ +BROKEN at 8", out)
    assert "gradcheck: reverse mode disagrees with finite differences" in out
    assert "checked_text.default" in out
    assert "no samples" in out


def test_check_of_a_row_that_compares_names_the_case_and_the_column(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    row = """
- name: checked_larger(Tensor self, Tensor other) -> Tensor
  like: pointwise
  kernel: xp.maximum
  self: grad.masked_fill(self < other, 0)
  other: grad.masked_fill(self >= other, 0)
"""
    (tmp_path / "larger.yaml").write_text(row)
    assert main(["check", "--library", str(tmp_path / "larger.yaml")]) == 1
    out, _ = capsys.readouterr()
    assert re.search(r"checked_larger\.default\(.*complex128\]", out)
    assert "is for real numbers alone, its row says `order: needed`" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tanhh"], "there is no operator 'tanhh'; did you mean tanh"),
        (["add.Tensr"], "add has no overload 'Tensr'"),
        (["--family", "linlag"], "did you mean linalg?"),
        (["--kernels", "mine.py"], "--kernels goes with --library"),
        (["--library", "nowhere.yaml"], "there is no such file"),
        ([], "say which operators"),
    ],
)
def test_check_says_what_is_wrong_with_a_request(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_check_without_samples_is_no_success(
    capsys: pytest.CaptureFixture[str], library: list[str]
) -> None:
    assert main(["check", *library, "checked_text"]) == 1
    assert "nothing was checked" in capsys.readouterr().err


# -- functions in a user's file --------------------------------------------------------------------

MODEL = """
import adjoint as ad

def loss(w):
    return (w.sin() * w).sum()

def scaled(w, factor):
    return (w * factor).exp().sum()

def several(w):
    return w * 2

def wrong(w):
    return w + undefined_name

@ad.custom_vjp
def lying(w):
    return (w * w).sum()

lying.defvjp(lambda w: ((w * w).sum(), w), lambda w, grad: (3 * w * grad,))
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.mark.usefixtures("model")
def test_hessian_prints_second_derivatives(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "hessian", "model.py:scaled", "--at", "[0.0, 0.0]", "2.0", "--double")
    assert text.splitlines() == [
        "value     2.0",
        "gradient  [2., 2.]",
        "hessian   [[4., 0.],",
        "           [0., 4.]]",
    ]


@pytest.mark.usefixtures("model")
def test_compile_reports_and_writes_c(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "compile", "model.py:loss", "--at", "f64[3]", "--grad", "--c", "loss.c")
    assert re.search(r"^calls back to nothing$", text, re.M)
    assert re.search(r"^took +trace .* build ", text, re.M)
    assert "int loss(const double *in_w, double *out0" in Path("loss.h").read_text()
    assert '#include "loss.h"' in Path("loss.c").read_text()
    text = run(capsys, "compile", "model.py:loss", "--at", "f64[3]", "--source")
    assert "return 0;" in text


@pytest.mark.usefixtures("model")
def test_bench_measures_value_and_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "bench", "model.py:loss", "--at", "f32[100]", "--rounds", "1")
    names = re.findall(r"^(value.*?)  +[\d.]+ µs +[\d.]+ µs$", text, re.M)
    assert names == [
        "value, eager", "value, compiled",
        "value and gradient, eager", "value and gradient, compiled",
    ]  # fmt: skip
    text = run(capsys, "bench", "model.py:several", "--at", "f32[100]", "--rounds", "1")
    assert "gradient" not in text


@pytest.mark.usefixtures("model")
def test_check_compares_a_function_with_differences(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "check", "model.py:scaled", "--at", "[0.1, 0.2]", "2.0")
    assert re.findall(r"^  (\w+) +holds$", text, re.M) == [
        "reverse_equals_differences",
        "forward_equals_differences",
        "second_order_equals_differences",
    ]
    assert main(["check", "model.py:lying", "--at", "f64[3]"]) == 1
    out, err = capsys.readouterr()
    assert re.search(r"reverse_equals_differences +BROKEN", out)
    assert "reverse mode disagrees with finite differences" in out
    assert err.startswith("adjoint check: broken: reverse_equals_differences, ")


@pytest.mark.usefixtures("model")
def test_show_and_where_tell_of_the_operators_of_a_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = run(capsys, "show", "model.py:loss", "--at", "f32[3]")
    assert re.findall(r"^- name: (\w+)", text, re.M) == ["sin", "mul", "sum"]
    text = run(capsys, "where", "model.py:loss", "--at", "f32[3]")
    assert re.findall(r"^  model.py:5 +(\S+)  \S+\.yaml:\d+$", text, re.M) == [
        "sin.default", "mul.Tensor", "sum.default",
    ]  # fmt: skip
    assert re.search(r"^  compiled +one loop$", text, re.M)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grad", "model.py:wrong", "--at", "[1.0]"], "model.py:14 in wrong: NameError: name"),
        (["grad", "model.py:loss"], "loss(w): missing a required argument: 'w'; give --at and one"),
        (
            ["check", "model.py:loss", "--at", "1.0", "2.0"],
            "loss(w): too many positional arguments",
        ),
        (["hessian", "model.py:loss", "--at", "f32[3]"], "derivatives need numbers, not a type"),
        (["trace", "model.py:los", "--at", "f32[3]"], "it has loss, scaled, several, wrong"),
        (["trace", "mode.py:loss"], "there is no file mode.py"),
        (["bench", "model.py:loss", "--at", "[1.0]", "--rounds", "0"], "must be at least 1"),
        (["grad", "model.py:several", "--at", "[1.0, 2.0]"], "Use jacobian(f)"),
        (
            ["trace", "model.py:loss", "--at", "f32[3]", "--svg", "no/x.svg"],
            "no/x.svg: No such file",
        ),
        (["check", "model.py:loss", "tanh", "--at", "[1.0]"], "one FILE:FUNCTION at a time"),
    ],
)
@pytest.mark.usefixtures("model")
def test_errors_name_the_place_and_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"adjoint {arguments[0]}: ")
    assert said in error


def test_a_module_in_a_file_is_a_function(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its parameters are constants, also where they require gradients."""
    file = tmp_path / "net.py"
    made = "net = ad.nn.Linear(2, 1)\nnet.weight.data.fill_(3.0)"
    file.write_text(f"import adjoint as ad\n{made}\ndef loss(x):\n    return net(x).sum()\n")
    at = (f"{file}:net", "--at", "[1.0, 2.0]")
    assert "gradient  [3., 3.]" in run(capsys, "grad", f"{file}:loss", *at[1:])
    assert "def net(input" in run(capsys, "trace", *at)
    assert "calls back to nothing" in run(capsys, "compile", *at)
    assert "value, compiled" in run(capsys, "bench", *at, "--rounds", "1")


def test_a_mistake_of_ours_is_not_hidden(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("adjoint.value_and_grad", fails)
    with pytest.raises(KeyError, match="ours"):
        main(["grad", f"{model}:loss", "--at", "[1.0]"])


# -- the terminal ----------------------------------------------------------------------------------


def test_colours_are_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    plain = run(capsys, "show", "tanh")
    assert "\033" not in plain
    coloured = run(capsys, "--color", "always", "show", "tanh")
    assert "\033[34mkernel\033[0m: xp.tanh" in coloured
    assert re.sub(r"\033\[\d+m", "", coloured) == plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(capsys, "show", "tanh") == coloured
    assert run(capsys, "--color", "never", "show", "tanh") == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(capsys, "show", "tanh") == plain


@pytest.mark.usefixtures("model")
def test_a_coloured_graph_is_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["trace", "model.py:loss", "--at", "f32[3]"]
    coloured = run(capsys, "--color", "always", *command)
    assert "\033[34mdef\033[0m loss" in coloured
    assert re.sub(r"\033\[\d+m", "", coloured) == run(capsys, *command)


def test_an_unknown_command_is_an_error_with_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gard"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert (
        error
        == "adjoint: there is no 'gard'; did you mean grad?\nadjoint --help says what there is.\n"
    )


def test_every_command_has_help_and_those_for_users_have_examples() -> None:
    for name, command in commands_of(parser()).items():
        text = command.format_help()
        assert command.description, name
        assert f"adjoint {name}" in text.partition("examples:")[2], name


# -- completions -----------------------------------------------------------------------------------


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in ("adjoint", *words))
    program = (
        'adjoint() { [ "$2" = --names ] && echo tanh tan matmul || echo linalg fft; }\n'
        f"{script}\n"
        f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _adjoint; echo "${{COMPREPLY[@]}}"'
    )
    shell = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert shell.stderr == ""
    return shell.stdout.split()


def test_bash_completes_commands_options_and_names(
    capsys: pytest.CaptureFixture[str], model: Path
) -> None:
    script = run(capsys, "completion", "bash")
    assert completed(script, "co") == ["compile", "coverage", "completion"]
    assert completed(script, "trace", "--s") == ["--simplify", "--ssa", "--statistics", "--svg"]
    assert completed(script, "where", "tan") == ["tanh", "tan"]
    assert completed(script, "check", "--family", "l") == ["linalg"]
    assert completed(script, "grad", "mod") == [model.name]
    assert completed(script, "--color", "al") == ["always"]
    assert completed(script, "--color", "always", "hess") == ["hessian"]
    assert completed(script, "completion", "z") == ["zsh"]
    assert completed(script, "grad", "--wrt", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_have_every_command_and_option(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = run(capsys, "completion", shell)
    for name, command in commands_of(parser()).items():
        assert re.search(rf"\b{name}\b", script)
        options = [o for a in command._actions for o in a.option_strings if o.startswith("--")]
        wanted = [f"-l {o[2:]} " for o in options] if shell == "fish" else options
        assert [o for o in wanted if o not in script] == []


def test_a_first_try_is_told_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert "COMMAND" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["grad", "model.py:loss", "[1.0, 2.0]"])
    assert "stand after --at" in capsys.readouterr().err


def test_reports_name_the_users_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def loss(x):\n    y = x.exp()\n    return y.tanh().sum() + y.round().sum()\n")
    at = (f"{file}:loss", "--at", "f32[1000]")
    assert "model.py:2: exp keeps its result, tanh keeps its argument" in run(capsys, "memory", *at)
    assert "model.py:3: round.default is a function" in run(capsys, "smoothness", *at)
