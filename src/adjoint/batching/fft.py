"""Fourier transforms under vmap: the dimensions move."""

from __future__ import annotations

from adjoint.batching.common import shifted as shifted
