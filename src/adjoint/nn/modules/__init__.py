"""`ad.nn.modules`: the base of all modules, containers, and the layers, a file for each family.

A file says in `__all__` what it exports; a new file is one line in each list here, and its names
are in `ad.nn` then.
"""

from __future__ import annotations

from adjoint.nn.modules import containers, lazy, module
from adjoint.nn.modules.containers import *  # noqa: F403
from adjoint.nn.modules.lazy import *  # noqa: F403
from adjoint.nn.modules.module import Module

__all__ = ["Module"]
__all__ += containers.__all__
__all__ += lazy.__all__
