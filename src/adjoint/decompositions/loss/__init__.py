"""Losses in terms of smaller operators: elementwise, of classes, with margins, and CTC."""
