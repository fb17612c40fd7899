"""Homes of tensors that are not plain: transforms, limits, meta, sparse, subclasses, arrays."""
