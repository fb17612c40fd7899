"""Transforms of functions: grad, vjp, jvp, vmap and their relatives. They nest in any order."""
