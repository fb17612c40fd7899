"""Tensors, the tape, backward, forward mode, in-place writes and views."""
