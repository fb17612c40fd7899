"""Native code: which C compiler there is, objects on disk, and kernels that are written in C."""
