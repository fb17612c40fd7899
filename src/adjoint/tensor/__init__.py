"""Tensors: the object, its nodes and views, construction, indexing, printing."""
