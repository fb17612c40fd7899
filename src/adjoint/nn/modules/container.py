"""`import adjoint.nn.modules.container`: containers by the name of PyTorch's file."""

import sys

from adjoint.nn.modules import containers

sys.modules[__name__] = containers
