"""Embeddings in terms of indexing: `rows` one by one, and `bags` of them."""
