"""Element expressions: C text of one element of an operator's result, and kernels made of it."""
