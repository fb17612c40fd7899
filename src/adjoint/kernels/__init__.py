"""Kernels: arrays in, arrays out, one file for each family; they import core alone of ours."""
