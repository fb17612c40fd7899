"""Plain NumPy programs, as people write them: each is a function of one array that gives a number.

They know nothing of `adjoint`. `tests/doors/test_numpy_programs.py` compares what they give under
every transform with what they give for NumPy's own arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

X = np.array([0.7, -1.3, 2.1, 0.4, -0.6])  # the point; distinct, none at a kink
W = np.array([1.0, -2.0, 0.5, 3.0, -1.5])
A = np.array([
    [4.0, 1.0, 0.2, 0.0, 0.1], [1.0, 5.0, 0.3, 0.2, 0.0], [0.2, 0.3, 6.0, 0.4, 0.1],
    [0.0, 0.2, 0.4, 7.0, 0.5], [0.1, 0.0, 0.1, 0.5, 8.0],
])  # fmt: skip
IDIOMS: dict[str, Callable[[Any], Any]] = {}


def idiom(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    IDIOMS[function.__name__] = function
    return function


# -- elements are numbers -------------------------------------------------------------------------


@idiom
def add_up_elements(x):
    s = x[0]
    for i in range(1, len(x)):
        s += x[i] ** 2
    return s * x[0]


@idiom
def element_kept_and_array_changed(x):
    y = x * 2
    last = y[2]
    y[2] = 0
    return y.sum() * last


@idiom
def add_to_an_element_kept(x):
    y = x * 2
    s = y[0]
    s += y[1]
    return s * y[0] + y.prod()


@idiom
def swap(x):
    y = x**2
    y[0], y[1] = y[1], y[0]
    return (y * W).sum()


@idiom
def swap_by_a_third(x):
    y = np.sin(x)
    for j in range(len(y) - 1):
        t = y[j]
        y[j] = y[j + 1]
        y[j + 1] = t
    return (y * W).sum()


@idiom
def bubble_sort(x):
    y = x.copy()
    for i in range(len(y)):
        for j in range(len(y) - 1 - i):
            if y[j] > y[j + 1]:
                y[j], y[j + 1] = y[j + 1], y[j]
    return (y**2 * W).sum()


@idiom
def insertion_sort(x):
    y = x * 1.0
    for i in range(1, len(y)):
        key, j = y[i], i - 1
        while j >= 0 and y[j] > key:
            y[j + 1] = y[j]
            j -= 1
        y[j + 1] = key
    return (y * W).sum()


@idiom
def gauss_seidel(x):
    u = np.zeros_like(x)
    for _ in range(4):
        change = 0.0
        for i in range(len(u)):
            old = u[i]
            u[i] = (x[i] - A[i] @ u + A[i, i] * u[i]) / A[i, i]
            change += (u[i] - old) ** 2
    return (u * W).sum() + change


@idiom
def jacobi_with_two_arrays(x):
    u = np.zeros_like(x)
    for _ in range(5):
        new = u.copy()
        for i in range(1, len(u) - 1):
            new[i] = 0.5 * (u[i - 1] + u[i + 1] + x[i] * 0.1)
        u, new = new, u
    return np.sum(u * W)


@idiom
def loss_kept_and_changed(x):
    mse = np.mean((x - W) ** 2)
    loss = mse
    loss += 0.1 * np.sum(x**2)
    return loss * mse


@idiom
def two_names_of_a_sum(x):
    total = x.sum()
    half = total
    half /= 2
    total -= 1
    return half * total


@idiom
def maximum_kept(x):
    best = x[0]
    for v in x[1:]:
        if v > best:
            best = v
    best *= 2
    return best * x[2] + best


@idiom
def running_product(x):
    p = 1.0
    for v in x:
        p *= v
        p += 0.5
    return p


@idiom
def horner(x):
    r = x[0] * 0
    for c in W:
        r *= x[1]
        r += c
    return r * x[2]


@idiom
def fibonacci(x):
    a, b = x[0], x[1]
    for _ in range(6):
        a, b = b, a + b * x[2]
    return a * b


@idiom
def rotate_elements(x):
    y = x.copy()
    first = y[0]
    for i in range(len(y) - 1):
        y[i] = y[i + 1]
    y[-1] = first
    return (y * W).sum()


@idiom
def prefix_in_place(x):
    y = x.copy()
    for i in range(1, len(y)):
        y[i] += y[i - 1]
    return (y**2).sum()


@idiom
def reverse_in_place(x):
    y = x.copy()
    i, j = 0, len(y) - 1
    while i < j:
        y[i], y[j] = y[j], y[i]
        i, j = i + 1, j - 1
    return (y * W).sum()


@idiom
def list_of_elements(x):
    values = [v * 1 for v in x]
    values[0] += values[1]
    values[1] *= 2
    return sum(values) * x[0]


@idiom
def enumerate_and_zip(x):
    s = 0.0
    for i, (a, b) in enumerate(zip(x, W)):
        s += (i + 1) * a * b
    return s


@idiom
def elements_of_a_matrix(x):
    m = np.outer(x, x)
    t = m[0, 1]
    m[0, 1] = m[1, 2]
    m[1, 2] = t
    return (m * A).sum() + t


@idiom
def iterate_while_writing(x):
    y = x.copy()
    s = 0.0
    for i, v in enumerate(y):
        if i + 1 < len(y):
            y[i + 1] += v
        s += v
    return s


# -- views, copies, slices ------------------------------------------------------------------------


@idiom
def slice_is_a_view(x):
    y = x * 1.0
    v = y[1:3]
    v *= 3
    return (y * W).sum()


@idiom
def view_sees_a_write(x):
    y = x * 1.0
    v = y[1:]
    y[2] = x[0] ** 2
    return (v * v).sum()


@idiom
def view_of_a_view(x):
    y = np.outer(x, W)
    v = y[1:4][:, ::2]
    v[0] = 1.0
    v[1:, 0] += x[1]
    return (y * A).sum()


@idiom
def reversed_view_is_written_to(x):
    y = x * 1.0
    r = y[::-1]
    r[0] = x[0] * 3
    y[0] = 2.0
    return (r * W).sum() + y[4]


@idiom
def copy_is_no_view(x):
    y = x * 1.0
    c = y.copy()
    c[0] = 5.0
    y[1] = 7.0
    return (c * y * W).sum()


@idiom
def flatten_copies(x):
    m = np.outer(x, x)
    f = m.flatten()
    f[0] = 0.0
    return (m * A).sum() + f.sum()


@idiom
def ravel_does_not_copy(x):
    m = np.outer(x, x)
    f = m.ravel()
    f[1] = 9.0
    return (m * A).sum()


@idiom
def transposed_view(x):
    m = np.outer(x, W)
    m.T[0] = x
    return (m * A).sum()


@idiom
def reshaped_view(x):
    y = np.concatenate([x, x[:1]])
    m = y.reshape(2, 3)
    m[1] *= 2
    return (y**2).sum()


@idiom
def rows_of_a_matrix(x):
    m = np.outer(x, W)
    for row in m:
        row -= row.mean()
    return (m * A).sum()


@idiom
def two_slices_overlap(x):
    y = x * 1.0
    y[1:] += y[:-1]
    y[:-1] = y[1:] * 2
    return (y * W).sum()


@idiom
def shift_in_place(x):
    y = x * 1.0
    y[1:] = y[:-1]
    return (y * W).sum()


@idiom
def read_then_written(x):
    y = x * 2
    z = y**2
    y[0] = 100.0
    return z.sum() + y.sum()


@idiom
def written_after_use_in_exp(x):
    y = np.exp(x)
    z = y.sum()
    y[1:3] = 0
    return z * y.sum()


@idiom
def argument_written_to(x):
    x[0] = 0
    return (x**2 * W).sum()


@idiom
def argument_changed_whole(x):
    x -= x.mean()
    x /= x.std()
    return (x * W).sum()


@idiom
def argument_under_another_name(x):
    y = x
    y += 1
    return (x * y).sum()


@idiom
def standardise(x):
    return (((x - x.mean()) / x.std()) * W).sum()


@idiom
def split_and_write(x):
    y = x * 1.0
    a, b = np.split(y, [2])
    a += b[:2]
    return (y * W).sum() + b.sum()


@idiom
def diagonal_filled(x):
    m = np.outer(x, x)
    np.fill_diagonal(m, x[0])
    return (m * A).sum()


@idiom
def diagonal_by_indices(x):
    m = np.outer(x, x)
    m[range(5), range(5)] = x
    m[np.diag_indices(5)] += 1
    return (m * A).sum()


# -- masks and indices ----------------------------------------------------------------------------


@idiom
def mask_written(x):
    y = x * 1.0
    y[y < 0] = 0
    return (y * W).sum() * x[1]


@idiom
def mask_scaled(x):
    y = x * 1.0
    y[y > 0] *= 2
    return (y**2 * W).sum()


@idiom
def mask_read(x):
    return x[x > 0].sum() * np.prod(x[x < 0])


@idiom
def mask_of_another(x):
    y = np.zeros_like(x)
    positive = x > 0
    y[positive] = np.sqrt(x[positive])
    y[~positive] = x[~positive] ** 2
    return (y * W).sum()


@idiom
def fancy_read(x):
    return (x[[0, 2, 2]] * x[[1, 1, 3]]).sum()


@idiom
def fancy_written(x):
    y = x * 1.0
    y[[0, 3]] = x[[3, 0]]
    return (y * W).sum()


@idiom
def fancy_added(x):
    y = x * 1.0
    y[[0, 0, 2]] += x[[1, 2, 3]]
    return (y * W).sum()


@idiom
def fancy_is_a_copy(x):
    c = x[[0, 1]]
    c[0] = 9.0
    return (c * x[:2]).sum()


@idiom
def number_beside_a_list(x):
    t = np.outer(x, np.outer(W, x)).reshape(5, 5, 5)
    return (t[0, :, [1, 2]] * t[[0, 1], :, 3]).sum()


@idiom
def argmax_as_index(x):
    i = np.argmax(x)
    j = x.argmin()
    return x[i] ** 2 * x[j]


@idiom
def nonzero_places(x):
    (places,) = (x > 0).nonzero()
    return (x[places] ** 2).sum()


@idiom
def sorted_by_key(x):
    order = np.argsort(x)
    return (x[order] * W).sum()


@idiom
def where_with_places(x):
    places = np.where(x > 0)[0]
    s = 0.0
    for i in places:
        s += x[i] * (i + 1)
    return s


@idiom
def add_at(x):
    y = np.zeros_like(x)
    np.add.at(y, [0, 1, 0, 2], x[:4])
    return (y**2).sum()


@idiom
def put_and_place(x):
    y = x * 1.0
    np.put(y, [0, 1], x[2:4])
    np.place(y, y < 0, [1.0, 2.0])
    return (y * W).sum()


@idiom
def ellipsis_and_newaxis(x):
    m = x[:, None] * x[None, :]
    m[..., 0] = x
    return (m * A).sum()


# -- methods --------------------------------------------------------------------------------------


@idiom
def method_std(x):
    return x.std() * x.var()


@idiom
def method_std_with_ddof(x):
    return x.std(ddof=1) + x.var(ddof=2)


@idiom
def method_repeat(x):
    return (x.repeat(2) * np.arange(10.0)).sum()


@idiom
def method_sort(x):
    y = x**2
    y.sort()
    return (y * W).sum()


@idiom
def method_fill(x):
    y = x * 1.0
    y.fill(x[1])
    y[0] = x[0]
    return y.prod()


@idiom
def method_mean_over_axes(x):
    m = np.outer(x, W)
    return (m.mean(axis=0, keepdims=True) * m.mean(axis=1)).sum()


@idiom
def method_max_min(x):
    return np.outer(x, x).max(axis=0).sum() * x.min() - x.max()


@idiom
def method_cumsum(x):
    return (x.cumsum() * x.cumprod()).sum()


@idiom
def method_clip(x):
    return (x.clip(-1, 1) * W).sum() + x.clip(0).sum()


@idiom
def method_round(x):
    return (x - x.round(1) * 0.5).sum() + x[0] * x.round()[0]


@idiom
def method_take(x):
    return (x.take([0, 3, 3]) * x.take(1)).sum()


@idiom
def method_dot(x):
    return x.dot(W) * x.dot(A).dot(x)


@idiom
def method_ravel_transpose(x):
    m = np.outer(x, W)
    return (m.transpose().ravel() * m.ravel(order="F")).sum() + (m.T.reshape(-1) * m.ravel()).sum()


@idiom
def method_reshape_order(x):
    m = np.outer(x, W).reshape(25, order="F")
    return (m * np.arange(25.0)).sum()


@idiom
def method_swapaxes_squeeze(x):
    t = x[None, :, None] * W[:, None, None]
    return (t.swapaxes(0, 1).squeeze() * A).sum()


@idiom
def method_argsort(x):
    return (x[x.argsort()][:2]).sum() * x[0]


@idiom
def method_ptp_prod(x):
    return np.ptp(x) * x.prod()


@idiom
def method_trace_diagonal(x):
    m = np.outer(x, x) @ A
    return m.trace() * m.diagonal().sum()


@idiom
def method_searchsorted(x):
    edges = np.array([-1.0, 0.0, 1.0])
    return (W[np.searchsorted(edges, x)] * x).sum() * W[np.sort(x).searchsorted(0.5)]


@idiom
def method_astype_copy(x):
    y = x.astype(float)
    y[0] = 3.0
    return (x * y).sum()


@idiom
def method_any_all(x):
    return x.sum() if (x > 5).any() or (x > -9).all() else x.prod()


@idiom
def method_item_size(x):
    return x.sum() / x.size + x.ndim * x[0] + x.shape[0] * x[1]


@idiom
def method_compress_choose(x):
    return x.compress(W > 0).sum() * np.array([0, 1, 0]).choose([3.0, 2.0]).sum() + x[0]


@idiom
def method_partition(x):
    y = x * 1.0
    y.partition(2)
    return y[2] * y[:2].sum()


@idiom
def flat_iterator(x):
    m = np.outer(x, W)
    s = 0.0
    for v in m.flat:
        s += v**2
    m.flat[3] = 0.0
    return s + m.sum()


@idiom
def compared_with_a_list(x):
    y = np.round(x * 0 + [1, 2, 3, 4, 5])
    return (x * (y == [1, 0, 3, 0, 5])).sum()


@idiom
def list_operands(x):
    return ((x - [1, 2, 3, 4, 5]) * [2.0, 1.0, 2.0, 1.0, 2.0]).sum() + ([1, 2, 3, 4, 5] * x).sum()


@idiom
def augmented_with_lists(x):
    y = x * 1.0
    y += [1, 2, 3, 4, 5]
    y[1:3] -= (4, 5)
    return (y**2).sum()


# -- NumPy's functions ----------------------------------------------------------------------------


@idiom
def zeros_like_filled(x):
    out = np.zeros_like(x)
    for i in range(len(x)):
        out[i] = x[i] ** 2 * (i + 1)
    return out.sum() * out[0]


@idiom
def empty_like_filled(x):
    out = np.empty_like(x)
    out[0] = 1.0
    for i in range(1, len(x)):
        out[i] = out[i - 1] * x[i] + x[0]
    return out[-1]


@idiom
def stack_of_numbers(x):
    return (np.stack([x[0] * x[1], np.sin(x[2]), x.sum()]) ** 2).sum()


@idiom
def concatenate_and_pad(x):
    y = np.concatenate([[1.0], x, x[::-1]])
    return (np.pad(y, 1) * np.arange(13.0)).sum()


@idiom
def where_of_functions(x):
    return (np.where(x > 0, np.log1p(np.abs(x)), np.exp(x)) * W).sum()


@idiom
def maximum_and_minimum(x):
    return (np.maximum(x, 0) * W + np.minimum(x, W)).sum()


@idiom
def softmax(x):
    e = np.exp(x - np.max(x))
    e /= e.sum()
    return (e * W).sum()


@idiom
def log_sum_exp(x):
    m = x.max()
    return m + np.log(np.exp(x - m).sum())


@idiom
def norm_and_distance(x):
    return np.linalg.norm(x - W) * np.sqrt(((x[:, None] - x[None, :]) ** 2).sum())


@idiom
def solve_and_det(x):
    m = A + np.diag(x)
    return np.linalg.solve(m, W).sum() * np.linalg.det(m) / 1000 + np.linalg.inv(m)[0, 1]


@idiom
def cholesky_by_hand(x):
    a = A + np.outer(x, x)
    n = len(a)
    low = np.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= low[i, k] * low[j, k]
            low[i, j] = np.sqrt(s) if i == j else s / low[j, j]
    return low.sum()


@idiom
def elimination_in_place(x):
    a, b = A + np.diag(x**2), x * 1.0
    n = len(b)
    for k in range(n):
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k:] -= f * a[k, k:]
            b[i] -= f * b[k]
    for i in range(n - 1, -1, -1):
        b[i] = (b[i] - a[i, i + 1 :] @ b[i + 1 :]) / a[i, i]
    return (b * W).sum()


@idiom
def thomas_algorithm(x):
    n = len(x)
    c, d = np.zeros_like(x), x * 1.0
    c[0] = -1.0 / (4 + x[0])
    d[0] = d[0] / (4 + x[0])
    for i in range(1, n):
        m = 4 + x[i] + c[i - 1]
        c[i] = -1.0 / m
        d[i] = (d[i] + d[i - 1]) / m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return (d * W).sum()


@idiom
def heat_equation(x):
    u = x * 1.0
    for _ in range(6):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u**2).sum()


@idiom
def leapfrog(x):
    q, p = x * 1.0, W * 1.0
    p = p - 0.05 * q**3
    for _ in range(5):
        q += 0.1 * p
        p -= 0.1 * q**3
    return (q * p).sum()


@idiom
def runge_kutta(x):
    y = x.copy()
    f = lambda y: np.stack([y[1], -y[0], y[3] * y[0], -y[2], y[4] * 0.1])
    for _ in range(3):
        a = f(y)
        b = f(y + 0.05 * a)
        y += 0.1 * b
    return (y * W).sum()


@idiom
def newton_by_hand(x):
    r = x[0] ** 2 + 2
    for _ in range(6):
        r -= (r**3 - x[1] ** 2 - 1) / (3 * r**2)
    return r


@idiom
def power_iteration(x):
    v = np.ones_like(x)
    m = A + np.outer(x, x)
    for _ in range(30):
        v = m @ v
        v /= np.linalg.norm(v)
    return v @ m @ v


@idiom
def momentum_descent(x):
    w, v = x * 1.0, np.zeros_like(x)
    for _ in range(4):
        g = 2 * (w - W) + w**3
        v *= 0.9
        v -= 0.01 * g
        w += v
    return (w**2).sum()


@idiom
def kalman_filter(x):
    mean, var = 0.0, 1.0
    total = 0.0
    for z in x:
        var += 0.1
        gain = var / (var + 0.5)
        total += (z - mean) ** 2 / (var + 0.5) + np.log(var + 0.5)
        mean += gain * (z - mean)
        var *= 1 - gain
    return total + mean


@idiom
def autoregression(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for t in range(1, len(x)):
        y[t] = 0.5 * y[t - 1] + np.tanh(x[t])
    return np.mean(y) * np.var(y)


@idiom
def exponential_average(x):
    s, out = x[0], []
    for v in x:
        s = 0.7 * s + 0.3 * v
        out.append(s)
        s *= 1.01
    return (np.stack(out) * W).sum()


@idiom
def dynamic_programming(x):
    cost = np.abs(x[:, None] - W[None, :])
    d = np.zeros_like(cost)
    d[0] = np.cumsum(cost[0])
    d[:, 0] = np.cumsum(cost[:, 0])
    for i in range(1, 5):
        for j in range(1, 5):
            d[i, j] = cost[i, j] + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[-1, -1]


@idiom
def convolution_by_hand(x):
    k = np.array([0.25, 0.5, 0.25])
    out = np.zeros_like(x[:3])
    for i in range(3):
        out[i] = (x[i : i + 3] * k).sum()
    return (out * np.convolve(x, k, mode="valid")).sum()


@idiom
def trapezoid_by_hand(x):
    s = 0.5 * (x[0] + x[-1])
    s += x[1:-1].sum()
    return s * np.trapezoid(x)


@idiom
def interpolation(x):
    places, at = np.arange(5.0), np.array([0.5, 1.7])
    return np.interp(at, places, x).sum() * np.interp(0.3, places, x)


@idiom
def polynomial(x):
    return np.polyval(x, 0.7) * np.polyval(W, x[0])


@idiom
def median_and_percentile(x):
    return np.median(x) * np.percentile(x, 30) + np.quantile(x, [0.2, 0.9]).sum()


@idiom
def covariance(x):
    return np.cov(np.stack([x, x**2]))[0, 1] * np.corrcoef(x, W)[0, 1]


@idiom
def differences(x):
    return (np.diff(x) ** 2).sum() + np.gradient(x)[2] * np.ediff1d(x)[0]


@idiom
def einsum_and_tensordot(x):
    return np.einsum("i,ij,j->", x, A, x) * np.tensordot(x, W, 1)


@idiom
def meshgrid_and_outer(x):
    a, b = np.meshgrid(x, W)
    return (a * b * np.outer(x, x)).sum()


@idiom
def triangle_and_kron(x):
    m = np.outer(x, W)
    return np.tril(m).sum() * np.triu(m, 1).sum() + np.kron(x[:2], x[2:4]).sum()


@idiom
def fourier(x):
    z = np.fft.fft(x)
    return (np.abs(z) ** 2 * W).sum() + z.real[1] * z.imag[2]


@idiom
def complex_numbers(x):
    z = x * np.exp(1j * x)
    z *= 2
    w = z[0]
    w += 1j
    return np.abs(w) ** 2 + (z.conj() * z).real.sum() * z[1].imag


@idiom
def broadcasting_in_place(x):
    m = np.zeros((5, 5)) + x
    m += x[:, None]
    m *= W
    return (m * A).sum()


@idiom
def integers_mixed(x):
    n = np.arange(5)
    y = x * n
    y //= 1
    return (y * 0.0 + x**n + x % 2).sum() + (n / 2 * x).sum()


@idiom
def power_series(x):
    term, total = np.ones_like(x), np.ones_like(x)
    for n in range(1, 8):
        term *= x / n
        total += term
    return (total * W).sum()


@idiom
def out_argument(x):
    y = np.zeros_like(x)
    np.multiply(x, W, out=y)
    np.sin(y, out=y)
    np.add(y, x, out=y)
    return (y * W).sum()


@idiom
def copyto_where(x):
    y = np.zeros_like(x)
    np.copyto(y, x**2, where=x > 0)
    return (y * W).sum()


@idiom
def conditions_on_values(x):
    s = 0.0
    for v in x:
        if v > 0:
            s += np.sqrt(v)
        elif v < -1:
            s -= v**2
        else:
            s += abs(v)
    return s


@idiom
def builtins_of_python(x):
    return sum(x) * max(x) + min(x) * abs(x[1]) + sorted(x)[1] + pow(x[0], 2) + divmod(x[2], 1)[1]


@idiom
def square_with_double_star(x):
    y = x**2
    y **= 2
    z = x[0]
    z **= 3
    return y.sum() + z * x[0]


@idiom
def apply_along_axis(x):
    m = np.outer(x, W)
    return np.apply_along_axis(lambda r: r.std() * r[0], 1, m).sum()


@idiom
def roll_and_flip(x):
    return (np.roll(x, 1) * np.flip(x) * np.flipud(x)).sum() + (np.rot90(np.outer(x, W)) * A).sum()


@idiom
def flipped_view_written(x):
    y = x * 1.0
    np.flip(y)[1:3] = x[0]
    return (y * W).sum()


@idiom
def take_along_and_sort(x):
    m = np.outer(x, W)
    order = np.argsort(m, axis=1)
    return (np.take_along_axis(m, order, 1) * np.sort(m, axis=0)).sum()


@idiom
def insert_delete_append(x):
    y = np.insert(x, 1, x[0] ** 2)
    y = np.delete(y, 0)
    y = np.append(y, x[1])
    return (y * np.arange(6.0)).sum()


@idiom
def nested_functions_and_closures(x):
    scale = x[0]

    def inner(v):
        nonlocal scale
        scale += v
        return scale * v

    return inner(x[1]) + inner(x[2]) * scale


@idiom
def dictionary_of_arrays(x):
    state = {"u": x * 1.0, "n": 0}
    for _ in range(3):
        state["u"][1:] += state["u"][:-1] * 0.1
        state["n"] += 1
    return (state["u"] ** state["n"]).sum()


@idiom
def list_of_rows(x):
    rows = [x * w for w in W]
    rows[0] += 1
    rows[1][2] = 0.0
    return (np.vstack(rows) * A).sum()


@idiom
def accumulate_matrix(x):
    total = np.zeros((5, 5))
    for i in range(3):
        total = total + np.outer(x, x) * (i + 1)
    total += A
    return np.trace(total @ total)


@idiom
def sum_of_squares_generator(x):
    return sum(v**2 for v in x) / np.sqrt(sum(w * v for w, v in zip(W, x)) ** 2 + 1)
