"""The door to SciPy's distributions: a table of formulas, and SciPy's own code on tensors."""
