"""Recurrent networks: stacks of layers over time, and single cells.

`PackedSequence` (`nn.utils.rnn`) holds sequences of different lengths; networks take them as well
as padded batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.calls.autocast import is_autocast_enabled
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.nn import init
from adjoint.nn.modules import made
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import new_parameter, other_than
from adjoint.nn.utils.rnn import PackedSequence
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(
    globals(), "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"
)


# mode: how many products a step makes of its input, one for each gate, and its operator
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class MixedDtypes(DtypeError, ValueError):
    """An input that has not the dtype of the weights. Also a ValueError, as in PyTorch."""


OPERATORS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


# --- stacks of layers ----------------------------------------------------------------------------


class RNNBase(Module):
    """The parameters and the call of a recurrent network; `mode` says which.

    For each layer and direction: `weight_ih_l0` (of the input), `weight_hh_l0` (of the state),
    `bias_ih_l0`, `bias_hh_l0`, and `weight_hr_l0` with `proj_size`; those of the reverse direction
    end in `_reverse`.

    >>> import adjoint as ad
    >>> [name for name, _ in ad.nn.RNNBase("GRU", 3, 4).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in GATES:
            raise ValueRangeError(f"RNNBase(mode={mode!r}): there are {', '.join(GATES)}.")
        _check_sizes(mode, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        _check_arguments(mode, hidden_size, num_layers, dropout, proj_size)
        _check_switches(mode, bias=bias, batch_first=batch_first)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(1 + bidirectional):
                suffix = f"_l{layer}" + "_reverse" * direction
                shapes = self._shapes(layer)
                self._all_weights.append([name + suffix for name in shapes])
                for name, shape in shapes.items():
                    made = new_parameter(*shape, device=device, dtype=dtype)
                    self.register_parameter(name + suffix, made)
        self.reset_parameters()

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """The parameters of one direction of a layer, in the operators' order."""
        gates = GATES[self.mode] * self.hidden_size
        state = self.proj_size or self.hidden_size
        width = state * (1 + self.bidirectional) if layer else self.input_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, width)}
        shapes["weight_hh"] = (gates, state)
        if self.bias:
            shapes["bias_ih"] = shapes["bias_hh"] = (gates,)
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly within 1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for names in self._all_weights for name in names]

    def flatten_parameters(self) -> None:
        """Do nothing: parameters need not lie in one piece of memory here."""

    # --- shapes ---

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise unless an input has the right shape."""
        weight = self._flat_weights[0]
        if weight is not None and input.dtype is not weight.dtype and not is_autocast_enabled():
            raise MixedDtypes(
                f"{self._get_name()}: the input has {input.dtype} and the weights {weight.dtype}; "
                "convert one."
            )
        expected = 3 if batch_sizes is None else 2
        if input.ndim != expected or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{self._get_name()}: needs an input of {expected} dimensions, the last one "
                f"{self.input_size} features; got {show(input.shape)}."
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the hidden states: layers and directions, sequences, features."""
        if batch_sizes is None:
            sequences = input.shape[0 if self.batch_first else 1]
        else:
            sequences = int(batch_sizes[0])
        layers = self.num_layers * (1 + self.bidirectional)
        return (layers, sequences, self.proj_size or self.hidden_size)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of an LSTM's cells: layers and directions, sequences, features."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, ...],
        msg: str = "the hidden state must be {}, got {}",
    ) -> None:
        """Raise unless a state has the expected shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            given = msg.format(tuple(expected_hidden_size), list(hx.shape))
            raise ShapeError(f"{self._get_name()}: {given}.")

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise unless input and state fit the network and each other."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    # --- states: one tensor, or a pair for LSTM ---

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return input.new_zeros(self.get_expected_hidden_size(input, batch_sizes))

    def _each(self, function: Callable[[Tensor], Tensor], hx: Any) -> Any:
        """A state of which every tensor went through a function."""
        return function(hx)

    def _split(self, results: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
        """An operator's results as outputs and state."""
        return results[0], results[1]

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return a state with its sequences in another order; None leaves them."""
        if permutation is None:
            return hx
        return self._each(lambda state: state.index_select(1, permutation), hx)

    # --- the call ---

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if input.ndim not in (2, 3):
            raise ShapeError(
                f"{self._get_name()}: needs an input of 3 dimensions, or 2 without a batch, got "
                f"{show(input.shape)}."
            )
        if input.ndim == 2:
            return self._alone(input, hx)
        hx = self._zeros(input, None) if hx is None else self._each(self._batched, hx)
        self.check_forward_args(input, hx, None)
        return self._split(
            getattr(ops, OPERATORS[self.mode]).input(
                input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional, self.batch_first,
            )
        )  # fmt: skip

    def _alone(self, input: Tensor, hx: Any) -> tuple[Tensor, Any]:
        """One sequence without a batch."""
        dim = 0 if self.batch_first else 1
        if hx is not None:
            hx = self._each(self._unbatched, hx)
        output, hidden = self.forward(input.unsqueeze(dim), hx)
        return output.squeeze(dim), self._each(lambda state: state.squeeze(1), hidden)

    def _batched(self, state: Tensor) -> Tensor:
        if state.ndim != 3:
            raise ShapeError(
                f"{self._get_name()}: an input with a batch needs states of 3 dimensions, got "
                f"{show(state.shape)}."
            )
        return state

    def _unbatched(self, state: Tensor) -> Tensor:
        if state.ndim != 2:
            raise ShapeError(
                f"{self._get_name()}: an input without a batch needs states of 2 dimensions, got "
                f"{show(state.shape)}."
            )
        return state.unsqueeze(1)

    def _packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, sizes, order, back = input
        hx = self._zeros(data, sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, sizes)
        output, hidden = self._split(
            getattr(ops, OPERATORS[self.mode]).data(
                data, sizes, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional,
            )
        )  # fmt: skip
        return PackedSequence(output, sizes, order, back), self.permute_hidden(hidden, back)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + other_than(
            self, proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0,
            bidirectional=False,
        )  # fmt: skip


def _check_switches(mode: str, **switches: Any) -> None:
    """Raise unless switches are True or False: 0 may have been meant for the next argument."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ArgumentError(f"{mode}({name}={value!r}): it is True or False.")


def _check_sizes(mode: str, **sizes: Any) -> None:
    """Raise unless all sizes are positive whole numbers."""
    for name, size in sizes.items():
        if not isinstance(size, int):
            raise ArgumentError(
                f"{mode}({name}={size!r}): it is a whole number, got {type(size).__name__}."
            )
        if size <= 0:
            raise ValueRangeError(f"{mode}({name}={size}): it must be positive.")


def _check_arguments(
    mode: str, hidden_size: int, num_layers: int, dropout: Any, proj_size: int
) -> None:
    """Raise unless the other arguments of a network make sense."""
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueRangeError(f"{mode}(dropout={dropout!r}): a probability is between 0 and 1.")
    if dropout > 0 and num_layers == 1:
        warn(
            f"{mode}(dropout={dropout}, num_layers=1): dropout is between layers; with one layer "
            "there is none."
        )
    if not 0 <= proj_size < hidden_size:
        raise ValueRangeError(
            f"{mode}(hidden_size={hidden_size}, proj_size={proj_size}): proj_size must be less "
            "than hidden_size, and not negative."
        )
    if proj_size and mode != "LSTM":
        raise ValueRangeError(f"{mode}(proj_size={proj_size}): only LSTM has a projection.")


def check_nonlinearity(what: str, nonlinearity: str) -> None:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueRangeError(
            f"{what}(nonlinearity={nonlinearity!r}): there are 'tanh' and 'relu'."
        )


class TwoStates(RNNBase):
    """A network whose state is a pair of tensors."""

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        h = input.new_zeros(self.get_expected_hidden_size(input, batch_sizes))
        return h, input.new_zeros(self.get_expected_cell_size(input, batch_sizes))

    def _each(self, function: Callable[[Tensor], Tensor], hx: Any) -> Any:
        if not isinstance(hx, (tuple, list)) or len(hx) != 2:
            raise ArgumentError("LSTM: the state is a pair (h, c) of hidden states and cells.")
        return function(hx[0]), function(hx[1])

    def _split(self, results: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
        output, h, c = results
        return output, (h, c)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise unless input, hidden states and cells fit the network and each other."""
        self.check_input(input, batch_sizes)
        h, c = hidden
        self.check_hidden_size(
            h, self.get_expected_hidden_size(input, batch_sizes), "h must be {}, got {}"
        )
        self.check_hidden_size(
            c, self.get_expected_cell_size(input, batch_sizes), "c must be {}, got {}"
        )


# --- cells ---------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """The parameters of one step of a recurrent network; `num_chunks` is the number of gates.

    >>> import adjoint as ad
    >>> ad.nn.RNNCellBase(3, 4, True, 1).weight_ih.shape
    (4, 3)
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates, options = num_chunks * hidden_size, dict(device=device, dtype=dtype)
        self.weight_ih = new_parameter(gates, input_size, **options)
        self.weight_hh = new_parameter(gates, hidden_size, **options)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter(gates, **options) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly within 1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}" + other_than(self, bias=True)
        return shown + (
            other_than(self, nonlinearity="tanh") if "nonlinearity" in vars(self) else ""
        )

    def _check(self, what: str, value: Tensor) -> None:
        if value.ndim not in (1, 2):
            raise ShapeError(
                f"{self._get_name()}: {what} must be (sequences, features) or (features,), got "
                f"{show(value.shape)}."
            )

    def _step(self, operator: Any, input: Tensor, state: Any) -> Any:
        return operator(input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class _OneStateCell(RNNCellBase):
    """A cell whose state is one tensor."""

    operator: str  # "gru_cell"

    def _operator(self) -> Any:
        return getattr(ops, self.operator)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        self._check("the input", input)
        if hx is None:
            hx = input.new_zeros((*input.shape[:-1], self.hidden_size))
        self._check("the hidden state", hx)
        if input.ndim == 2:
            return self._step(self._operator(), input, hx)
        return self._step(self._operator(), input.unsqueeze(0), hx.unsqueeze(0)).squeeze(0)


class RNNCell(_OneStateCell):
    """One step h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu: `nonlinearity`.

    >>> import adjoint as ad
    >>> ad.nn.RNNCell(3, 4)(ad.ones(2, 3), ad.zeros(2, 4)).shape
    (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _operator(self) -> Any:
        return ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell


class LSTMCell(RNNCellBase):
    """One step of an LSTM: from an input and a pair (h, c) to the next pair.

    >>> import adjoint as ad
    >>> h, c = ad.nn.LSTMCell(3, 4)(ad.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        self._check("the input", input)
        if hx is None:
            zeros = input.new_zeros((*input.shape[:-1], self.hidden_size))
            hx = (zeros, zeros)
        for name, value in zip(("h", "c"), hx, strict=True):
            self._check(name, value)
        if input.ndim == 2:
            return self._step(ops.lstm_cell, input, hx)
        h, c = self._step(ops.lstm_cell, input.unsqueeze(0), [x.unsqueeze(0) for x in hx])
        return h.squeeze(0), c.squeeze(0)
