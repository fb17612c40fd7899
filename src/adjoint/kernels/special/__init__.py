"""Kernels of special functions and of their derivatives of every order."""
