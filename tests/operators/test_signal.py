"""Windows of ad.signal are those of SciPy."""

import numpy as np
import pytest
from scipy import signal

import adjoint as ad
from adjoint.signal import windows

WINDOWS = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.0}, "hamming": {},
    "gaussian": {"std": 0.9}, "general_cosine": {"a": [0.5, 0.3, 0.2]}, "hann": {},
    "general_hamming": {"alpha": 0.6}, "kaiser": {"beta": 2.0}, "nuttall": {},
}  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 4, 5])
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_scipys(name: str, sym: bool, count: int) -> None:
    window, options = getattr(windows, name), WINDOWS[name]
    got = window(count, sym=sym, dtype=ad.float64, **options)
    wanted = getattr(signal.windows, name)(count, sym=sym, **options)
    assert got.dtype is ad.float64
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-15)
    assert window(count, **options).dtype is ad.float32
    assert window(count, requires_grad=True, **options).requires_grad


def test_an_exponential_window_may_begin_at_its_centre() -> None:
    found = windows.exponential(4, center=0.0, sym=False, dtype=ad.float64)
    np.testing.assert_allclose(found, np.exp(-np.arange(4.0)), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: windows.hann(-1), ValueError, "negative"),
        (lambda: windows.hann(3, dtype=ad.int64), TypeError, "floating point"),
        (lambda: windows.hann(3, dtype=ad.float16), TypeError, "float32 or float64"),
        (lambda: windows.hann(3, colour=1), TypeError, "no argument 'colour'"),
        (lambda: windows.gaussian(3, std=0), ValueError, "positive"),
        (lambda: windows.exponential(3, tau=-1), ValueError, "positive"),
        (lambda: windows.exponential(3, center=1.0), ValueError, "sym=False"),
        (lambda: windows.general_cosine(3, a=[]), ValueError, "at least one"),
        (lambda: windows.general_cosine(3, a=0.5), TypeError, "sequence"),
        (lambda: windows.kaiser(3, beta=-1), ValueError, "negative"),
    ],
)
def test_window_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
