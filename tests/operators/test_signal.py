"""Windows of ad.signal agree with PyTorch; the values were written by PyTorch 2.13."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.signal import windows

WINDOWS = [
    (lambda **o: windows.hann(5, **o), [0.0, 0.49999999999999994, 1.0, 0.5000000000000001, 0.0]),
    (
        lambda **o: windows.hann(4, sym=False, **o),
        [0.0, 0.49999999999999994, 1.0, 0.5000000000000001],
    ),
    (
        lambda **o: windows.hamming(4, **o),
        [0.08000000000000007, 0.7699999999999999, 0.7699999999999998, 0.08000000000000007],
    ),
    (
        lambda **o: windows.blackman(5, **o),
        [
            -1.3877787807814457e-17,
            0.3399999999999999,
            0.9999999999999999,
            0.3400000000000001,
            -1.3877787807814457e-17,
        ],
    ),
    (lambda **o: windows.bartlett(5, **o), [0.0, 0.5, 1.0, 0.5, 0.0]),
    (lambda **o: windows.bartlett(4, sym=False, **o), [0.0, 0.5, 1.0, 0.5]),
    (
        lambda **o: windows.cosine(4, **o),
        [0.3826834323650898, 0.9238795325112867, 0.9238795325112867, 0.3826834323650899],
    ),
    (
        lambda **o: windows.exponential(4, tau=2.0, **o),
        [0.4723665527410147, 0.7788007830714049, 0.7788007830714049, 0.4723665527410147],
    ),
    (
        lambda **o: windows.exponential(4, center=0.0, sym=False, **o),
        [1.0, 0.36787944117144233, 0.1353352832366127, 0.049787068367863944],
    ),
    (
        lambda **o: windows.gaussian(5, std=0.9, **o),
        [0.08465798862253002, 0.5394075072376268, 1.0, 0.5394075072376268, 0.08465798862253002],
    ),
    (
        lambda **o: windows.kaiser(5, beta=2.0, **o),
        [0.4386762798370488, 0.8347614334011668, 1.0, 0.8347614334011668, 0.4386762798370488],
    ),
    (
        lambda **o: windows.kaiser(4, sym=False, **o),
        [5.2773441320097665e-05, 0.2156727447589671, 1.0, 0.2156727447589671],
    ),
    (
        lambda **o: windows.nuttall(5, **o),
        [
            0.0003628000000000381,
            0.22698239999999995,
            1.0,
            0.2269824000000001,
            0.0003628000000000381,
        ],
    ),
    (
        lambda **o: windows.general_cosine(4, a=[0.5, 0.3, 0.2], **o),
        [0.4, 0.5499999999999998, 0.5499999999999997, 0.4],
    ),
    (
        lambda **o: windows.general_hamming(4, alpha=0.6, **o),
        [0.19999999999999996, 0.7999999999999999, 0.7999999999999998, 0.19999999999999996],
    ),
    (lambda **o: windows.hann(0, **o), []),
    (lambda **o: windows.hann(1, **o), [1.0]),
]


@pytest.mark.parametrize(("window", "values"), WINDOWS)
def test_window_agrees_with_pytorch(window, values):
    got = window(dtype=ad.float64)
    assert got.dtype is ad.float64
    np.testing.assert_allclose(got.tolist(), values, rtol=1e-12, atol=1e-15)
    assert window().dtype is ad.float32
    assert window(requires_grad=True).requires_grad


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
