"""Embeddings in terms of indexing: `rows` one by one, and `bags` of them."""

from adjoint.decompositions.embedding.bags import (
    embedding_bag,
    embedding_bag_backward,
    embedding_bag_dense_backward,
    embedding_bag_per_sample_weights_backward,
    embedding_bag_sparse_backward,
)
from adjoint.decompositions.embedding.rows import (
    embedding,
    embedding_backward,
    embedding_dense_backward,
    embedding_renorm,
    embedding_sparse_backward,
)
