"""Kernels of special functions and of their derivatives of every order.

Each derivative that has no accurate formula in other operators is an operator of its own, with an
argument n for the order, so that the next derivative is the same operator with n + 1.
"""
