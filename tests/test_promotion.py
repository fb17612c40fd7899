"""Type promotion agrees with PyTorch; the tables were written by PyTorch 2.13."""

import itertools

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import dtypes, promotion
from adjoint.core.shapes import Spec

NAMES = ("b", "u1", "i1", "i2", "i4", "i8", "f2", "bf", "f4", "f8", "c8", "c16")
CODES = dict(zip(NAMES, dtypes.ALL, strict=True))
NUMBERS = {"bool": True, "int": 2, "flt": 2.5, "cpx": 1j}

# torch.promote_types(row, column)
PROMOTE_TYPES = """
         b  u1  i1  i2  i4  i8  f2  bf  f4  f8  c8 c16
  b      b  u1  i1  i2  i4  i8  f2  bf  f4  f8  c8 c16
 u1     u1  u1  i2  i2  i4  i8  f2  bf  f4  f8  c8 c16
 i1     i1  i2  i1  i2  i4  i8  f2  bf  f4  f8  c8 c16
 i2     i2  i2  i2  i2  i4  i8  f2  bf  f4  f8  c8 c16
 i4     i4  i4  i4  i4  i4  i8  f2  bf  f4  f8  c8 c16
 i8     i8  i8  i8  i8  i8  i8  f2  bf  f4  f8  c8 c16
 f2     f2  f2  f2  f2  f2  f2  f2  f4  f4  f8  c8 c16
 bf     bf  bf  bf  bf  bf  bf  f4  bf  f4  f8  c8 c16
 f4     f4  f4  f4  f4  f4  f4  f4  f4  f4  f8  c8 c16
 f8     f8  f8  f8  f8  f8  f8  f8  f8  f8  f8 c16 c16
 c8     c8  c8  c8  c8  c8  c8  c8  c8  c8 c16  c8 c16
c16    c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
"""

# torch.result_type(a tensor with dimensions, a 0-d tensor); float16 with complex gives complex32 in
# PyTorch, complex64 here
RESULT_WITH_0D = """
         b  u1  i1  i2  i4  i8  f2  bf  f4  f8  c8 c16
  b      b  u1  i1  i2  i4  i8  f2  bf  f4  f8  c8 c16
 u1     u1  u1  u1  u1  u1  u1  f2  bf  f4  f8  c8 c16
 i1     i1  i1  i1  i1  i1  i1  f2  bf  f4  f8  c8 c16
 i2     i2  i2  i2  i2  i2  i2  f2  bf  f4  f8  c8 c16
 i4     i4  i4  i4  i4  i4  i4  f2  bf  f4  f8  c8 c16
 i8     i8  i8  i8  i8  i8  i8  f2  bf  f4  f8  c8 c16
 f2     f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  c8  c8
 bf     bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  c8  c8
 f4     f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  c8  c8
 f8     f8  f8  f8  f8  f8  f8  f8  f8  f8  f8 c16 c16
 c8     c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8
c16    c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
"""

# torch.result_type(a tensor with dimensions or a 0-d tensor, a Python number)
RESULT_WITH_NUMBER = """
       bool int flt cpx
  b      b  i8  f4  c8
 u1     u1  u1  f4  c8
 i1     i1  i1  f4  c8
 i2     i2  i2  f4  c8
 i4     i4  i4  f4  c8
 i8     i8  i8  f4  c8
 f2     f2  f2  f2  c8
 bf     bf  bf  bf  c8
 f4     f4  f4  f4  c8
 f8     f8  f8  f8 c16
 c8     c8  c8  c8  c8
c16    c16 c16 c16 c16
"""


def cells(table):
    """Return (row, column, result) of each cell."""
    header, *rows = table.strip("\n").splitlines()
    columns = header.split()
    found = []
    for row in rows:
        name, *results = row.split()
        found += [(name, c, CODES[r]) for c, r in zip(columns, results, strict=True)]
    return found


@pytest.mark.parametrize(("a", "b", "expected"), cells(PROMOTE_TYPES))
def test_promote_types(a, b, expected):
    assert promotion.promote_types(CODES[a], CODES[b]) is expected
    assert promotion.result_type(array(a, 2), array(b, 2)) is expected
    assert promotion.result_type(array(a), array(b)) is expected


@pytest.mark.parametrize(("a", "b", "expected"), cells(RESULT_WITH_0D))
def test_0d_counts_less_than_dimensions(a, b, expected):
    assert promotion.result_type(array(a, 2), array(b)) is expected
    assert promotion.result_type(Spec((), CODES[b]), Spec((2,), CODES[a])) is expected


@pytest.mark.parametrize(("a", "b", "expected"), cells(RESULT_WITH_NUMBER))
def test_number_counts_less_than_tensor(a, b, expected):
    for shape in ((2,), ()):
        assert promotion.result_type(array(a, *shape), NUMBERS[b]) is expected
        assert promotion.result_type(NUMBERS[b], array(a, *shape)) is expected


@pytest.mark.parametrize(("a", "b", "expected"), cells(RESULT_WITH_NUMBER))
def test_promoted_operands_multiply_to_the_result_type(a, b, expected):
    promoted = promotion.promote((array(a, 2), NUMBERS[b]), False)
    assert np.multiply(*promoted).dtype == expected.np
    floats = promotion.promote((array(a, 2), NUMBERS[b]), True)
    wanted = expected if expected.is_differentiable else dtypes.float32
    assert np.true_divide(*floats).dtype == wanted.np


def array(code, *shape):
    return np.ones(shape, CODES[code].np)


def test_three_operands_rank_before_category():
    parts = array("i2", 3), array("f8"), 1j
    assert promotion.result_type(*parts) is dtypes.complex128
    assert promotion.result_type(array("f4", 3), array("f8"), 2.5) is dtypes.float32


def test_default_dtype_decides_numbers():
    try:
        dtypes.set_default_dtype(dtypes.float64)
        assert promotion.result_type(array("i8", 2), 2.5) is dtypes.float64
        assert promotion.result_type(array("i8", 2), 1j) is dtypes.complex128
    finally:
        dtypes.set_default_dtype(dtypes.float32)
    assert promotion.result_type(array("i8", 2), 2.5) is dtypes.float32


@pytest.mark.parametrize(
    ("code", "number", "expected"),
    [
        ("u1", 300, 45), ("u1", -1, 0), ("i1", 200, -55), ("i2", 70000, 4465),
        ("f4", 1e300, np.inf), ("f2", 1e6, np.inf), ("f2", -70000, -np.inf), ("bf", 1e39, np.inf),
    ],
)  # fmt: skip
def test_number_out_of_range_wraps_or_is_infinite(code, number, expected):
    a, b = promotion.promote((array(code, 1), number), False)
    assert (a + b).item() == expected
    assert (a + b).dtype == CODES[code].np


def test_integer_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        promotion.promote((array("i8", 1), 2**70), False)


def test_promote_leaves_equal_dtypes_and_none_alone():
    a, b = array("f4", 2), array("f4", 2)
    out = promotion.promote((a, None, b), False)
    assert out[0] is a
    assert out[1] is None
    assert out[2] is b


def test_can_cast_forbids_lower_categories_only():
    for a, b in itertools.product(dtypes.ALL, dtypes.ALL):
        allowed = promotion.can_cast(a, b)
        if b.category == dtypes.BOOL:
            assert allowed == (a.category == dtypes.BOOL)
        elif b.category == dtypes.INTEGER:
            assert allowed == (a.category <= dtypes.INTEGER)
        else:
            assert allowed == (a.category <= b.category or not a.is_complex)


def test_inplace_result_must_fit():
    promotion.check_inplace_cast("add_", dtypes.int64, dtypes.int8)
    with pytest.raises(TypeError, match=r"add_.*ad\.float32 can't be cast to ad\.int64"):
        promotion.check_inplace_cast("add_", dtypes.float32, dtypes.int64)


@pytest.mark.parametrize(("a", "b", "expected"), cells(PROMOTE_TYPES))
def test_tensors_multiply_to_the_promoted_dtype(a, b, expected):
    x = ad.ones(2, dtype=CODES[a])
    y = ad.ones(2, dtype=CODES[b])
    assert (x * y).dtype is expected


@pytest.mark.parametrize(("a", "b", "expected"), cells(RESULT_WITH_NUMBER))
def test_tensor_times_number(a, b, expected):
    x = ad.ones(2, dtype=CODES[a])
    assert (x * NUMBERS[b]).dtype is expected
    assert (NUMBERS[b] * x).dtype is expected


def test_inplace_on_tensor_refuses_float_result():
    x = ad.ones(2, dtype=ad.int64)
    with pytest.raises(TypeError, match="can't be cast"):
        x += 1.5
