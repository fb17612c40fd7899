"""Samples of attention: all masks, queries without keys, groups of heads, packed sequences.

The laws set the seed before each call, so that dropout is a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.references.attention import backward, placed, scaled
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]


def hidden_row(rows: int, columns: int) -> ad.Tensor:
    """A mask that hides every key of the second query."""
    mask = np.ones((rows, columns), np.bool_)
    mask[1] = False
    mask[0, -1] = False
    return ad.from_numpy(mask)


@sampler("scaled_dot_product_attention", reference=scaled, real=True)
def attentions(make: Make) -> Samples:
    yield Sample(make(2, 2, 3, 2), make(2, 2, 4, 2), make(2, 2, 4, 3), name="heads")
    yield Sample(make(3, 2), make(4, 2), make(4, 2), name="matrices")
    yield Sample(make(2, 3, 2), make(2, 4, 2), make(2, 4, 2), hidden_row(3, 4), name="hidden row")
    yield Sample(make(2, 3, 2), make(2, 4, 2), make(2, 4, 2), make(3, 4), name="added")
    yield Sample(make(3, 2), make(4, 2), make(4, 2), make(1, 4), name="added to all queries")
    yield Sample(make(1, 3, 2), make(1, 4, 2), make(1, 4, 2), None, 0.0, True, name="causal")
    yield Sample(
        make(4, 2), make(3, 2), make(3, 2), None, 0.0, True, scale=0.3, name="more queries"
    )
    yield Sample(make(4, 3, 2), make(2, 4, 2), make(2, 4, 2), enable_gqa=True, name="groups")
    yield Sample(
        make(4, 2, 2), make(2, 3, 2), make(2, 3, 2), make.bool(4, 2, 3), enable_gqa=True,
        name="groups with a mask",
    )  # fmt: skip
    yield Sample(make(3, 2, 2).transpose(0, 1), make(1, 3, 2), make(3, 2), name="broadcast")
    yield Sample(make(2, 0, 2), make(2, 3, 2), make(2, 3, 2), name="no queries")
    yield Sample(make(2, 3, 2), make(2, 0, 2), make(2, 0, 2), name="no keys")
    yield Sample(make(0, 3, 2), make(0, 3, 2), make(0, 3, 2), name="no samples")


@sampler("scaled_dot_product_attention", real=True)
def dropped(make: Make) -> Samples:
    yield Sample(make(3, 2), make(4, 2), make(4, 2), None, 0.4, name="dropout")
    yield Sample(
        make(4, 2, 2), make(2, 3, 2), make(2, 3, 2), None, 0.4, enable_gqa=True,
        name="groups and dropout",
    )  # fmt: skip


@sampler("_scaled_dot_product_attention_math", reference=scaled, real=True)
def maths(make: Make) -> Samples:
    yield Sample(make(2, 3, 2), make(2, 4, 2), make(2, 4, 3), name="heads")
    yield Sample(make(3, 2), make(4, 2), make(4, 2), hidden_row(3, 4), name="hidden row")
    yield Sample(make(2, 3, 2), make(1, 3, 2), make(1, 3, 2), enable_gqa=True, name="groups")


@sampler("_scaled_dot_product_attention_math", real=True)
def dropped_maths(make: Make) -> Samples:
    yield Sample(
        make(3, 2), make(4, 2), make(4, 2), None, 0.5, False, make.bool(3, 4), name="given mask"
    )
    yield Sample(make(3, 2), make(4, 2), make(4, 2), None, 0.5, True, name="dropout")


# --- the rows that compute ------------------------------------------------------------------------


def coins(*shape: int) -> ad.Tensor:
    """Random numbers of 32 bits."""
    return ad.from_numpy(np.random.default_rng(3).integers(0, 2**32, shape))


def integers(*values: int) -> ad.Tensor:
    return ad.from_numpy(np.array(values, np.int64))


@sampler("_attention", real=True)
def blocks(make: Make) -> Samples:
    none = (None, None, None, None)
    yield Sample(make(2, 3, 2), make(2, 4, 2), make(2, 4, 3), *none, 0.0, 0.7, name="plain")
    yield Sample(
        make(3, 2), make(4, 2), make(4, 2), make(3, 4), integers(0, 1, 4), integers(2, 3, 9),
        coins(3), 0.3, 0.7, name="everything",
    )  # fmt: skip
    yield Sample(
        make(2, 1, 3, 2), make(4, 2), make(2, 4, 2), make(2, 1, 1, 4), None, integers(1, 2, 3),
        coins(2, 1, 3), 0.3, 0.7, name="broadcast",
    )  # fmt: skip
    yield Sample(
        make(3, 2), make(4, 2), make(4, 2), hidden_row(3, 4), *none[1:], 0.0, 0.7,
        name="hidden row",
    )  # fmt: skip


# Differences keep the output and logsumexp and move the operands alone, while the derivative goes
# through them: so they are not compared here, but for `_attention`, to second order.
@sampler("_attention_backward", real=True)
def block_backwards(make: Make) -> Samples:
    for given in blocks(make):
        output, sums = ad.ops._attention(
            *[a.detach() if isinstance(a, ad.Tensor) else a for a in given.args]
        )
        *operands, p, scale = given.args
        bias = operands[3]
        wanted = (True, True, True, bias is not None and bias.dtype.is_floating_point)
        yield Sample(
            make(*output.shape), *operands, output, sums, p, scale, wanted, name=given.name,
            kink=True,
        )  # fmt: skip


# --- PyTorch's names ------------------------------------------------------------------------------


def four(make: Make) -> tuple[ad.Tensor, ad.Tensor, ad.Tensor]:
    return make(1, 2, 3, 2), make(1, 2, 4, 2), make(1, 2, 4, 2)


BIASED = placed("attn_mask", "compute_log_sumexp", "dropout_p", "is_causal")
UNBIASED = placed("dropout_p", "is_causal")


@sampler("_scaled_dot_product_flash_attention_for_cpu", reference=UNBIASED, real=True)
def flash_for_cpus(make: Make) -> Samples:
    yield Sample(*four(make), name="plain")
    yield Sample(*four(make), 0.0, True, scale=0.4, name="causal")
    mask = make(3, 4).detach()
    yield Sample(*four(make), 0.0, False, attn_mask=mask, name="mask")


@sampler("_scaled_dot_product_flash_attention", reference=UNBIASED, real=True)
def flashes(make: Make) -> Samples:
    yield Sample(*four(make), name="plain")
    yield Sample(*four(make), 0.0, True, scale=0.4, name="causal")


@sampler("_scaled_dot_product_flash_attention", real=True)
def flash_dropouts(make: Make) -> Samples:
    yield Sample(*four(make), 0.4, True, True, name="causal dropout")


@sampler("_scaled_dot_product_efficient_attention", reference=BIASED, real=True)
def efficients(make: Make) -> Samples:
    yield Sample(*four(make), None, True, name="plain")
    yield Sample(*four(make), make(3, 4), True, 0.0, True, name="bias")


@sampler(
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention", real=True
)
def efficient_dropouts(make: Make) -> Samples:
    yield Sample(*four(make), make(1, 2, 3, 4), False, 0.4, name="dropout")


@sampler("_scaled_dot_product_fused_attention_overrideable", reference=scaled, real=True)
def overrideables(make: Make) -> Samples:
    yield Sample(*four(make), name="plain")
    yield Sample(*four(make), make(3, 4), 0.0, True, name="bias")


@sampler("_scaled_dot_product_fused_attention_overrideable", real=True)
def overrideable_dropouts(make: Make) -> Samples:
    yield Sample(*four(make), make(3, 4), 0.4, True, name="bias and dropout")


def saved(tensors: Any, mask: Any, p: float, is_causal: bool) -> Any:
    """Output, logsumexp and seed that belong to operands."""
    fixed = [t.detach() for t in tensors]
    ad.manual_seed(5)
    found = ad.ops._scaled_dot_product_fused_attention_overrideable(*fixed, mask, p, is_causal)
    return found.output, found.logsumexp, found.philox_seed, found.philox_offset


def backward_samples(make: Make, biased: bool) -> Iterator[tuple[Any, ...]]:
    """Operands, the mask, dropout, whether it is causal, what was saved, and a name."""
    for name, p, is_causal in (("plain", 0.0, False), ("all", 0.4, True)):
        tensors = four(make)
        bias = make(3, 4).detach() if biased and name == "all" else None
        yield tensors, bias, p, is_causal, saved(tensors, bias, p, is_causal), name


def empty() -> ad.Tensor:
    return ad.from_numpy(np.zeros(0, np.int32))


def schema_of(operator: str) -> Any:
    return getattr(ad.ops, operator).operators[0].schema


def backwards(operator: str) -> Any:
    """Samples of a backward, placed by the names of its arguments."""
    schema = schema_of(operator)

    def samples(make: Make) -> Samples:
        if make.is_complex:
            return
        biased = "attn_bias" in schema.names
        for tensors, bias, p, is_causal, found, name in backward_samples(make, biased):
            if "attn_mask" in schema.names and p:
                continue  # PyTorch's flash attention of the CPU has no dropout
            output, sums, seed, offset = found
            grad = make(*output.shape)
            none = ad.from_numpy(np.zeros(0, make.dtype.np))
            values = dict(zip(("query", "key", "value"), tensors, strict=True))
            values |= {"grad_out": grad, "grad_out_": grad, "out": output}
            values |= {"logsumexp": sums.unsqueeze(-1) if "cudnn" in operator else sums}
            values |= {"attn_mask": bias, "attn_bias": none if bias is None else bias}
            values |= {"cum_seq_q": empty(), "cum_seq_k": empty(), "max_q": 3, "max_k": 4}
            values |= {"philox_seed": seed, "philox_offset": offset, "dropout_p": p}
            wanted = (True, False, True, False) if bias is None else (True,) * 4
            values |= {"is_causal": is_causal, "scale": None, "grad_input_mask": wanted}
            given = [values[a.name] for a in schema.arguments if not a.keyword_only]
            more: dict[str, Any] = {
                a.name: values[a.name] for a in schema.arguments if a.keyword_only
            }
            yield Sample(*given, name=name, kink=True, **more)

    return samples


for name in (
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_fused_attention_overrideable_backward",
    "_cudnn_attention_backward",
):
    sampler(name, reference=backward(schema_of(name).names))(backwards(name))


# --- sequences ------------------------------------------------------------------------------------


def sequences(make: Make) -> tuple[ad.Tensor, ad.Tensor, ad.Tensor]:
    """(batch, sequence, heads, features)."""
    return make(2, 3, 2, 2), make(2, 4, 2, 2), make(2, 4, 2, 2)


def packed(make: Make) -> tuple[Any, ...]:
    """Sequences of 1 and 3 queries, 2 and 3 keys, and where they start."""
    offsets = [ad.from_numpy(np.array(v, np.int32)) for v in ((0, 1, 4), (0, 2, 5))]
    return make(4, 2, 2), make(5, 2, 2), make(5, 2, 2), *offsets


@sampler("_flash_attention_forward", real=True)
def flash_sequences(make: Make) -> Samples:
    yield Sample(*sequences(make), None, None, 3, 4, 0.0, False, False, name="plain")
    yield Sample(*packed(make), 3, 3, 0.4, True, False, name="packed")
    yield Sample(
        *sequences(make), None, None, 3, 4, 0.0, False, False, window_size_left=1,
        window_size_right=0, seqused_k=integers(3, 4), name="window",
    )  # fmt: skip
    slopes = ad.from_numpy(np.array((0.5, 0.25), np.float32))
    yield Sample(
        make(2, 3, 2, 2), make(2, 4, 1, 2), make(2, 4, 1, 2), None, None, 3, 4, 0.0, False, False,
        alibi_slopes=slopes, name="alibi and shared heads",
    )  # fmt: skip
    yield Sample(
        make(2, 3, 1, 2), make(3, 2, 1, 2), make(3, 2, 1, 2), None, None, 3, 4, 0.0, False, False,
        block_table=ad.from_numpy(np.array([[2, 0], [1, 1]], np.int32)), name="pages",
    )  # fmt: skip


@sampler("_efficient_attention_forward", real=True)
def efficient_sequences(make: Make) -> Samples:
    none = (None, None, None, None)
    yield Sample(*sequences(make), make(2, 2, 3, 4), *none, 0.0, 0, True, name="bias")
    yield Sample(*sequences(make), None, *none, 0.4, 2, name="lower right", window_size=2)
    query, key, value, starts, places = packed(make)
    together = (x.unsqueeze(0) for x in (query, key, value))
    yield Sample(*together, None, starts, places, 3, 3, 0.0, 1, True, name="packed")


@sampler("_cudnn_attention_forward", real=True)
def cudnn_sequences(make: Make) -> Samples:
    yield Sample(*four(make), make(3, 4), None, None, 3, 4, True, name="bias")
    query, key, value, starts, places = packed(make)
    yield Sample(query, key, value, None, starts, places, 3, 3, True, 0.4, True, name="packed")


def fixed(tensors: Any) -> Any:
    return [t.detach() if isinstance(t, ad.Tensor) else t for t in tensors]


@sampler("_flash_attention_backward", real=True)
def flash_sequence_backwards(make: Make) -> Samples:
    for name, given, p in (
        ("plain", (*sequences(make), None, None, 3, 4), 0.0),
        ("packed", (*packed(make), 3, 3), 0.4),
    ):
        output, sums, state, unused, _ = ad.ops._flash_attention_forward(
            *fixed(given), p, True, False
        )
        offsets = [empty() if t is None else t for t in given[3:5]]
        yield Sample(
            make(*output.shape), *given[:3], output, sums, *offsets, *given[5:], p, True, state,
            unused, name=name, kink=True,
        )  # fmt: skip


@sampler("_efficient_attention_backward", real=True)
def efficient_sequence_backwards(make: Make) -> Samples:
    query, key, value, starts, places = packed(make)
    together = [x.unsqueeze(0) for x in (query, key, value)]
    for name, tensors, bias, offsets, kind in (
        ("bias", sequences(make), make(2, 2, 3, 4), (None, None, 3, 4), 0),
        ("packed", together, None, (starts, places, 3, 3), 1),
    ):
        found = ad.ops._efficient_attention_forward(
            *fixed(tensors), None if bias is None else bias.detach(), *offsets, 0.4, kind, True
        )
        output, sums, seed, offset = found[:4]
        yield Sample(
            make(*output.shape), *tensors, bias, output, *offsets, sums, 0.4, seed, offset, kind,
            bias is not None, name=name, kink=True,
        )  # fmt: skip


# --- layers ---------------------------------------------------------------------------------------


@sampler("_transform_bias_rescale_qkv", real=True)
def rescaled(make: Make) -> Samples:
    yield Sample(make(2, 3, 12), make(12), 2, name="two heads")


@sampler("_native_multi_head_attention", real=True)
def layers(make: Make) -> Samples:

    def layer() -> Any:
        return 4, 2, make(12, 4), make(12), make(4, 4), make(4)

    def inputs() -> Any:
        return make(2, 3, 4), make(2, 3, 4), make(2, 3, 4)

    yield Sample(*inputs(), *layer(), name="weights")
    mask = ad.from_numpy(np.array([[False, False, True], [False, False, False]]))
    yield Sample(*inputs(), *layer(), mask, True, False, 1, name="keys of each sample")
    pairs = ad.from_numpy(np.triu(np.ones((3, 3), np.bool_), 1))
    yield Sample(*inputs(), *layer(), pairs, False, True, 0, name="pairs")
