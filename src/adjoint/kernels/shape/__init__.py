"""Kernels of the shape family: views of memory, and operators that move values without computing.

`views` holds the kernels whose result shares memory with the input, `copies` those that make a new
array, `casts` changes of dtype and complex numbers.
"""
