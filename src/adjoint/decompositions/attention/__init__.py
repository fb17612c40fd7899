"""Attention in terms of smaller operators.

`scores` holds all scores at once, `products` PyTorch's names of scaled dot product attention,
`sequences` its names for packed sequences, `layers` whole layers.
"""
