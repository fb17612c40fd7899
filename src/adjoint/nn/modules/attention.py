"""Attention of several heads."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.nn import functional, init
from adjoint.nn.functional.attention import Misfit
from adjoint.nn.modules.linear import NonDynamicallyQuantizableLinear
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import new_parameter
from adjoint.tensor.tensor import Tensor

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Queries, keys and values are projected, each head mixes values by likeness of query and key.

    Sequences are (length, batch, features), (batch, length, features) if `batch_first`, or
    (length, features) for one alone. Keys and values may have features of their own (`kdim`,
    `vdim`); `add_bias_kv` learns one more key and value, `add_zero_attn` adds one of zeros. A mask
    is of booleans, True hiding a key, or of numbers that are added to scores. The results are the
    mixed values and, if `need_weights`, the weights.

    >>> import adjoint as ad
    >>> layer = ad.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = ad.ones(3, 5, 8)
    >>> mixed, weights = layer(x, x, x)
    >>> mixed.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    in_proj_weight: Tensor
    in_proj_bias: Tensor
    q_proj_weight: Tensor
    k_proj_weight: Tensor
    v_proj_weight: Tensor
    bias_k: Tensor
    bias_v: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueRangeError(
                f"MultiheadAttention(embed_dim={embed_dim}, num_heads={num_heads}): both must be "
                "positive."
            )
        if embed_dim % num_heads:
            raise Misfit(
                f"MultiheadAttention(embed_dim={embed_dim}, num_heads={num_heads}): the number of "
                "heads must divide that of features."
            )
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.dropout, self.batch_first = dropout, batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        for name, shape in self._shapes(bias, add_bias_kv).items():
            made = None if shape is None else new_parameter(*shape, device=device, dtype=dtype)
            self.register_parameter(name, made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self._reset_parameters()

    def _shapes(self, bias: bool, add_bias_kv: bool) -> dict[str, tuple[int, ...] | None]:
        """The shape of each parameter, None for those that are not there."""
        n, one = self.embed_dim, self._qkv_same_embed_dim
        return {
            "q_proj_weight": None if one else (n, n),
            "k_proj_weight": None if one else (n, self.kdim),
            "v_proj_weight": None if one else (n, self.vdim),
            "in_proj_weight": (3 * n, n) if one else None,
            "in_proj_bias": (3 * n,) if bias else None,
            "bias_k": (1, 1, n) if add_bias_kv else None,
            "bias_v": (1, 1, n) if add_bias_kv else None,
        }

    def _reset_parameters(self) -> None:
        """Draw weights, and the additional key and value, by Glorot's rule; biases are 0."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for each in (self.bias_k, self.bias_v):
            if each is not None:
                init.xavier_normal_(each)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        swap = self.batch_first and query.ndim == 3
        if swap:  # equal tensors stay one, which is projected once
            swapped = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = (swapped[id(x)] for x in (query, key, value))
        mixed, weights = functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )  # fmt: skip
        return (mixed.transpose(0, 1) if swap else mixed), weights
