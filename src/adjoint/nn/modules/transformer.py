"""Transformers: layers of attention and a small network, stacks of them, encoder and decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.nn import functional, init
from adjoint.nn.modules.attention import MultiheadAttention
from adjoint.nn.modules.containers import ModuleList
from adjoint.nn.modules.dropout import Dropout
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.normalization import LayerNorm
from adjoint.tensor.tensor import Tensor

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

Function = Callable[[Tensor], Tensor]

ACTIVATIONS = ("relu", "gelu")


def _get_activation_fn(activation: str) -> Function:
    """The activation of a name."""
    if activation not in ACTIVATIONS:
        raise ValueRangeError(
            f"activation={activation!r}: there are 'relu' and 'gelu'; or give a function."
        )
    return getattr(functional, activation)


def _get_clones(module: Module, count: int) -> ModuleList:
    """Copies of a module, each with parameters of its own."""
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


# --- layers --------------------------------------------------------------------------------------


class _Layer(Module):
    """Blocks, around each of which a sum and a normalization go: attentions, then two maps."""

    attentions: ClassVar[tuple[str, ...]]
    self_attn: MultiheadAttention

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Function = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = dict(device=device, dtype=dtype)
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **options
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.norm_first = norm_first
        blocks = range(1, len(self.attentions) + 2)
        for block in blocks:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
            self.add_module(f"norm{block}", norm)
        for block in blocks:
            self.add_module(f"dropout{block}", Dropout(dropout))
        self.activation = (
            _get_activation_fn(activation) if isinstance(activation, str) else activation
        )

    def _around(self, norm: Module, x: Tensor, block: Function) -> Tensor:
        """x + block(norm(x)), or norm(x + block(x))."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        """Attention of a sequence to itself."""
        mixed, _ = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return self.dropout1(mixed)

    def _ff_block(self, x: Tensor) -> Tensor:
        """Two linear maps with the activation in between, of each position."""
        dropout = getattr(self, f"dropout{len(self.attentions) + 1}")
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then two linear maps; each is added to its input.

    `norm_first` normalizes before each block, otherwise after it. `src_mask` hides positions from
    each other, `src_key_padding_mask` hides positions of each sample (True or -inf hides);
    `is_causal` is a hint that `src_mask` is the causal one.

    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(ad.ones(3, 5, 8)).shape
    (3, 5, 8)
    """

    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        masks = (src_mask, src_key_padding_mask, is_causal)
        x = self._around(self.norm1, src, lambda x: self._sa_block(x, *masks))
        return self._around(self.norm2, x, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, to another one (`memory`), then two linear maps.

    Arguments are those of `TransformerEncoderLayer`, for the sequence and for the memory.

    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(ad.ones(3, 5, 8), ad.ones(3, 7, 8)).shape
    (3, 5, 8)
    """

    attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = self._around(self.norm1, tgt, lambda x: self._sa_block(x, *own))
        x = self._around(self.norm2, x, lambda x: self._mha_block(x, *other))
        return self._around(self.norm3, x, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Any,
        key_padding_mask: Any,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention of the sequence to the memory."""
        mixed, _ = self.multihead_attn(
            x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal
        )
        return self.dropout2(mixed)


# --- stacks --------------------------------------------------------------------------------------


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and a normalization at the end.

    `enable_nested_tensor` and `mask_check` choose a faster way for padded batches in PyTorch; there
    is one way here, so they change nothing.

    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> encoder = ad.nn.TransformerEncoder(layer, num_layers=2)
    >>> encoder(ad.ones(5, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        x = src
        for layer in self.layers:
            x = layer(
                x,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, and a normalization at the end.

    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> decoder = ad.nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(ad.ones(5, 3, 8), ad.ones(7, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of one sequence and a decoder of another, which attends to it.

    "Attention is all you need", Vaswani et al. 2017. `custom_encoder` and `custom_decoder` take
    the place of the stacks that are made here.

    >>> import adjoint as ad
    >>> model = ad.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> mask = model.generate_square_subsequent_mask(5)
    >>> model(ad.ones(7, 3, 8), ad.ones(5, 3, 8), tgt_mask=mask).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Function = functional.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = dict(device=device, dtype=dtype)
        arguments = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias,
        )  # fmt: skip

        def last() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **options)

        if custom_encoder is None:
            layer = TransformerEncoderLayer(*arguments, **options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, last())
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*arguments, **options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, last())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        """Draw all matrices by Glorot's rule."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        self._check(src, tgt)
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    def _check(self, src: Tensor, tgt: Tensor) -> None:
        """Raise unless both sequences have d_model features and the same batch."""
        batch = 0 if self.batch_first else 1
        same = src.ndim != 3 or tgt.ndim != 3 or src.shape[batch] == tgt.shape[batch]
        if not same or src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer(d_model={self.d_model}): src and tgt must have so many features and "
                f"the same batch (dimension {batch}), got {show(src.shape)} and {show(tgt.shape)}."
            )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask, which hides later positions: -inf above the diagonal, else 0.

        >>> import adjoint as ad
        >>> ad.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0.,   0.]])
        """
        return ops.triu(ops.full((sz, sz), float("-inf"), dtype=dtype, device=device), 1)
