"""Derivatives of linear algebra: systems, factorisations, eigenvalues and singular values."""
