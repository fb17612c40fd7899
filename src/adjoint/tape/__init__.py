"""The tape: the values that nodes save, and the backward pass that walks over the nodes."""
