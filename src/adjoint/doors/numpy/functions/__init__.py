"""Functions of NumPy that take more than an expression, by section of the table of names."""
