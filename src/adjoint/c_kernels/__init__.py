"""Kernels that are written in C, and how they are found, built and called."""
