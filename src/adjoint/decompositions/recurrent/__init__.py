"""Recurrent layers in terms of smaller operators.

`layers` go over time, `cells` are single steps, `stacks` are several layers, `packed` is about
sequences of different lengths, `vendors` about the names of libraries.
"""

from adjoint.decompositions.recurrent.cells import (
    differentiable_gru_cell_backward,
    differentiable_lstm_cell_backward,
    fused_gru_cell,
    fused_gru_cell_backward,
    fused_lstm_cell,
    fused_lstm_cell_backward,
    fused_lstm_cell_backward_impl,
    gru_cell,
    lstm_cell,
    rnn_relu_cell,
    rnn_tanh_cell,
)
from adjoint.decompositions.recurrent.layers import (
    gru_layer,
    gru_layer_backward,
    lstm_layer,
    lstm_layer_backward,
    rnn_layer,
    rnn_layer_backward,
)
from adjoint.decompositions.recurrent.packed import (
    pack_padded_sequence,
    pack_padded_sequence_backward,
    pad_packed_sequence,
)
from adjoint.decompositions.recurrent.stacks import (
    gru_data,
    gru_input,
    lstm_data,
    lstm_input,
    rnn_relu_data,
    rnn_relu_input,
    rnn_tanh_data,
    rnn_tanh_input,
)
from adjoint.decompositions.recurrent.vendors import (
    cudnn_rnn,
    cudnn_rnn_backward,
    flatten_weight,
    lstm_mps,
    lstm_mps_backward,
    mkldnn_rnn_layer,
    mkldnn_rnn_layer_backward,
)
