"""Connectionist temporal classification: the probability of a text, whatever its alignment.

Graves et al. 2006, §4.1. A text is read with blanks between its letters and around them; α(s) is
the logarithm of the probability to be at place s of it after t steps. Each step stays at its place,
moves on by one, or by two to skip a blank between different letters. The recursion itself is
differentiated, so derivatives are exact; PyTorch's gradient assumes log_probs that come from
log_softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import loss
from adjoint.core import dtypes
from adjoint.core.errors import AdjointError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.decompositions.loss.common import reduced
from adjoint.decompositions.reduction import exp_shares

Tensor = Any
INFINITY = float("inf")
Lengths = Sequence[int]


def _check(
    log_probs: Tensor, targets: Tensor, inputs: Lengths, lengths: Lengths, blank: int
) -> None:
    if log_probs.ndim != 3:
        raise ShapeError(f"ctc_loss: log_probs must be T×N×C, got {show(log_probs.shape)}.")
    if not log_probs.dtype.is_floating_point or targets.dtype.is_differentiable:
        raise DtypeError(
            "ctc_loss: log_probs must be real numbers and targets integers, got "
            f"{log_probs.dtype} and {targets.dtype}."
        )
    if log_probs.numel() == 0:
        raise ShapeError(f"ctc_loss: log_probs has no elements, {show(log_probs.shape)}.")
    steps, count, classes = log_probs.shape
    if len(inputs) != count or len(lengths) != count:
        raise ShapeError(
            f"ctc_loss: {count} samples need as many lengths, got {len(inputs)} input_lengths and "
            f"{len(lengths)} target_lengths."
        )
    if not 0 <= blank < classes:
        raise ValueRangeError(f"ctc_loss(blank={blank}): there are {classes} classes.")
    if any(not 0 <= n <= steps for n in inputs):
        raise ValueRangeError(
            f"ctc_loss: input_lengths must lie between 0 and {steps}, got {tuple(inputs)}."
        )
    room = targets.shape[1] if targets.ndim == 2 else None
    if targets.ndim == 2 and targets.shape[0] != count:
        raise ShapeError(f"ctc_loss: targets of {show(targets.shape)} for {count} samples.")
    if targets.ndim == 1 and targets.shape[0] != sum(lengths):
        raise ShapeError(
            f"ctc_loss: {targets.shape[0]} targets in one vector, and lengths {tuple(lengths)}."
        )
    if targets.ndim not in (1, 2) or any(n < 0 or (room is not None and n > room) for n in lengths):
        raise ShapeError(
            f"ctc_loss: target_lengths {tuple(lengths)} do not fit targets of "
            f"{show(targets.shape)}."
        )


def _vector(lengths: Lengths) -> Tensor:
    return ops.stack([ops.full((), n, dtype=dtypes.int64) for n in lengths])


def _letters(targets: Tensor, lengths: Tensor, longest: int, blank: int) -> Tensor:
    """The letters of each sample in a row, blanks after its end."""
    order = ops.arange(longest)
    after = order >= lengths.unsqueeze(-1)
    if targets.ndim == 2:
        letters = targets.narrow(1, 0, longest)
    elif targets.shape[0] == 0:
        letters = after
    else:
        starts = (lengths.cumsum(0) - lengths).unsqueeze(-1)
        letters = targets.index([(starts + order).clamp_max(targets.shape[0] - 1)])
    return letters.to(dtypes.int64).masked_fill(after, blank)


def _spaced(letters: Tensor, blank: int) -> Tensor:
    """Blanks before, between and after: N×(2S + 1)."""
    count, longest = letters.shape
    blanks = ops.full((count, longest), blank, dtype=dtypes.int64)
    pairs = ops.stack([blanks, letters], 2).reshape((count, 2 * longest))
    return ops.cat([pairs, ops.full((count, 1), blank, dtype=dtypes.int64)], 1)


def _moved(alpha: Tensor, places: int) -> Tensor:
    """α of some places before."""
    count, size = alpha.shape
    front = alpha.new_full((count, min(places, size)), -INFINITY)
    return ops.cat([front, alpha.narrow(1, 0, max(size - places, 0))], 1)


def _blocked(text: Tensor, blank: int) -> Tensor:
    """Where a text cannot be entered from two places before: at blanks and repeated letters."""
    letters = text.to(dtypes.float64)  # exact for any number of classes
    return ~((_moved(letters, 2) != letters) & (text != blank))


def _ways(alpha: Tensor, blocked: Tensor) -> Tensor:
    """α of the places from which each place is entered."""
    skipping = _moved(alpha, 2).masked_fill(blocked, -INFINITY)
    return ops.stack([alpha, _moved(alpha, 1), skipping])


def ctc_alphas(emitted: Tensor, blocked: Tensor, inputs: Tensor) -> Tensor:
    """α after each step; a sample's α does not change after its last step."""
    steps, _, size = emitted.shape
    if steps == 0:
        return emitted.clone()
    alpha = emitted.select(0, 0).masked_fill(ops.arange(size) > 1, -INFINITY)
    alphas = [alpha]
    for t in range(1, steps):
        new = ops.logsumexp(_ways(alpha, blocked), (0,)) + emitted.select(0, t)
        alpha = ops.where((inputs > t).unsqueeze(-1), new, alpha)
        alphas.append(alpha)
    return ops.stack(alphas)


def ctc_alphas_backward(
    grad: Tensor, emitted: Tensor, blocked: Tensor, inputs: Tensor, alphas: Tensor
) -> Tensor:
    """Backward through the steps: a gradient goes to the ways into a place by their shares."""
    steps, _, size = emitted.shape
    if steps == 0:
        return grad.clone()
    carried, found = ops.zeros_like(emitted.select(0, 0)), []
    for t in range(steps - 1, 0, -1):
        carried = carried + grad.select(0, t)
        active = (inputs > t).unsqueeze(-1)
        given = carried.masked_fill(~active, 0)
        found.append(given)
        ways = _ways(alphas.select(0, t - 1), blocked)
        shares = exp_shares(ways, ops.amax(ways, (0,), True), (0,), True) * given
        moved = [_later(shares.select(0, k), k, 0.0) for k in (1, 2)]
        carried = shares.select(0, 0) + moved[0] + moved[1] + carried.masked_fill(active, 0)
    first = (carried + grad.select(0, 0)).masked_fill(ops.arange(size) > 1, 0)
    return ops.stack([first, *found[::-1]])


def _later(beta: Tensor, places: int, beyond: float = -INFINITY) -> Tensor:
    """β of some places after, and what is `beyond` the last one."""
    count, size = beta.shape
    back = beta.new_full((count, min(places, size)), beyond)
    return ops.cat([beta.narrow(1, min(places, size), max(size - places, 0)), back], 1)


def _betas(
    emitted: Tensor, text: Tensor, inputs: Tensor, lengths: Tensor, blank: int
) -> list[Tensor]:
    """The logarithm of the probability to end well from each place, for each step."""
    steps, _, size = emitted.shape
    blocked = _blocked(text, blank)
    from_end = (lengths * 2).unsqueeze(-1) - ops.arange(size)
    ends = ops.where((from_end == 0) | (from_end == 1), 0.0, -INFINITY).to(emitted.dtype)
    beta, betas = ends, []
    for t in range(steps - 1, -1, -1):
        if t + 1 < steps:
            next = beta + emitted.select(0, t + 1)
            ways = [next, _later(next, 1), _later(next.masked_fill(blocked, -INFINITY), 2)]
            beta = ops.where(
                (inputs > t + 1).unsqueeze(-1), ops.logsumexp(ops.stack(ways), (0,)), ends
            )
        betas.append(beta)
    return betas[::-1]


def _gradient(
    log_probs: Tensor,
    targets: Tensor,
    inputs: Tensor,
    lengths: Tensor,
    alpha: Tensor,
    losses: Tensor,
    blank: int,
) -> Tensor:
    """-P(letter k at step t | text), Graves et al. 2006, eq. 15; 0 if no alignment is possible."""
    steps, count, _ = log_probs.shape
    if steps == 0 or count == 0:
        return log_probs.new_zeros(log_probs.shape)
    text = _spaced(_letters(targets, lengths, alpha.shape[2] // 2, blank), blank)
    places = text.unsqueeze(0).expand((steps, *text.shape))
    betas = _betas(log_probs.gather(2, places), text, inputs, lengths, blank)
    unused = (ops.arange(steps).unsqueeze(-1) >= inputs) | (losses == INFINITY)
    joint = alpha.transpose(0, 1) + ops.stack(betas) + losses.unsqueeze(-1)
    chances = joint.masked_fill(unused.unsqueeze(-1), -INFINITY).exp()
    return log_probs.new_zeros(log_probs.shape).scatter_add(2, places, -chances)


def _likelihood(alpha: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
    """-log of the probability to end at the last letter or at the blank after it."""
    last = (lengths * 2).unsqueeze(-1)
    at_blank = alpha.gather(1, last)
    at_letter = alpha.gather(1, (last - 1).clamp_min(0)).masked_fill(last == 0, -INFINITY)
    found = -ops.logsumexp(ops.cat([at_blank, at_letter], 1), (1,))
    nothing = ops.where(lengths == 0, 0.0, INFINITY).to(alpha.dtype)
    return ops.where(inputs == 0, nothing, found)


def _ctc(
    log_probs: Tensor,
    targets: Tensor,
    inputs: Tensor,
    lengths: Tensor,
    longest: int,
    blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    steps, count, _ = log_probs.shape
    text = _spaced(_letters(targets, lengths, longest, blank), blank)
    if steps == 0 or count == 0:
        nothing = ops.where(lengths == 0, 0.0, INFINITY).to(log_probs.dtype)
        return nothing, log_probs.new_zeros((count, steps, text.shape[1]))
    emitted = log_probs.gather(2, text.unsqueeze(0).expand((steps, *text.shape)))
    alphas = ops._ctc_alphas(emitted, _blocked(text, blank), inputs)
    result = _likelihood(alphas.select(0, steps - 1), inputs, lengths)
    if zero_infinity:  # the value stays, without a derivative
        result = ops.where(result == INFINITY, result.detach(), result)
    return result, alphas.transpose(0, 1).detach()


def ctc_loss_of_lists(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """-log of the probability of each text, and α: N×T×(2S + 1)."""
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    count = log_probs.shape[1]
    none = ops.zeros((0,), dtype=dtypes.int64)
    inputs, lengths = (_vector(n) if count else none for n in (input_lengths, target_lengths))
    longest = max(target_lengths, default=0)
    return _ctc(log_probs, targets, inputs, lengths, longest, blank, zero_infinity)


def _known(lengths: Tensor) -> list[int] | None:
    """The lengths as numbers; None inside a transform, where they have none."""
    try:
        return [int(n) for n in lengths.tolist()]
    except AdjointError:
        return None


def ctc_loss_of_tensors(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """ctc_loss with lengths in tensors, which inside a transform stand for their limits."""
    steps, sizes = _known(input_lengths), _known(target_lengths)
    longest = targets.shape[-1]
    if steps is not None and sizes is not None:
        _check(log_probs, targets, steps, sizes, blank)
        longest = max(sizes, default=0)
    inputs, lengths = input_lengths.to(dtypes.int64), target_lengths.to(dtypes.int64)
    return _ctc(log_probs, targets, inputs, lengths, longest, blank, zero_infinity)


def ctc_loss_with_gradient(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    deterministic: bool,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """-log of the probability of each text, and its gradient in log_probs, as numbers."""
    given = (input_lengths, target_lengths)
    losses, alpha = ops._ctc_loss(log_probs, targets, *given, blank, zero_infinity)
    none = ops.zeros((0,), dtype=dtypes.int64)
    inputs, lengths = (
        (_vector(n) if len(n) else none) if isinstance(n, (tuple, list)) else n for n in given
    )
    known = (log_probs.detach(), targets, inputs, lengths, alpha, losses.detach())
    return losses, _gradient(*known, blank)


def _reduced(losses: Tensor, lengths: Tensor, reduction: int, zero_infinity: bool) -> Tensor:
    """The mean is over samples, of the loss per letter."""
    if zero_infinity:
        losses = losses.masked_fill(losses == INFINITY, 0)
    if reduction == loss.MEAN:
        losses = losses / lengths.clamp_min(1).to(losses.dtype)
    return reduced("ctc_loss", losses, reduction)


def reduced_ctc_loss_of_lists(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    """-log of the probability of the texts; without a batch log_probs is T×C."""
    lone = log_probs.ndim == 2
    probs = log_probs.unsqueeze(1) if lone else log_probs
    losses = ops._ctc_loss(probs, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if not len(target_lengths):
        return reduced("ctc_loss", losses, reduction)
    found = losses.squeeze(0) if lone else losses
    lengths = _vector(target_lengths)
    return _reduced(found, lengths.squeeze(0) if lone else lengths, reduction, zero_infinity)


def reduced_ctc_loss_of_tensors(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    """The reduced ctc_loss, with lengths in tensors."""
    lone = log_probs.ndim == 2
    probs = log_probs.unsqueeze(1) if lone else log_probs
    inputs, lengths = input_lengths.reshape(-1), target_lengths.reshape(-1)
    losses = ops._ctc_loss(probs, targets, inputs, lengths, blank, zero_infinity)[0]
    losses = losses.squeeze(0) if lone else losses
    return _reduced(losses, lengths.squeeze(0) if lone else lengths, reduction, zero_infinity)
