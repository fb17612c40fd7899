"""Kernels of pooling: maxima and averages of windows of the last dimensions."""
