"""Derivative functions too long for a row, written with our operators only, by family."""
