"""Functions that make tensors agree with PyTorch; the values were written by PyTorch 2.13."""

import math
import operator
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import counting
from adjoint.core.generator import Generator
from adjoint.tensor.construct import tensor_from_data
from adjoint.toolchain import background

INF = math.inf

# A call, and the dtype and the values that PyTorch gives it; laws compare values with NumPy's.
CASES = [
    (lambda: ad.zeros(2, 3), ad.float32, [[0.0] * 3] * 2),
    (lambda: ad.zeros(()), ad.float32, 0.0),
    (lambda: ad.full((2,), 3), ad.int64, [3, 3]),
    (lambda: ad.full((2,), 3.5), ad.float32, [3.5, 3.5]),
    (lambda: ad.full((2,), True), ad.bool, [True, True]),
    (lambda: ad.full((2,), 1j), ad.complex64, [1j, 1j]),
    (lambda: ad.full((2,), 2.7, dtype=ad.int64), ad.int64, [2, 2]),
    (lambda: ad.full((1,), -1, dtype=ad.uint8), ad.uint8, [255]),
    (lambda: ad.full((), 2, dtype=ad.bool), ad.bool, True),
    (lambda: ad.full((2,), float("inf"), dtype=ad.float16), ad.float16, [INF, INF]),
    (lambda: ad.scalar_tensor(3), ad.float32, 3.0),
    (lambda: ad.arange(5), ad.int64, [0, 1, 2, 3, 4]),
    (lambda: ad.arange(5.0), ad.float32, [0.0, 1.0, 2.0, 3.0, 4.0]),
    (lambda: ad.arange(1, 2.5), ad.float32, [1.0, 2.0]),
    (lambda: ad.arange(0.5, 5.5, 1.9, dtype=ad.int64), ad.int64, [0, 1, 2, 3, 4]),
    (lambda: ad.arange(0, 5, 0.9, dtype=ad.int32), ad.int32, [0] * 6),
    (lambda: ad.arange(0, -1, -0.3), ad.float32, [0.0, -0.3, -0.6, -0.9]),
    (lambda: ad.arange(3, dtype=ad.bfloat16), ad.bfloat16, [0.0, 1.0, 2.0]),
    (lambda: ad.linspace(0, 10, 4, dtype=ad.int32), ad.int32, [0, 3, 6, 10]),
    (lambda: ad.linspace(-3, 3, 4, dtype=ad.uint8), ad.uint8, [253, 169, 86, 3]),
    (lambda: ad.linspace(0, 1j, 3), ad.complex64, [0j, 0.5j, 1j]),
    (lambda: ad.logspace(0, 3, 4, base=2, dtype=ad.int64), ad.int64, [1, 2, 4, 8]),
    (lambda: ad.tril_indices(3, 3, -5), ad.int64, [[], []]),
    (lambda: ad.triu_indices(2, 3, -5), ad.int64, [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]),
    (lambda: ad.hann_window(4), ad.float32, [0.0, 0.5, 1.0, 0.5]),
    (lambda: ad.hamming_window(4, True, 0.5, 0.4), ad.float32, [0.1, 0.5, 0.9, 0.5]),
    (lambda: ad.kaiser_window(4), ad.float32, [5.277344e-05, 0.21567266, 1.0, 0.21567266]),
    (lambda: ad.zeros_like(ad.ones(2, dtype=ad.int32)), ad.int32, [0, 0]),
    (lambda: ad.full_like(ad.ones(2, dtype=ad.int64), 2.5), ad.int64, [2, 2]),
    (lambda: ad.ones(2).new_full((2,), 3), ad.float32, [3.0, 3.0]),
    (lambda: ad.ones(2, dtype=ad.int64).new_full((1,), 3.5), ad.int64, [3]),
    (lambda: ad.ones(2, dtype=ad.int16).new_zeros(2, 1), ad.int16, [[0], [0]]),
]


@pytest.mark.parametrize(("make", "dtype", "values"), CASES)
def test_creation_agrees_with_pytorch(make, dtype, values):
    got = make()
    assert got.dtype is dtype
    assert tuple(got.shape) == np.shape(values)
    assert not got.requires_grad
    np.testing.assert_allclose(np.asarray(got.tolist()), values, rtol=1e-6, atol=1e-7)


REFUSED = [
    (lambda: ad.zeros(2, -1), ValueError, "must not be negative"),
    (lambda: ad.zeros(10**10, 10**10), ValueError, "larger than any memory"),
    (lambda: ad.zeros(10**15), ValueError, "GiB"),
    (lambda: ad.full((2,), 300, dtype=ad.uint8), ValueError, "does not fit"),
    (lambda: ad.full((2,), 1j, dtype=ad.float32), ValueError, "complex"),
    (lambda: ad.full((2,), 1e10, dtype=ad.float16), ValueError, "does not fit"),
    (lambda: ad.eye(-1), ValueError, "negative"),
    (lambda: ad.arange(5, 0), ValueError, "change the sign"),
    (lambda: ad.arange(0, 5, 0), ValueError, "zero"),
    (lambda: ad.arange(0.0, INF), ValueError, "finite"),
    (lambda: ad.arange(3, dtype=ad.bool), TypeError, "makes no"),
    (lambda: ad.linspace(0, 1, -1), ValueError, "negative"),
    (lambda: ad.linspace(0, 1j, 3, dtype=ad.float32), TypeError, "complex"),
    (lambda: ad.tril_indices(2, 2, dtype=ad.float32), TypeError, "int32 or int64"),
    (lambda: ad.hann_window(4, dtype=ad.int64), TypeError, "floating point"),
    (lambda: ad.hann_window(-1), ValueError, "negative"),
    (lambda: ad.empty_strided((2, 3), (1,)), ValueError, "strides"),
    (lambda: ad.rand(2, dtype=ad.int64), TypeError, "floating point"),
    (lambda: ad.randint(5, 5, (2,)), ValueError, "less than"),
    (lambda: ad.randint(0, 300, (2,), dtype=ad.uint8), ValueError, "does not fit"),
    (lambda: ad.randperm(-1), ValueError, "negative"),
    (lambda: ad.randperm(3000, dtype=ad.float16), ValueError, "do not all fit"),
    (lambda: ad.normal(0.0, -1.0, (2,)), ValueError, "negative"),
    (lambda: ad.normal(ad.zeros(2), ad.tensor([1.0, -1.0])), ValueError, "negative"),
    (lambda: ad.binomial(ad.tensor([10]), ad.tensor([0.5])), ValueError, "counts"),
    (lambda: ad.binomial(ad.tensor([10.0]), ad.tensor([1])), ValueError, "probabilities"),
    (lambda: ad.bernoulli(ad.tensor([2.0])), ValueError, "between 0 and 1"),
    (lambda: ad.ones(2).uniform_(2, 1), ValueError, "from"),
    (lambda: ad.ones(2).exponential_(0), ValueError, "positive"),
    (lambda: ad.ones(2).geometric_(1), ValueError, "between 0 and 1"),
    (lambda: ad.multinomial(ad.ones(3), 4), ValueError, "replacement"),
    (lambda: ad.multinomial(ad.zeros(3), 1), ValueError, "all be 0"),
    (lambda: ad.multinomial(ad.ones(3, dtype=ad.int64), 1), TypeError, "floating point"),
    (lambda: ad.poisson(ad.tensor([-1.0])), ValueError, "rates"),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_creation_refuses(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_requires_grad_of_a_new_tensor():
    assert ad.zeros(2, requires_grad=True).requires_grad
    assert ad.rand(2, requires_grad=True).is_leaf


def test_empty_strided_has_the_strides():
    assert ad.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert ad.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)


def test_like_functions_do_not_follow_the_gradient():
    x = ad.ones(2, requires_grad=True)
    for made in (
        ad.zeros_like(x),
        ad.ones_like(x),
        ad.full_like(x, 2),
        ad.rand_like(x),
        x.new_ones(3),
    ):
        assert not made.requires_grad


def test_linspace_of_tensors_is_differentiable():
    start = ad.tensor(1.0, requires_grad=True)
    end = ad.tensor(3.0, requires_grad=True)
    x = ad.linspace(start, end, 5)
    assert x.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]
    (x * x).sum().backward()
    weight = np.linspace(0, 1, 5)
    value = np.linspace(1, 3, 5)
    np.testing.assert_allclose(start.grad.item(), (2 * value * (1 - weight)).sum(), rtol=1e-6)
    np.testing.assert_allclose(end.grad.item(), (2 * value * weight).sum(), rtol=1e-6)


# --- random numbers ---------------------------------------------------------------------------

COUNT = 20_000


def moments(x):
    values = np.asarray(x.tolist())
    return values.mean(), values.var()


SAMPLERS = [
    ("rand", lambda: ad.rand(COUNT), 0.5, 1 / 12),
    ("randn", lambda: ad.randn(COUNT), 0, 1),
    ("randn complex", lambda: ad.randn(COUNT, dtype=ad.complex64), 0, 1),
    ("rand float16", lambda: ad.rand(COUNT, dtype=ad.float16), 0.5, 1 / 12),
    ("randn bfloat16", lambda: ad.randn(COUNT, dtype=ad.bfloat16), 0, 1),
    ("randint", lambda: ad.randint(2, 7, (COUNT,)), 4, 2),
    ("normal", lambda: ad.normal(3.0, 0.5, (COUNT,)), 3, 0.25),
    (
        "normal of tensors",
        lambda: ad.normal(ad.full((COUNT,), 3.0), ad.full((COUNT,), 0.5)),
        3,
        0.25,
    ),
    ("uniform_", lambda: ad.empty(COUNT).uniform_(-2, 4), 1, 3),
    ("normal_", lambda: ad.empty(COUNT).normal_(3, 0.5), 3, 0.25),
    ("exponential_", lambda: ad.empty(COUNT).exponential_(2), 0.5, 0.25),
    ("geometric_", lambda: ad.empty(COUNT).geometric_(0.3), 1 / 0.3, 0.7 / 0.09),
    ("log_normal_", lambda: ad.empty(COUNT).log_normal_(0, 0.25), 1.0317, 0.0686),
    ("bernoulli", lambda: ad.bernoulli(ad.full((COUNT,), 0.3)), 0.3, 0.21),
    ("bernoulli_", lambda: ad.empty(COUNT).bernoulli_(), 0.5, 0.25),
    ("poisson", lambda: ad.poisson(ad.full((COUNT,), 4.0)), 4, 4),
    ("random_", lambda: ad.empty(COUNT).random_(0, 5), 2, 2),
]


@pytest.mark.parametrize(
    ("draw", "mean", "variance"), [s[1:] for s in SAMPLERS], ids=[s[0] for s in SAMPLERS]
)
def test_sampler_has_mean_and_variance(draw, mean, variance):
    ad.manual_seed(7)
    got_mean, got_variance = moments(draw())
    assert abs(got_mean - mean) < 5 * math.sqrt(variance / COUNT)
    assert abs(got_variance - variance) < 0.1 * variance


@pytest.mark.parametrize("draw", [s[1] for s in SAMPLERS], ids=[s[0] for s in SAMPLERS])
def test_seed_repeats_the_numbers(draw):
    ad.manual_seed(3)
    first = draw().tolist()
    assert draw().tolist() != first
    ad.manual_seed(3)
    assert draw().tolist() == first


def test_unit_numbers_stay_below_one():
    for dtype in (ad.float16, ad.bfloat16, ad.float32, ad.float64):
        x = ad.rand(COUNT, dtype=dtype)
        assert bool(((x >= 0) & (x < 1)).all())


def test_cauchy_has_median_and_quartile():
    ad.manual_seed(7)
    values = np.asarray(ad.empty(COUNT).cauchy_(1, 2).tolist())
    assert abs(np.median(values) - 1) < 0.1
    assert abs(np.percentile(values, 75) - 3) < 0.2


def test_randperm_is_a_permutation():
    assert sorted(ad.randperm(100).tolist()) == list(range(100))


def test_multinomial_with_replacement_has_the_frequencies():
    ad.manual_seed(7)
    drawn = ad.multinomial(ad.tensor([1.0, 2.0, 7.0, 0.0]), COUNT, replacement=True)
    frequencies = np.bincount(np.asarray(drawn.tolist()), minlength=4) / COUNT
    np.testing.assert_allclose(frequencies, [0.1, 0.2, 0.7, 0], atol=0.015)


def test_multinomial_without_replacement_repeats_nothing():
    drawn = ad.multinomial(ad.rand(50, 8), 8).tolist()
    assert all(sorted(row) == list(range(8)) for row in drawn)


@pytest.mark.parametrize("draw", [ad.normal, ad.binomial])
def test_a_draw_from_parameters_has_a_zero_derivative(draw):
    """As in PyTorch: a policy that draws an action relies on it."""
    first = ad.full((4,), 3.0, requires_grad=True)
    second = ad.tensor([0.0, 0.2, 0.5, 1.0], requires_grad=True)
    x = draw(first, second)
    x.sum().backward()
    assert first.grad.tolist() == second.grad.tolist() == [0.0] * 4
    _, tangent = ad.jvp(draw, (first, second), (ad.ones(4), ad.ones(4)))
    assert tangent.tolist() == [0.0] * 4


def test_normal_broadcasts_and_has_the_dtype_of_the_mean():
    drawn = ad.normal(ad.full((2, 1), 5.0), ad.zeros(3, dtype=ad.float64))
    assert drawn.dtype == ad.float32
    assert drawn.tolist() == [[5.0] * 3] * 2


def test_sampling_in_place_cuts_the_gradient():
    x = ad.ones(3, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 3


def test_generator_states():
    g = Generator().manual_seed(5)
    state = g.get_state()
    first = ad.rand(3, generator=g).tolist()
    twin = g.clone_state()
    assert ad.rand(3, generator=g).tolist() == ad.rand(3, generator=twin).tolist()
    g.set_state(state)
    assert ad.rand(3, generator=g).tolist() == first
    assert g.initial_seed() == 5


def test_generator_leaves_the_default_stream_alone():
    ad.manual_seed(1)
    expected = ad.rand(3).tolist()
    ad.manual_seed(1)
    ad.rand(3, generator=Generator().manual_seed(2))
    assert ad.rand(3).tolist() == expected


@pytest.mark.parametrize("seed", [1.5, "a", None])
def test_seed_must_be_an_integer(seed):
    with pytest.raises(TypeError, match="must be an integer"):
        Generator().manual_seed(seed)


def test_generator_under_threads_gives_each_number_once():
    g = Generator().manual_seed(0)
    drawn = []

    def work(_):
        for _ in range(50):
            drawn.extend(ad.randint(0, 2**40, (20,), generator=g).tolist())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    g.manual_seed(0)
    alone = [n for _ in range(200) for n in ad.randint(0, 2**40, (20,), generator=g).tolist()]
    assert sorted(drawn) == sorted(alone)


# --- tensors from data ------------------------------------------------------------------------

DATA = [
    (2.5, ad.float32, ()),
    (3, ad.int64, ()),
    (True, ad.bool, ()),
    (1j, ad.complex64, ()),
    ([], ad.float32, (0,)),
    ([[], []], ad.float32, (2, 0)),
    ([1, 2.5], ad.float32, (2,)),
    ([True, 2], ad.int64, (2,)),
    ([True, 1j], ad.complex64, (2,)),
    (((1, 2), [3, 4]), ad.int64, (2, 2)),
    (range(3), ad.int64, (3,)),
    (np.float64(1), ad.float64, ()),
    ([np.float32(1), 2], ad.float32, (2,)),
    ([np.float64(1), 2.0], ad.float64, (2,)),
    ([np.float16(1), 2.0], ad.float32, (2,)),
    ([np.int32(1)], ad.int32, (1,)),
    ([np.ones(2), [3, 4]], ad.float64, (2, 2)),
    (np.ones((2, 3), np.int8), ad.int8, (2, 3)),
    (np.arange(4)[::-1], ad.int64, (4,)),
    ([2**63, 1.5], ad.float32, (2,)),
]


@pytest.mark.parametrize(("data", "dtype", "shape"), DATA, ids=lambda v: str(v)[:30])
def test_tensor_infers_dtype_as_pytorch(data, dtype, shape):
    array = tensor_from_data(data)
    assert array.dtype == dtype.np
    assert array.shape == shape
    np.testing.assert_array_equal(array, np.array(data, dtype.np))
    assert ad.tensor(data).dtype is dtype


def test_tensors_inside_lists_are_copied():
    x = ad.tensor([[ad.tensor(1.0, dtype=ad.float64), 2], [3, ad.tensor(4)]])
    assert x.dtype is ad.float64
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.warns(UserWarning, match=r"ad\.stack"):
        assert ad.tensor([ad.tensor(1.0, requires_grad=True)]).tolist() == [1.0]


def test_tensor_copies_the_array():
    a = np.zeros(2)
    x = ad.tensor(a)
    a[0] = 5
    assert x.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("data", "dtype", "error", "message"),
    [
        ([[1, 2], [3]], None, ValueError, r"data\[1\] has 1 elements where its neighbours have 2"),
        ([[[1], [2]], [[3], 4]], None, ValueError, r"data\[1\]\[1\] is a number"),
        ([1, [2]], None, ValueError, r"data\[1\] is a list"),
        ("abc", None, TypeError, "data is 'abc'"),
        ([1.0, None], None, TypeError, r"data\[1\] is None"),
        ({"a": 1}, None, TypeError, "no number"),
        ([2**63], None, ValueError, "does not fit"),
        ([300], ad.uint8, ValueError, "300 does not fit"),
        ([float("nan")], ad.int64, ValueError, "nan does not fit"),
        ([1j], ad.float32, TypeError, "complex"),
        (np.array(["a"]), None, TypeError, "holds no numbers"),
    ],
)
def test_tensor_refuses(data, dtype, error, message):
    with pytest.raises(error, match=message):
        tensor_from_data(data, dtype)


# --- where tensors live -----------------------------------------------------------------------


def test_device_is_checked():
    assert ad.zeros(2, device="cpu", layout="strided", pin_memory=False).tolist() == [0.0, 0.0]
    for make in (ad.zeros, ad.ones, ad.rand, ad.arange):
        with pytest.raises(TypeError, match="no device 'cuda'"):
            make(2, device="cuda")
    with pytest.raises(TypeError, match="layout"):
        ad.zeros(2, layout="sparse_coo")


def test_meta_device_has_shape_and_no_data():
    x = ad.full((10**6, 10**6), 3, device="meta")
    assert x.shape == (10**6, 10**6)
    assert x.dtype is ad.int64
    assert repr(ad.arange(3.0, device="meta")) == "tensor(..., device='meta', size=(3,))"


NUMBERS = ("item", "tolist", "numpy")


@pytest.mark.parametrize(
    "use", [float, int, bool, complex, np.asarray, *map(operator.methodcaller, NUMBERS)]
)
def test_meta_tensors_have_no_numbers(use: Any) -> None:
    with pytest.raises(ad.errors.DependsOnValues):
        use(ad.ones((), device="meta"))


@pytest.mark.parametrize("write", ["copy_", "add_", "mul_", "fill_"])
def test_meta_tensors_are_not_written_to_real_ones(write: str) -> None:
    real = ad.ones(())
    with pytest.raises(ad.errors.DependsOnValues):
        getattr(real, write)(ad.ones((), device="meta"))
    with pytest.raises(ad.errors.DependsOnValues):
        ad.exp(ad.ones((), device="meta"), out=real)
    assert real.item() == 1.0


@pytest.mark.parametrize("make", ["empty_like", "zeros_like", "ones_like", "full_like", "clone"])
def test_a_tensor_like_an_expanded_one_lies_in_order(make: str) -> None:
    """A stride of 0 says nothing about order, so flatten() is a view and a write reaches."""
    like = ad.ones(3).expand(2, 3)
    made = ad.full_like(like, 1.0) if make == "full_like" else getattr(ad, make)(like)
    assert made.stride() == (3, 1)
    made.flatten().fill_(7.0)
    assert made.tolist() == [[7.0] * 3] * 2


def test_tensors_like_one_without_data_are_made_where_it_is_said() -> None:
    x = ad.ones(2, 3, device="meta")
    assert ad.zeros_like(x).is_meta
    assert ad.ones_like(x, device="cpu").tolist() == [[1.0] * 3] * 2
    assert ad.empty_like(x, device="cpu", dtype=ad.float64).shape == (2, 3)
    assert x.new_full((2,), 4.0, device="cpu").tolist() == [4.0, 4.0]
    assert not ad.rand_like(x, device="cpu").is_meta
    assert ad.zeros_like(ad.ones(2), device="meta").is_meta
    with pytest.raises(ValueError, match="no data"):
        x.to("cpu")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_many_numbers_are_those_that_few_are(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Callable[[], ad.Tensor]] = [
        lambda: ad.arange(40_001, dtype=getattr(ad, dtype)),
        lambda: ad.arange(-7, 120_000, 3, dtype=getattr(ad, dtype)),
        lambda: ad.arange(0.5, 90_000.0, 1.25, dtype=getattr(ad, dtype)),
        lambda: ad.linspace(-3, 11, 40_003, dtype=getattr(ad, dtype)),
        lambda: ad.linspace(5, 5, 40_000, dtype=getattr(ad, dtype)),
    ]
    monkeypatch.setattr(background, "soon", background.now)
    found = [call().numpy() for call in calls]
    monkeypatch.setattr(counting, "LARGE", 1 << 40)
    for one, call in zip(found, calls, strict=True):
        np.testing.assert_array_equal(one, call().numpy())


# -- the number that fills, in every way of computing

FILLS: dict[str, Callable[[Any, Any], Any]] = {
    "full": lambda x, v: ad.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: ad.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "fill": lambda x, v: x.clone().fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(x == x, v),
    "index_fill": lambda x, v: x.index_fill(0, ad.tensor([1]), v),
}
NUMBERS = [0, 1, -1, True, 1.5, 127, 128, -129, 255, 256, 65504.0, 7e4, 2**40, 2**70, -0.0]
NUMBERS += [math.inf, math.nan, 1e39, 1e60]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bool", "float16", "float32"])
@pytest.mark.parametrize("name", FILLS)
def test_numbers_that_fill_are_those_of_eager_calls_in_compiled_code(name: str, dtype: str) -> None:
    """Those that do not fit are refused in the same words."""
    x = ad.ones(2, dtype=getattr(ad, dtype))

    def outcome(call: Callable[[Any], Any]) -> Any:
        try:
            return repr(call(x))
        except ad.AdjointError as error:
            return type(error), str(error).rpartition(": ")[2]

    for number in NUMBERS:
        function = lambda x, number=number: FILLS[name](x, number)
        assert outcome(ad.compile(function)) == outcome(function), number


@pytest.mark.parametrize("name", FILLS)
def test_tensors_that_fill_may_be_of_any_transform(name: str) -> None:
    """A value that is not known yet, or another one for each sample, is no number."""
    x = ad.arange(3.0)
    function = lambda x: FILLS[name](x, (x * 2).sum()) * x[:2].sum()
    wanted = function(x)
    for run in (ad.compile(function), ad.trace(function, x)):
        ad.testing.assert_close(run(x), wanted)
    rows = ad.stack([x, x + 1])
    ad.testing.assert_close(ad.vmap(function)(rows), ad.stack([function(r) for r in rows]))
    number = lambda x, v: FILLS[name](x, v)
    ad.testing.assert_close(ad.compile(number)(x, 2.5), number(x, 2.5))
