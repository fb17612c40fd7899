"""Resampling in terms of gathers, and its transposes in terms of sums at indices."""
