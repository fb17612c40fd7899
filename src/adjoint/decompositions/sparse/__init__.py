"""Operators on sparse tensors: what they do to the pattern and to the values."""
