"""Linear algebra in terms of few operators."""
