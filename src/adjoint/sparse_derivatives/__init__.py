"""Sparse derivatives: where a Jacobian or a Hessian is not zero, and the values there."""
