"""Every module computes what PyTorch's does: outputs, gradients, texts, state dicts.

Constructor arguments and inputs are those of PyTorch's `module_db`; what is not there is in `MORE`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils.rnn import PackedSequence, pack_sequence  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402

import adjoint as ad  # noqa: E402
from tests.oracle.bridge import ad_array, torch_array, translate  # noqa: E402

torch.set_num_threads(1)
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

INFOS = {info.module_cls.__name__: info for info in module_db}


def to_ours(value: Any) -> Any:
    """The counterpart of an argument: tensors by value, functions and modules by name."""
    if isinstance(value, PackedSequence):
        parts = (None if part is None else translate(part) for part in value)
        return ad.nn.utils.rnn.PackedSequence(*parts)
    if isinstance(value, torch.nn.Module):
        return MODULES[type(value).__name__](value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_ours(each) for each in value)
    if isinstance(value, dict):
        return {key: to_ours(each) for key, each in value.items()}
    if callable(value) and hasattr(torch.nn.functional, getattr(value, "__name__", "")):
        return getattr(ad.nn.functional, value.__name__)
    return translate(value)


def _encoder_layer(layer: Any) -> Any:
    attention = layer.self_attn
    made = getattr(ad.nn, type(layer).__name__)(
        attention.embed_dim, attention.num_heads, layer.linear1.out_features,
        layer.dropout.p, layer.activation.__name__, batch_first=attention.batch_first,
        norm_first=layer.norm_first, bias=layer.linear1.bias is not None,
    )  # fmt: skip
    return made.double()


MODULES: dict[str, Callable[[Any], Any]] = {
    "TransformerEncoderLayer": _encoder_layer,
    "TransformerDecoderLayer": _encoder_layer,
    "Linear": lambda m: ad.nn.Linear(m.in_features, m.out_features).double(),
}


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in an input or a result, in order."""
    if isinstance(value, (torch.Tensor, ad.Tensor)):
        yield value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def agree(what: str, ours: Any, theirs: Any) -> None:
    """Both are None, or tensors with equal elements."""
    assert (ours is None) == (theirs is None), what
    if theirs is not None:
        wanted, got = torch_array(theirs), ad_array(ours)
        assert wanted.shape == got.shape, what
        assert np.allclose(got, wanted, rtol=1e-7, atol=1e-9, equal_nan=True), what


def gradients_agree(what: str, ours: Any, theirs: Any) -> None:
    """Gradients agree, but where PyTorch's are NaN ours may be zeros (docs: structural zeros)."""
    if ours is not None and theirs is not None:
        unknown = torch.isnan(theirs.to_dense())
        ours = ours.to_dense().masked_fill(translate(unknown), 0.0)
        theirs = theirs.to_dense().masked_fill(unknown, 0.0)
    agree(what, ours, theirs)


def compare(name: str, args: Any, kwargs: Any, inputs: Any, keywords: Any, training: bool) -> None:
    """Build both modules with the same state, run them, and compare everything."""
    theirs = getattr(torch.nn, name)(*args, **kwargs).double().train(training)
    theirs.zero_grad()
    ours = getattr(ad.nn, name)(*to_ours(args), **to_ours(kwargs)).double().train(training)
    if "Lazy" in name:
        copies = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        with torch.no_grad():
            theirs.eval()(*copies)
        theirs.train(training)
    given, words = to_ours(tuple(inputs)), to_ours(keywords)
    ours.load_state_dict({key: translate(value) for key, value in theirs.state_dict().items()})
    if "Lazy" not in name:  # ours changes its class when it is called
        assert repr(ours) == repr(theirs)
    results = list(tensors(ours(*given, **words))), list(tensors(theirs(*inputs, **keywords)))
    assert len(results[0]) == len(results[1])
    for number, (mine, wanted) in enumerate(zip(*results, strict=True)):
        agree(f"result {number}", mine, wanted)
    _gradients(results, (given, words), (inputs, keywords), ours, theirs)
    state, wanted = ours.state_dict(), theirs.state_dict()
    assert list(state) == list(wanted)
    for key in wanted:
        agree(f"state {key}", state[key], wanted[key])
    theirs.load_state_dict({key: torch.from_numpy(ad_array(v)) for key, v in state.items()})


def _gradients(results: Any, given: Any, inputs: Any, ours: Any, theirs: Any) -> None:
    """Gradients of inputs and parameters, for random cotangents."""
    generator = np.random.default_rng(0)
    pairs = [(a, b) for a, b in zip(*results, strict=True) if b.requires_grad]
    assert all(a.requires_grad == b.requires_grad for a, b in zip(*results, strict=True))
    if not pairs:
        return
    cotangents = [generator.standard_normal(tuple(b.shape)) for _, b in pairs]
    ad.autograd.backward([a for a, _ in pairs], [ad.from_numpy(c) for c in cotangents])
    torch.autograd.backward([b for _, b in pairs], [torch.from_numpy(c) for c in cotangents])
    for number, (mine, wanted) in enumerate(zip(tensors(given), tensors(inputs), strict=True)):
        if wanted.is_leaf:
            gradients_agree(f"gradient of input {number}", mine.grad, wanted.grad)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    for (name, mine), wanted in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        gradients_agree(f"gradient of {name}", mine.grad, wanted.grad)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", INFOS)
def test_module_equals_pytorch(name: str, training: bool) -> None:
    info = INFOS[name]
    torch.manual_seed(0)
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
    )
    for sample in samples:
        made, called = sample.constructor_input, sample.forward_input
        compare(name, made.args, made.kwargs, called.args, called.kwargs, training)


def _random(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def _packed(width: int) -> Any:
    return pack_sequence([_random(n, width).detach() for n in (2, 4, 1)], enforce_sorted=False)


def _pooled(dims: int) -> tuple[Any, Any]:
    pool = getattr(torch.nn.functional, f"max_pool{dims}d")
    values, places = pool(_random(2, 3, *(6,) * dims), 2, return_indices=True)
    return values.detach().requires_grad_(), places


IMAGES = (2, 4, 4, 6)
ENCODED = dict(d_model=4, nhead=2, dim_feedforward=6, dropout=0.0)
DECODER = torch.nn.TransformerDecoderLayer(4, 2, 6, 0.0)
TRIPLET = tuple(_random(3, 4, seed=n) for n in range(3))
# what is not in module_db, or not in this way: name, arguments, keywords, inputs
MORE: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
    ("AdaptiveLogSoftmaxWithLoss", (8, 20, [5, 10]), {"div_value": 2.0},
     (_random(4, 8), torch.tensor([0, 7, 19, 12]))),
    ("AdaptiveLogSoftmaxWithLoss", (8, 20, [5]), {"head_bias": True},
     (_random(8), torch.tensor(3))),
    ("ChannelShuffle", (2,), {}, (_random(*IMAGES),)),
    ("CosineSimilarity", (), {"dim": 2}, (_random(*IMAGES), _random(*IMAGES, seed=1))),
    ("DataParallel", (torch.nn.Linear(6, 2),), {}, (_random(*IMAGES),)),
    *((name, (1.0,), {}, (_random(*shape),)) for name, shape in {
        "Dropout": (3, 4), "Dropout1d": (2, 3, 4), "Dropout2d": IMAGES, "Dropout3d": (1, *IMAGES),
        "AlphaDropout": (3, 4), "FeatureAlphaDropout": (3, 4, 5)}.items()),
    ("EmbeddingBag", (10, 3), {"mode": "max"}, (torch.tensor([1, 2, 4, 5]), torch.tensor([0, 1]))),
    ("EmbeddingBag", (10, 3), {"mode": "sum", "padding_idx": -1, "scale_grad_by_freq": True},
     (torch.tensor([[1, 9], [4, 5]]),)),
    ("Embedding", (10, 3), {"max_norm": 1.0, "norm_type": 1.0, "sparse": True, "padding_idx": 2},
     (torch.tensor([[1, 2], [4, 4]]),)),
    ("Flatten", (0, 2), {}, (_random(*IMAGES),)),
    ("Fold", ((4, 6), 2), {"stride": 2}, (_random(2, 12, 6),)),
    ("Unfold", ((2, 3),), {"padding": 1}, (_random(*IMAGES),)),
    ("Hardsigmoid", (), {}, (_random(*IMAGES),)),
    ("Identity", (3,), {"some": 4}, (_random(3),)),
    *((f"LazyBatchNorm{n}d", (), {}, (_random(2, 3, *(4,) * n),)) for n in (1, 2, 3)),
    *((f"LazyInstanceNorm{n}d", (), {}, (_random(2, 3, *(4,) * n),)) for n in (1, 2, 3)),
    ("LazyLinear", (4,), {}, (_random(*IMAGES),)),
    *((f"MaxUnpool{n}d", (2,), {}, _pooled(n)) for n in (1, 2, 3)),
    ("PairwiseDistance", (1.0,), {"keepdim": True}, (_random(3, 4), _random(3, 4, seed=1))),
    ("PixelShuffle", (2,), {}, (_random(*IMAGES),)),
    ("PixelUnshuffle", (2,), {}, (_random(*IMAGES),)),
    ("RReLU", (0.25, 0.25), {}, (_random(*IMAGES),)),
    ("TransformerDecoder", (DECODER, 2), {}, (_random(5, 3, 4), _random(6, 3, 4))),
    ("Transformer", (), {**ENCODED, "num_encoder_layers": 1, "num_decoder_layers": 1},
     (_random(5, 3, 4), _random(6, 3, 4))),
    ("TripletMarginLoss", (0.5,), {"swap": True}, TRIPLET),
    ("TripletMarginWithDistanceLoss", (), {"margin": 0.5, "reduction": "sum"}, TRIPLET),
    ("Unflatten", (1, (2, -1)), {}, (_random(*IMAGES),)),
    ("Upsample", (), {"scale_factor": (2.0, 1.5), "mode": "bicubic"}, (_random(*IMAGES),)),
    ("UpsamplingBilinear2d", ((5, 7),), {}, (_random(*IMAGES),)),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, (_random(*IMAGES),)),
    *((name, (3, 4), {"num_layers": 2, "bidirectional": True}, (_packed(3),))
      for name in ("RNN", "GRU", "LSTM")),
    ("LSTM", (3, 4), {"proj_size": 2, "bias": False, "batch_first": True}, (_random(2, 5, 3),)),
    ("LSTM", (3, 4), {"proj_size": 2, "bidirectional": True}, (_packed(3),)),
    ("LSTM", (3, 4), {}, (_random(5, 3), (_random(1, 4), _random(1, 4)))),
    ("SyncBatchNorm", (4,), {}, (_random(*IMAGES),)),
]  # fmt: skip


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("case", range(len(MORE)), ids=[f"{c[0]}-{n}" for n, c in enumerate(MORE)])
def test_other_module_equals_pytorch(case: int, training: bool) -> None:
    name, args, kwargs, inputs = MORE[case]
    if name == "SyncBatchNorm" and training:
        name = "BatchNorm2d"  # PyTorch has the other one on GPUs only
    for each in tensors(inputs):
        each.grad = None
    compare(name, args, kwargs, inputs, {}, training)


def test_every_class_has_pytorchs_signature() -> None:
    """Names, kinds and defaults of arguments; a few of PyTorch's are only *args."""
    names = [n for n in dir(torch.nn) if isinstance(getattr(torch.nn, n), type)]
    assert [n for n in names if not hasattr(ad.nn, n)] == []
    vague = {"Container", "GRU", "LSTM", "RNN", "NLLLoss2d"}
    for name in set(names) - vague:
        if issubclass(getattr(torch.nn, name), torch.nn.Module):
            assert _signature(getattr(ad.nn, name)) == _signature(getattr(torch.nn, name)), name


def _signature(cls: type) -> list[tuple[Any, ...]]:
    return [
        (p.name, p.kind, p.default.__name__ if callable(p.default) else p.default)
        for p in inspect.signature(cls).parameters.values()
    ]
