"""Kernels that read and write parts of arrays: views, gather and scatter, index arrays, masks.

All bounds are checked before anything is read or written, and writes that meet in one place are
made in the order of the source (C order), so that the last one wins, always.
"""
