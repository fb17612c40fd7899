"""`ad.nn.functional`: signatures, in place, dropouts and losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
CONV = ad.nn.Conv1d(3, 1, 2)
WHOLE = ad.ones(2, 3, 4, dtype=ad.int64)


def test_names_are_listed_and_unknown_ones_refused() -> None:
    assert {"relu", "softmax", "gelu", "linear", "dropout", "cross_entropy"} <= set(dir(F))
    assert all(callable(getattr(F, name)) for name in dir(F))
    with pytest.raises(AttributeError, match="no 'sinh'"):
        F.sinh


def test_inplace_changes_the_input() -> None:
    x = ad.tensor([-1.0, 2.0])
    assert F.relu(x, inplace=True) is x
    assert x.tolist() == [0.0, 2.0]


def test_normalize_of_zero_has_a_finite_gradient() -> None:
    x = ad.zeros(1, 3, dtype=ad.float64, requires_grad=True)
    F.normalize(x)[0, 0].backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_dropout_keeps_the_mean_and_masks_the_gradient() -> None:
    ad.manual_seed(0)
    x = ad.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.25)
    values = y.detach().numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(values.mean() - 1) < 0.1
    y.sum().backward()
    assert np.array_equal(x.grad.numpy(), values)


def test_dropout_of_everything_and_of_nothing() -> None:
    x = ad.tensor([1.0, 2.0])
    assert F.dropout(x, 1.0).tolist() == [0.0, 0.0]
    assert F.dropout(x, 0.0).tolist() == [1.0, 2.0]
    assert F.dropout(x, 0.5, training=False).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="probability"):
        F.dropout(x, 1.5)


def test_dropout_of_channels_drops_them_whole() -> None:
    ad.manual_seed(1)
    y = F.dropout2d(ad.ones(8, 16, 3, 3), 0.5).numpy().reshape(8 * 16, 9)
    assert (y == y[:, :1]).all()
    assert 0 < (y[:, 0] == 0).mean() < 1
    with pytest.raises(ValueError, match="dimensions"):
        F.dropout1d(ad.ones(3))


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    ad.manual_seed(2)
    y = F.alpha_dropout(ad.randn(40000), 0.2, training=True).numpy()
    assert abs(y.mean()) < 0.03
    assert abs(y.var() - 1) < 0.05


@pytest.mark.parametrize("function", [F.dropout2d, F.dropout3d])
def test_dropout_of_channels_takes_rows_with_a_warning(function: Any) -> None:
    with pytest.warns(UserWarning, match="on its own"):
        y = function(ad.ones(20, 20))
    assert set(y.flatten().tolist()) == {0.0, 2.0}
    with pytest.raises(ValueError, match="needs channels"):
        function(ad.ones(3))


def test_native_dropout_gives_its_mask() -> None:
    ad.manual_seed(0)
    result, mask = ad.ops.native_dropout(ad.ones(20), 0.5, True)
    assert mask.dtype is ad.bool
    assert np.array_equal(result.numpy() != 0, mask.numpy())


def test_gumbel_softmax_is_a_corner_if_hard() -> None:
    ad.manual_seed(0)
    logits = ad.zeros(5, 4, requires_grad=True)
    hard = F.gumbel_softmax(logits, hard=True)
    assert np.allclose(np.sort(hard.detach().numpy(), axis=1), [0, 0, 0, 1], atol=1e-6)
    soft = F.gumbel_softmax(logits)
    assert np.allclose(soft.detach().numpy().sum(1), 1)
    assert math.isfinite(float(ad.autograd.grad(hard[0, 0], logits)[0].abs().sum()))


def test_losses_of_broadcast_tensors_warn() -> None:
    with pytest.warns(UserWarning, match="same size"):
        F.mse_loss(ad.zeros(3, 1), ad.zeros(3))


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_a_loss_broadcasts_before_it_promotes(loss: Any) -> None:
    wide, narrow = ad.zeros((), dtype=ad.float64), ad.zeros(3)
    with pytest.warns(UserWarning, match="same size"):
        assert loss(wide, narrow).dtype is loss(narrow, wide).dtype is ad.float64


def test_lp_pool_of_infinity_is_the_largest_and_of_minus_infinity_the_smallest() -> None:
    x = ad.tensor([[1.0, -3.0, 2.0, 4.0]])
    assert F.lp_pool1d(x, float("inf"), 2, 1).tolist() == [[3.0, 3.0, 4.0]]
    assert F.lp_pool1d(x, -float("inf"), 2, 1).tolist() == [[1.0, 2.0, 2.0]]


def test_group_norm_of_single_values_is_refused() -> None:
    with pytest.raises(ValueError, match="more than one value"):
        F.group_norm(ad.zeros(1, 4, 1), 4)


def test_cosine_similarity_takes_whole_numbers_beside_others() -> None:
    assert F.cosine_similarity(ad.tensor(12, dtype=ad.int8), ad.tensor(12.0), dim=-1).item() == 1.0


def test_ctc_lengths_are_whole_numbers() -> None:
    with pytest.raises(RuntimeError, match="input_lengths are whole"):
        F.ctc_loss(ad.zeros(4, 1, 3), ad.tensor([[1, 2]]), ad.tensor([4.0]), ad.tensor([2]))


@pytest.mark.parametrize(
    ("said", "call"),
    {
        "conv2d: with": lambda: F.conv2d(ad.ones(1, 2, 3, 3), ad.ones(1, 3, 2, 2)),
        "conv1d: with": lambda: CONV(ad.ones(1, 2, 3)),
        "fold: needs": lambda: F.fold(ad.ones(1, 5, 3), (4, 4), 2),
        "unfold: only the batch": lambda: F.unfold(ad.ones(3, 0, 3, 4), 2),
        "grid_sample: the last": lambda: F.grid_sample(ad.ones(1, 1, 2, 2), ad.ones(1, 1, 1, 3)),
        "interpolate: mixes": lambda: F.interpolate(WHOLE, 2, None, "linear"),
        "cross_entropy: a target": lambda: F.cross_entropy(ad.ones(2, 3), ad.tensor([0] * 5)),
        "matmul(a, b): a has": lambda: ad.ones(3) @ ad.ones(4),
    }.items(),
)  # fmt: skip
def test_an_error_names_what_the_user_called(said: str, call: Any) -> None:
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value).startswith(said)

    def inner() -> Any:  # the user's own function between two of ours
        return ad.vmap(lambda x: call() * x)(ad.ones(2))

    with pytest.raises(RuntimeError) as caught:
        inner()
    assert str(caught.value).startswith(said)


def test_dropout2d_says_what_three_dimensions_are() -> None:
    with pytest.warns(UserWarning, match="use dropout1d"):
        F.dropout2d(ad.ones(2, 3, 4))


def test_pad_sequence_takes_sequences() -> None:
    with pytest.raises(RuntimeError, match="one for each sequence"):
        ad.nn.utils.rnn.pad_sequence(5)  # type: ignore[arg-type]
