"""Kernels written in C, with the code that finds, builds and calls them."""
