"""`import adjoint.autograd.graph`: nodes and hooks; the module is that of a lower layer."""

import sys

from adjoint.tensor import graph

sys.modules[__name__] = graph
