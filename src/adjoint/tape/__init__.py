"""The tape: what nodes save, and how a backward pass walks over them."""
