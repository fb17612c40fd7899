"""Index structure without values: patterns of sparse tensors, sizes of nested ones."""
