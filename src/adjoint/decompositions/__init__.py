"""Operators in terms of smaller operators, down to primitive rows, by family."""
