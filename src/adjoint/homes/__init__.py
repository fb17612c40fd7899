"""Where tensors live that are not plain: transforms, limits, meta, sparse, subclasses, arrays."""
