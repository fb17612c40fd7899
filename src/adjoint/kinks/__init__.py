"""Numbers that stand near a kink or a cluster, which kernels and tensors share."""
