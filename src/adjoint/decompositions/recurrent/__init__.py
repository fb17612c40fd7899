"""Recurrent layers in terms of smaller operators.

`layers` go over time, `cells` are single steps, `stacks` are several layers, `packed` is about
sequences of different lengths, `vendors` about the names of libraries.
"""
