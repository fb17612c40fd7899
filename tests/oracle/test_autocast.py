"""The column `autocast` says of every operator what PyTorch's dispatcher does on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402
from adjoint.table import TABLE  # noqa: E402
from adjoint.table.rows import Row  # noqa: E402
from adjoint.testing import samples  # noqa: E402
from tests.oracle.bridge import dtype_name, to_torch  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
RULES = ("lower", "float32", "widest")
ROWS = [row for row in TABLE.rows() if row.texts.get("autocast") in RULES]
# Rows whose samples PyTorch refuses in this call, or that have none in float32.
REFUSED = frozenset((
    "conv1d.padding", "conv2d.padding", "conv3d.padding", "linalg_eig.default",
    "fractional_max_pool3d.default", "mkldnn_rnn_layer.default",
))  # fmt: skip


def test_the_same_operators_have_rules() -> None:
    names = (n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::"))
    theirs = {
        n.removeprefix("aten::")
        for n in names
        if torch._C._dispatch_has_kernel_for_dispatch_key(n, "AutocastCPU")
    }
    assert {row.full_name.removesuffix(".default") for row in ROWS} == theirs


def dtypes(result: Any) -> Any:
    """The names of the dtypes of all tensors in a result."""
    if isinstance(result, (tuple, list)):
        return [dtypes(r) for r in result]
    return dtype_name(result.dtype) if hasattr(result, "dtype") else None


def theirs_of(value: Any) -> Any:
    """An argument of a sample as PyTorch's."""
    if isinstance(value, (list, tuple)):
        return type(value)(theirs_of(v) for v in value)
    if isinstance(value, ad.DType):
        return getattr(torch, value.name)
    if isinstance(value, ad.Tensor):
        value = value.numpy(force=True)
    return to_torch(value) if isinstance(value, np.ndarray) else value


def answer(call: Any) -> Any:
    try:
        return dtypes(call())
    except Exception:
        return "refused"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.full_name)
def test_results_have_pytorchs_dtypes(row: Row, dtype: str) -> None:
    overload = row.schema.overload or "default"
    theirs = getattr(getattr(torch.ops.aten, row.name), overload)
    ours = getattr(getattr(ad.ops, row.name), overload)
    found = 0
    for sample, _ in list(samples.for_row(row, ad.float32))[:12]:
        args = [theirs_of(a) for a in sample.args]
        kwargs = {k: theirs_of(v) for k, v in sample.kwargs.items()}
        with torch.autocast("cpu", getattr(torch, dtype)):
            expected = answer(lambda: theirs(*args, **kwargs))  # noqa: B023 - called at once
        with ad.autocast("cpu", getattr(ad, dtype)):
            got = answer(lambda: ours(*sample.args, **sample.kwargs))  # noqa: B023
        if expected != "refused":  # half precision has more kernels here
            assert got == expected
            found += 1
    assert found or row.full_name in REFUSED


def _layer(name: str, *sizes: int, **options: Any) -> Any:
    return lambda lib, ones: getattr(lib.nn, name)(*sizes, **options)(ones)


# Of a library and a tensor of ones: what is made of several operators, or of modules.
COMPOSITES: dict[str, tuple[tuple[int, ...], Any]] = {
    **{
        text: ((3, 3), lambda lib, x, text=text: lib.einsum(text, *[x] * (text.count(",") + 1)))
        for text in ("ij,jk->ik", "ij->ji", "ii->i", "ij->i", "ij,ij->ij", "ij,ij->",
                     "ij,jk,kl->il", "ij,jk,kl->ijkl", "ij,kl->ijkl")
    },
    "batched einsum": ((2, 3, 3), lambda lib, x: lib.einsum("bij,bjk->bik", x, x)),
    "einsum of a list": ((3, 3), lambda lib, x: lib.einsum("ij,jk->ik", [x, x])),
    "tensordot": ((3, 3), lambda lib, x: lib.tensordot(x, x, 1)),
    "inner": ((3,), lambda lib, x: lib.inner(x, x)),
    "inner of matrices": ((2, 3), lambda lib, x: lib.inner(x, x)),
    "multi_dot": ((3, 3), lambda lib, x: lib.linalg.multi_dot([x, x, x])),
    "matrix_power": ((3, 3), lambda lib, x: lib.linalg.matrix_power(x, 3)),
    "bilinear": (
        (2, 3), lambda lib, x: lib.nn.functional.bilinear(x, x, lib.ones(2, 3, 3, dtype=x.dtype))
    ),
    "nll_loss": ((2, 3), lambda lib, x: lib.nn.functional.nll_loss(x, lib.tensor([0, 1]))),
    "affine_grid": ((1, 2, 3), lambda lib, x: lib.nn.functional.affine_grid(x, (1, 1, 2, 2))),
    "lu_solve": (
        (3, 1), lambda lib, x: lib.linalg.lu_solve(*lib.linalg.lu_factor(lib.eye(3)), x.float())
    ),
    "LSTM": ((5, 2, 3), _layer("LSTM", 3, 4)),
    "LSTM of layers": ((5, 2, 3), _layer("LSTM", 3, 4, 2, bidirectional=True, batch_first=True)),
    "GRU": ((5, 2, 3), _layer("GRU", 3, 4)),
    "GRU of layers": ((5, 2, 3), _layer("GRU", 3, 4, 2, bidirectional=True, batch_first=True)),
    "RNN": ((5, 2, 3), _layer("RNN", 3, 4)),
    "RNN with relu": ((5, 2, 3), _layer("RNN", 3, 4, nonlinearity="relu")),
    "LSTMCell": ((2, 3), _layer("LSTMCell", 3, 4)),
    "GRUCell": ((2, 3), _layer("GRUCell", 3, 4)),
    "RNNCell": ((2, 3), _layer("RNNCell", 3, 4)),
    "attention": ((5, 2, 4), lambda lib, x: lib.nn.MultiheadAttention(4, 2)(x, x, x)),
    "encoder": ((5, 2, 4), _layer("TransformerEncoderLayer", 4, 2, 8)),
    "spectral_norm": (
        (2, 3), lambda lib, x: lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(3, 4))(x)
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", COMPOSITES)
def test_what_is_made_of_several_operators_has_pytorchs_dtypes(name: str, dtype: str) -> None:
    shape, call = COMPOSITES[name]
    found = []
    for library in (torch, ad):
        x = library.ones(*shape, dtype=getattr(library, dtype))
        with library.autocast("cpu", library.bfloat16):
            found.append(dtypes(call(library, x)))
    assert found[1] == found[0]


class Weight:
    """One parameter, an optimiser that steps along its gradient, and a scaler, of a library."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.w = library.ones(2, requires_grad=True)
        self.optimizer = library.optim.SGD([self.w], lr=0.5)
        self.scaler = library.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)

    def step(self, factor: float) -> tuple[float, list[float]]:
        """A step of training; its gradient is the factor."""
        self.optimizer.zero_grad()
        self.scaler.scale((self.w * factor).sum()).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale(), self.w.tolist()


def test_a_scaler_does_what_pytorchs_does() -> None:
    ours, theirs = Weight(ad), Weight(torch)
    for factor in (1.0, 2.0, float("inf"), 1.0, 1.0, 1.0, float("nan"), 3.0):
        assert str(ours.step(factor)) == str(theirs.step(factor))
    assert ours.scaler.state_dict() == theirs.scaler.state_dict()
    ours.scaler.load_state_dict(theirs.scaler.state_dict())
