"""Transforms of functions: grad, vjp, jvp, vmap and what is made of them. They nest in any
order.
"""
