"""Tensors print as PyTorch prints them; the texts were written by PyTorch 2.13 (`ad.` for `torch.`)."""

# ruff: noqa: E501
import pytest

import adjoint as ad
from adjoint.tensor import printing

CASES = [
    ("0-d float", lambda: ad.tensor(2.5), "tensor(2.5000)"),
    ("0-d whole", lambda: ad.tensor(3.0), "tensor(3.)"),
    ("0-d int", lambda: ad.tensor(7), "tensor(7)"),
    ("0-d bool", lambda: ad.tensor(True), "tensor(True)"),
    ("0-d complex", lambda: ad.tensor(1 + 2j), "tensor(1.+2.j)"),
    ("whole floats", lambda: ad.tensor([1.0, 2.0, -30.0]), "tensor([  1.,   2., -30.])"),
    (
        "four digits",
        lambda: ad.tensor([1.5, 2.25, -3.14159]),
        "tensor([ 1.5000,  2.2500, -3.1416])",
    ),
    ("small: scientific", lambda: ad.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (
        "wide range: scientific",
        lambda: ad.tensor([0.5, 12345.0]),
        "tensor([5.0000e-01, 1.2345e+04])",
    ),
    ("wide whole range", lambda: ad.tensor([1.0, 100000.0]), "tensor([1.0000e+00, 1.0000e+05])"),
    ("large whole", lambda: ad.tensor([1e9, 2e9]), "tensor([1.0000e+09, 2.0000e+09])"),
    ("at the limit", lambda: ad.tensor([1.0, 1000.0]), "tensor([   1., 1000.])"),
    ("beyond the limit", lambda: ad.tensor([1.0, 1001.0]), "tensor([1.0000e+00, 1.0010e+03])"),
    (
        "zeros",
        lambda: ad.zeros(2, 3),
        """\
tensor([[0., 0., 0.],
        [0., 0., 0.]])""",
    ),
    ("negative zero", lambda: ad.tensor([-0.0, 1.5]), "tensor([-0.0000, 1.5000])"),
    (
        "nan and inf",
        lambda: ad.tensor([float("nan"), float("inf"), -float("inf"), 1.0]),
        "tensor([nan, inf, -inf, 1.])",
    ),
    (
        "nan and inf, fractions",
        lambda: ad.tensor([float("nan"), float("inf"), -float("inf"), 1.5]),
        "tensor([   nan,    inf,   -inf, 1.5000])",
    ),
    ("only nan", lambda: ad.tensor([float("nan"), float("nan")]), "tensor([nan, nan])"),
    ("float64", lambda: ad.tensor([1.5], dtype=ad.float64), "tensor([1.5000], dtype=ad.float64)"),
    ("float16", lambda: ad.tensor([1.1], dtype=ad.float16), "tensor([1.0996], dtype=ad.float16)"),
    (
        "bfloat16",
        lambda: ad.tensor([1.1, 100.0], dtype=ad.bfloat16),
        "tensor([  1.1016, 100.0000], dtype=ad.bfloat16)",
    ),
    (
        "int32",
        lambda: ad.tensor([[1, -20], [300, 4]], dtype=ad.int32),
        """\
tensor([[  1, -20],
        [300,   4]], dtype=ad.int32)""",
    ),
    ("uint8", lambda: ad.tensor([0, 255], dtype=ad.uint8), "tensor([  0, 255], dtype=ad.uint8)"),
    ("bools", lambda: ad.tensor([True, False]), "tensor([ True, False])"),
    ("all true", lambda: ad.tensor([True, True]), "tensor([True, True])"),
    (
        "complex",
        lambda: ad.tensor([1 + 2j, -3.5 - 0.25j]),
        "tensor([ 1.0000+2.0000j, -3.5000-0.2500j])",
    ),
    (
        "complex128",
        lambda: ad.tensor([[1j], [2]], dtype=ad.complex128),
        """\
tensor([[0.+1.j],
        [2.+0.j]], dtype=ad.complex128)""",
    ),
    (
        "complex with nan",
        lambda: ad.tensor([complex(float("nan"), 1), complex(2, float("inf"))]),
        "tensor([nan+1.j, 2.+infj])",
    ),
    (
        "complex, large imaginary part",
        lambda: ad.tensor([1 + 1e6j, 2 + 1j]),
        "tensor([1.+1.0000e+06j, 2.+1.0000e+00j])",
    ),
    ("empty", lambda: ad.tensor([]), "tensor([])"),
    ("empty matrix", lambda: ad.empty(0, 3), "tensor([], size=(0, 3))"),
    (
        "empty int",
        lambda: ad.empty(2, 0, dtype=ad.int64),
        "tensor([], size=(2, 0), dtype=ad.int64)",
    ),
    ("empty float64", lambda: ad.empty(0, dtype=ad.float64), "tensor([], dtype=ad.float64)"),
    (
        "long vector wraps",
        lambda: ad.arange(40.0),
        """\
tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,
        28., 29., 30., 31., 32., 33., 34., 35., 36., 37., 38., 39.])""",
    ),
    (
        "long vector of fractions",
        lambda: ad.arange(20) / 7,
        """\
tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,
        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,
        2.5714, 2.7143])""",
    ),
    (
        "three dimensions",
        lambda: ad.arange(12).reshape(2, 3, 2),
        """\
tensor([[[ 0,  1],
         [ 2,  3],
         [ 4,  5]],

        [[ 6,  7],
         [ 8,  9],
         [10, 11]]])""",
    ),
    (
        "four dimensions",
        lambda: ad.arange(8).reshape(2, 2, 1, 2),
        """\
tensor([[[[0, 1]],

         [[2, 3]]],


        [[[4, 5]],

         [[6, 7]]]])""",
    ),
    (
        "many, summarised",
        lambda: ad.arange(2000),
        "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])",
    ),
    (
        "matrix, summarised",
        lambda: ad.arange(2000.0).reshape(50, 40),
        """\
tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 3.7000e+01, 3.8000e+01,
         3.9000e+01],
        [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 7.7000e+01, 7.8000e+01,
         7.9000e+01],
        [8.0000e+01, 8.1000e+01, 8.2000e+01,  ..., 1.1700e+02, 1.1800e+02,
         1.1900e+02],
        ...,
        [1.8800e+03, 1.8810e+03, 1.8820e+03,  ..., 1.9170e+03, 1.9180e+03,
         1.9190e+03],
        [1.9200e+03, 1.9210e+03, 1.9220e+03,  ..., 1.9570e+03, 1.9580e+03,
         1.9590e+03],
        [1.9600e+03, 1.9610e+03, 1.9620e+03,  ..., 1.9970e+03, 1.9980e+03,
         1.9990e+03]])""",
    ),
    (
        "tall, summarised",
        lambda: ad.arange(3000).reshape(1500, 2),
        """\
tensor([[   0,    1],
        [   2,    3],
        [   4,    5],
        ...,
        [2994, 2995],
        [2996, 2997],
        [2998, 2999]])""",
    ),
    (
        "three dimensions, summarised",
        lambda: ad.arange(1728).reshape(12, 12, 12),
        """\
tensor([[[   0,    1,    2,  ...,    9,   10,   11],
         [  12,   13,   14,  ...,   21,   22,   23],
         [  24,   25,   26,  ...,   33,   34,   35],
         ...,
         [ 108,  109,  110,  ...,  117,  118,  119],
         [ 120,  121,  122,  ...,  129,  130,  131],
         [ 132,  133,  134,  ...,  141,  142,  143]],

        [[ 144,  145,  146,  ...,  153,  154,  155],
         [ 156,  157,  158,  ...,  165,  166,  167],
         [ 168,  169,  170,  ...,  177,  178,  179],
         ...,
         [ 252,  253,  254,  ...,  261,  262,  263],
         [ 264,  265,  266,  ...,  273,  274,  275],
         [ 276,  277,  278,  ...,  285,  286,  287]],

        [[ 288,  289,  290,  ...,  297,  298,  299],
         [ 300,  301,  302,  ...,  309,  310,  311],
         [ 312,  313,  314,  ...,  321,  322,  323],
         ...,
         [ 396,  397,  398,  ...,  405,  406,  407],
         [ 408,  409,  410,  ...,  417,  418,  419],
         [ 420,  421,  422,  ...,  429,  430,  431]],

        ...,

        [[1296, 1297, 1298,  ..., 1305, 1306, 1307],
         [1308, 1309, 1310,  ..., 1317, 1318, 1319],
         [1320, 1321, 1322,  ..., 1329, 1330, 1331],
         ...,
         [1404, 1405, 1406,  ..., 1413, 1414, 1415],
         [1416, 1417, 1418,  ..., 1425, 1426, 1427],
         [1428, 1429, 1430,  ..., 1437, 1438, 1439]],

        [[1440, 1441, 1442,  ..., 1449, 1450, 1451],
         [1452, 1453, 1454,  ..., 1461, 1462, 1463],
         [1464, 1465, 1466,  ..., 1473, 1474, 1475],
         ...,
         [1548, 1549, 1550,  ..., 1557, 1558, 1559],
         [1560, 1561, 1562,  ..., 1569, 1570, 1571],
         [1572, 1573, 1574,  ..., 1581, 1582, 1583]],

        [[1584, 1585, 1586,  ..., 1593, 1594, 1595],
         [1596, 1597, 1598,  ..., 1605, 1606, 1607],
         [1608, 1609, 1610,  ..., 1617, 1618, 1619],
         ...,
         [1692, 1693, 1694,  ..., 1701, 1702, 1703],
         [1704, 1705, 1706,  ..., 1713, 1714, 1715],
         [1716, 1717, 1718,  ..., 1725, 1726, 1727]]])""",
    ),
    (
        "exactly the threshold",
        lambda: ad.zeros(250, 4, dtype=ad.bool)[:2],
        """\
tensor([[False, False, False, False],
        [False, False, False, False]])""",
    ),
    (
        "requires grad",
        lambda: ad.tensor([1.0, 2.0], requires_grad=True),
        "tensor([1., 2.], requires_grad=True)",
    ),
    (
        "requires grad, float64",
        lambda: ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True),
        "tensor([1., 2.], dtype=ad.float64, requires_grad=True)",
    ),
    (
        "grad_fn",
        lambda: ad.tensor([1.0, 2.0], requires_grad=True) * 2,
        "tensor([2., 4.], grad_fn=<MulBackward0>)",
    ),
    (
        "suffix wraps",
        lambda: ad.tensor([1.5] * 9 + [0.0], dtype=ad.float64, requires_grad=True),
        """\
tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
        0.0000], dtype=ad.float64, requires_grad=True)""",
    ),
    (
        "suffix fits",
        lambda: ad.tensor([1.5] * 3, dtype=ad.float64, requires_grad=True),
        "tensor([1.5000, 1.5000, 1.5000], dtype=ad.float64, requires_grad=True)",
    ),
    (
        "grad_fn of a matrix",
        lambda: ad.ones(2, 2, requires_grad=True).exp(),
        """\
tensor([[2.7183, 2.7183],
        [2.7183, 2.7183]], grad_fn=<ExpBackward0>)""",
    ),
]

OPTIONS = [
    (
        "precision and sci_mode",
        lambda: ad.tensor([1.5, 22.75]),
        {"precision": 2, "sci_mode": True},
        "tensor([1.50e+00, 2.28e+01])",
    ),
    (
        "no sci_mode",
        lambda: ad.tensor([1e-6, 1.0]),
        {"sci_mode": False},
        "tensor([0.0000, 1.0000])",
    ),
    (
        "short",
        lambda: ad.arange(1100.0) / 3,
        {"profile": "short"},
        "tensor([0.00e+00, 3.33e-01,  ..., 3.66e+02, 3.66e+02])",
    ),
    (
        "narrow",
        lambda: ad.arange(20.0),
        {"linewidth": 30},
        """\
tensor([ 0.,  1.,  2.,  3.,
         4.,  5.,  6.,  7.,
         8.,  9., 10., 11.,
        12., 13., 14., 15.,
        16., 17., 18., 19.])""",
    ),
    (
        "one edge",
        lambda: ad.arange(30.0).reshape(5, 6),
        {"edgeitems": 1, "threshold": 10},
        """\
tensor([[ 0.,  ...,  5.],
        ...,
        [24.,  ..., 29.]])""",
    ),
    (
        "no edges",
        lambda: ad.arange(30.0),
        {"edgeitems": 0, "threshold": 10},
        "tensor([...], size=(30,))",
    ),
    ("full", lambda: ad.zeros(1100)[:3], {"profile": "full"}, "tensor([0., 0., 0.])"),
]


@pytest.mark.parametrize(("make", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_repr(make, text):
    assert repr(make()) == text


@pytest.mark.parametrize(
    ("make", "options", "text"), [c[1:] for c in OPTIONS], ids=[c[0] for c in OPTIONS]
)
def test_printoptions(make, options, text):
    with printing.printoptions(**options):
        assert repr(make()) == text
    assert printing.get_printoptions()["precision"] == 4


def test_set_printoptions_profile_restores_defaults():
    printing.set_printoptions(precision=2, linewidth=40)
    printing.set_printoptions(profile="default")
    assert printing.PrintOptions() == printing.OPTIONS


def test_set_printoptions_refuses_unknown_profile():
    with pytest.raises(ValueError, match="no profile 'long'"):
        printing.set_printoptions(profile="long")


def test_default_dtype_is_not_named():
    try:
        ad.set_default_dtype(ad.float64)
        assert repr(ad.tensor([1.5])) == "tensor([1.5000])"
        assert repr(ad.tensor([1.5], dtype=ad.float32)) == "tensor([1.5000], dtype=ad.float32)"
    finally:
        ad.set_default_dtype(ad.float32)
