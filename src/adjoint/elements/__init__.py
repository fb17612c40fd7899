"""C text of one element of an operator's result, and kernels of large arrays made of it."""
