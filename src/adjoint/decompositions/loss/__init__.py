"""Losses in terms of smaller operators: elementwise, of classes, with margins, and CTC."""

from adjoint.decompositions.loss.classes import (
    cross_entropy_loss,
    linear_cross_entropy,
    linear_cross_entropy_backward,
    nll_loss2d_backward,
    nll_loss2d_forward,
    nll_loss_backward,
    nll_loss_forward,
)
from adjoint.decompositions.loss.ctc import (
    ctc_loss_of_lists,
    ctc_loss_of_tensors,
    ctc_loss_with_gradient,
    reduced_ctc_loss_of_lists,
    reduced_ctc_loss_of_tensors,
)
from adjoint.decompositions.loss.elements import (
    binary_cross_entropy,
    binary_cross_entropy_backward,
    binary_cross_entropy_elements,
    binary_cross_entropy_slope,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    huber_loss,
    huber_loss_backward,
    kl_div,
    l1_loss,
    mse_loss,
    mse_loss_backward,
    poisson_nll_loss,
    smooth_l1_loss,
    smooth_l1_loss_backward,
    soft_margin_loss,
    soft_margin_loss_backward,
)
from adjoint.decompositions.loss.margins import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multi_margin_loss_backward,
    multilabel_margin_loss_backward,
    multilabel_margin_loss_forward,
    multilabel_soft_margin_loss,
    triplet_margin_loss,
)
