"""Check derivatives against finite differences: `gradcheck` and `gradgradcheck`.

The signatures are PyTorch's. The comparison is of real Jacobians (see `jacobians`), entry by
entry, and a failure says which output and input, where, how far off, and what it looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.source_lines import warn
from adjoint.testing import batched, jacobians
from adjoint.testing.explain import (
    GradcheckError,
    Options,
    compare,
    low_precision,
)
from adjoint.testing.jacobians import (
    Array,
    Call,
    GradcheckMisuse,
    Jacobians,
    array_of,
    random_like,
    tensor_of,
)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of `func` at `inputs` with finite differences.

    |analytical - numerical| ≤ atol + rtol·|numerical|, for every element of every output that
    requires grad and every element of every input that does; real and imaginary parts of complex
    ones are compared one by one. Inputs should be float64 or complex128: `eps` is too small for
    less. `fast_mode` compares vᵀJu for one random u and v in place of the matrix J, and looks for
    the place only if that fails. `masked` concerns sparse tensors and is ignored for dense ones.
    Return True, or raise `GradcheckError` (return False with `raise_exception=False`).

    >>> import adjoint as ad
    >>> x = ad.tensor([0.5, 2.0], dtype=ad.float64, requires_grad=True)
    >>> ad.autograd.gradcheck(lambda x: x.sin() * x, x, check_forward_ad=True)
    True
    """
    del masked
    if (check_batched_grad and not check_backward_ad) or (
        check_batched_forward_grad and not check_forward_ad
    ):
        raise GradcheckMisuse(
            "gradcheck: a batched check needs the check of the same mode, backward or forward"
        )
    if not (check_forward_ad or check_backward_ad):
        raise GradcheckMisuse(
            "gradcheck: with check_forward_ad=False and check_backward_ad=False nothing is checked"
        )
    options = Options(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes,
        check_forward_ad, check_backward_ad, fast_mode,
    )  # fmt: skip
    try:
        call = Call.of(func, inputs)
        wanted = _check(call, options)
        if check_batched_grad and wanted:
            batched.check_batched_grad(call, wanted, options)
        if check_batched_forward_grad and wanted:
            batched.check_batched_forward_grad(call, wanted, options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare second derivatives of `func` with finite differences of its first derivatives.

    The function that is checked is (inputs, grad_outputs) ↦ gradients of the inputs, in all of
    its arguments. `grad_outputs` are random unless given, and not contiguous if
    `gen_non_contig_grad_outputs`. The other options are those of `gradcheck`.

    >>> import adjoint as ad
    >>> x = ad.tensor([0.5, 2.0], dtype=ad.float64, requires_grad=True)
    >>> ad.autograd.gradgradcheck(lambda x: x.sin() * x, x)
    True
    """
    call = Call.of(func, inputs)
    _require_inputs(call)
    if grad_outputs is None:
        given = _random_cotangents(call, contiguous=not gen_non_contig_grad_outputs)
    else:
        given = jacobians.tensors_in(grad_outputs)
    return gradcheck(
        _gradients(call), (*call.inputs, *given), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _gradients(call: Call) -> Callable[..., tuple[ad.Tensor, ...]]:
    """The function (inputs, cotangents) ↦ gradients of a call's inputs."""
    count = len(call.inputs)

    def gradients(*arguments: ad.Tensor) -> tuple[ad.Tensor, ...]:
        leaves = [t if t.requires_grad else t.requires_grad_() for t in arguments[:count]]
        cotangents = arguments[count:]
        outputs = [t for t in call(leaves) if t.requires_grad]
        grads = ad.autograd.grad(outputs, leaves, cotangents, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradients


def _random_cotangents(call: Call, *, contiguous: bool) -> list[ad.Tensor]:
    generator = np.random.default_rng(0)
    result: list[ad.Tensor] = []
    for output in (t for t in call(call.leaves()) if t.requires_grad):
        like = array_of(output)
        array = random_like(like, generator)
        if not contiguous and array.ndim:
            array = np.repeat(array[..., None], 2, axis=-1)[..., 0]
        result.append(tensor_of(array, requires_grad=True))
    return result


# The check


def _check(call: Call, options: Options) -> list[int]:
    """Check all modes; return the outputs that have a derivative."""
    _require_inputs(call)
    _warn_of_precision(call, options)
    _require_distinct_memory(call)
    outputs = call(call.leaves())
    wanted = [k for k, t in enumerate(outputs) if t.requires_grad and _inexact(t)]
    if not wanted:
        _expect_zero(call, outputs, options)
        return wanted
    if options.fast_mode:
        _check_fast(call, wanted, options)
    else:
        _check_slow(call, wanted, options)
    if options.check_backward_ad:
        _check_gradients(call, wanted, options)
        if options.check_undefined_grad:
            _check_undefined(call, wanted, options)
    return wanted


def _check_slow(call: Call, wanted: list[int], options: Options) -> None:
    expected = jacobians.numerical(call, wanted, options.eps)
    if options.check_backward_ad:
        got = jacobians.reverse(call, wanted)
        compare("reverse mode", got, expected, call, wanted, options)
        _check_repeatable(got, call, wanted, options)
    if options.check_forward_ad:
        got = jacobians.forward(call, wanted)
        compare("forward mode", got, expected, call, wanted, options)


def _check_repeatable(got: Jacobians, call: Call, wanted: list[int], options: Options) -> None:
    again = jacobians.reverse(call, wanted)
    for k, rows in enumerate(got):
        for i, matrix in enumerate(rows):
            gap = float(np.nan_to_num(np.abs(matrix - again[k][i])).max(initial=0.0))
            _check_gap(gap, wanted[k], i, options)


def _check_gap(gap: float, output: int, number: int, options: Options) -> None:
    if gap > options.nondet_tol:
        raise GradcheckError(
            f"gradcheck: backward is not reproducible: two runs differ by {gap:.3g} in output "
            f"{output} with respect to input {number}, more than nondet_tol={options.nondet_tol:g}."
            " If func draws random numbers, seed it inside; if it adds in varying order, allow for "
            "it with nondet_tol."
        )


def _check_fast(call: Call, wanted: list[int], options: Options) -> None:
    """vᵀJu, for one random v per output and one random u per input."""
    generator = np.random.default_rng(0)
    outputs = call(call.leaves())
    cotangents = [random_like(array_of(outputs[k]), generator) for k in wanted]
    directions = [random_like(array_of(x), generator) for x in call.inputs]
    run = lambda: _fast_reverse(call, wanted, cotangents, directions)
    reverse, again = (run(), run()) if options.check_backward_ad else (None, None)
    for i, direction in enumerate(directions):
        # eps is the length of the step, as entry by entry, so that domains are left no further
        step = options.eps / max(1.0, float(np.linalg.norm(direction)))
        columns = jacobians.difference(call, {i: direction}, wanted, step)
        expected = _products(columns, cotangents)
        if reverse is not None and again is not None:
            _compare_fast("reverse mode", reverse[i], expected, i, call, wanted, options)
            for k, gap in zip(wanted, np.abs(reverse[i] - again[i]), strict=True):
                _check_gap(float(np.nan_to_num(gap)), k, i, options)
        if options.check_forward_ad:
            tangents = jacobians.tangents(call, jacobians.along(call, i, direction), wanted)
            got = _products(tangents, cotangents)
            _compare_fast("forward mode", got, expected, i, call, wanted, options)


def _products(columns: list[Array], cotangents: list[Array]) -> Array:
    """vᵀc for each output's column c, in parts."""
    return np.array([c @ jacobians.parts(v) for c, v in zip(columns, cotangents, strict=True)])


def _fast_reverse(
    call: Call, wanted: list[int], cotangents: list[Array], directions: list[Array]
) -> Array:
    """vᵀJu by one backward pass for each output: a row for each input, a column for each output."""
    leaves = call.leaves()
    outputs = call(leaves)
    products = np.zeros((len(leaves), len(wanted)))
    for column, (k, v) in enumerate(zip(wanted, cotangents, strict=True)):
        grads = ad.autograd.grad(
            [outputs[k]], leaves, [tensor_of(v)], retain_graph=True, allow_unused=True
        )
        for i, (grad, direction) in enumerate(zip(grads, directions, strict=True)):
            if grad is not None:
                products[i, column] = jacobians.parts(array_of(grad)) @ jacobians.parts(direction)
    return products


def _compare_fast(
    mode: str, got: Array, expected: Array, i: int, call: Call, wanted: list[int], options: Options
) -> None:
    if options.close(got, expected).all():
        return
    _check_slow(call, wanted, options)
    k = int(np.abs(got - expected).argmax())
    raise GradcheckError(
        f"gradcheck: {mode} differs along a random direction (output {wanted[k]}, input {i}: "
        f"{got[k]:.6g}, finite differences {expected[k]:.6g}), though entry by entry it is within "
        "the tolerances. Loosen atol and rtol, or use fast_mode=False."
    )


def _expect_zero(call: Call, outputs: list[ad.Tensor], options: Options) -> None:
    """No output requires grad: right only if none depends on the inputs."""
    inexact = [k for k, t in enumerate(outputs) if _inexact(t)]
    for k, rows in zip(inexact, jacobians.numerical(call, inexact, options.eps), strict=True):
        for i, matrix in enumerate(rows):
            if not options.close(matrix, np.zeros_like(matrix)).all():
                raise GradcheckError(
                    f"gradcheck: output {k} does not require grad, yet it depends on input {i} "
                    f"(finite differences up to {np.abs(matrix).max():.3g}). Is it detached, or "
                    "computed under no_grad or outside adjoint?"
                )


def _check_gradients(call: Call, wanted: list[int], options: Options) -> None:
    """Gradients have the shape of their inputs, and (if asked) the dtype."""
    leaves = call.leaves()
    outputs = call(leaves)
    outputs = [outputs[k] for k in wanted]
    ones = [tensor_of(np.ones_like(array_of(t))) for t in outputs]
    grads = ad.autograd.grad(outputs, leaves, ones, allow_unused=True)
    for i, (grad, leaf) in enumerate(zip(grads, leaves, strict=True)):
        if grad is None:
            continue
        if tuple(grad.shape) != tuple(leaf.shape):
            raise GradcheckError(
                f"gradcheck: the gradient of input {i} has shape {tuple(grad.shape)}, the input "
                f"{tuple(leaf.shape)}"
            )
        if options.check_grad_dtypes and grad.dtype is not leaf.dtype:
            raise GradcheckError(
                f"gradcheck: the gradient of input {i} is {grad.dtype}, the input {leaf.dtype}"
            )


class _Undefined(ad.autograd.Function):
    """The identity, through which no gradient comes back."""

    @staticmethod
    def forward(ctx: Any, *tensors: ad.Tensor) -> Any:
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: ad.Tensor | None) -> Any:
        return tuple(None for _ in grads)


def _check_undefined(call: Call, wanted: list[int], options: Options) -> None:
    """An output gradient that is absent acts as one that is zero."""
    leaves = call.leaves()
    outputs = call(leaves)
    outputs = [outputs[k] for k in wanted]
    cut = jacobians.tensors_in(_Undefined.apply(*outputs))
    ones = [tensor_of(np.ones_like(array_of(t))) for t in cut]
    try:
        grads = ad.autograd.grad(cut, leaves, ones, allow_unused=True)
    except Exception as error:
        warn("gradcheck: pass check_undefined_grad=False for functions that need every gradient")
        raise GradcheckError(
            "gradcheck: backward fails when no gradient reaches the outputs (grad is None): "
            f"{type(error).__name__}: {error}"
        ) from error
    for i, grad in enumerate(grads):
        if grad is not None and np.abs(array_of(grad)).max(initial=0.0) > options.nondet_tol:
            raise GradcheckError(
                f"gradcheck: no gradient reaches the outputs, but that of input {i} is not zero"
            )
    for k in range(len(wanted) if len(wanted) > 1 else 0):
        _check_one_undefined(call, wanted, k, options)


def _check_one_undefined(call: Call, wanted: list[int], absent: int, options: Options) -> None:
    generator = np.random.default_rng(0)
    leaves = call.leaves()
    outputs = call(leaves)
    outputs = [outputs[k] for k in wanted]
    cotangents = [random_like(array_of(t), generator) for t in outputs]
    cotangents[absent] = np.zeros_like(cotangents[absent])
    tensors = [tensor_of(v) for v in cotangents]
    keep = [k for k in range(len(wanted)) if k != absent]
    zero = ad.autograd.grad(outputs, leaves, tensors, retain_graph=True, allow_unused=True)
    try:
        none = ad.autograd.grad(
            [outputs[k] for k in keep], leaves, [tensors[k] for k in keep], allow_unused=True
        )
    except Exception as error:
        raise GradcheckError(
            f"gradcheck: backward fails when the gradient of output {wanted[absent]} is absent "
            f"(None): {type(error).__name__}: {error}"
        ) from error
    for i, (a, b) in enumerate(zip(none, zero, strict=True)):
        with_none = np.zeros(1) if a is None else array_of(a)
        with_zero = np.zeros(1) if b is None else array_of(b)
        if not options.close(with_none, with_zero).all():
            raise GradcheckError(
                f"gradcheck: the gradient of input {i} differs between an absent (None) and a zero "
                f"gradient of output {wanted[absent]}; an absent one means zero"
            )


# Preconditions


def _inexact(tensor: ad.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _require_inputs(call: Call) -> None:
    if not call.inputs:
        raise GradcheckMisuse(
            "gradcheck: none of the inputs requires grad; make those that matter with "
            "requires_grad=True (float64 or complex128)"
        )


def _warn_of_precision(call: Call, options: Options) -> None:
    low = low_precision(call)
    if low and options.eps < 1e-4:
        warn(
            f"gradcheck: {', '.join(low)}; with eps={options.eps:g} finite differences are mostly "
            "rounding error. Use float64 or complex128, or eps=1e-3 and looser tolerances."
        )


def _require_distinct_memory(call: Call) -> None:
    for i, tensor in enumerate(call.inputs):
        layout = zip(tensor.stride(), tensor.shape, strict=True)
        if tensor.numel() and any(step == 0 and length > 1 for step, length in layout):
            raise GradcheckError(
                f"gradcheck: input {i} is expanded (a stride is 0): its elements share memory and "
                "cannot be varied one by one. Pass input.contiguous(), or expand inside func."
            )
