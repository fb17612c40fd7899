"""`Function`: an operator of the user's own, with its derivatives in Python.

Write `forward` and `backward`, `jvp`, or both. If one of the two derivatives is missing it is
derived from the other by transposition, so a function is differentiable in both modes as soon as it
is in one.

| file | holds | | --- | --- | | `context.py` | `ctx`, the node of a function and the tensors that
it saved | | `base.py` | the class that users derive from | | `eager.py` | a call on plain and dual
tensors | | `results.py` | the history of the tensors that `forward` returns |
| `tangents.py` | forward mode |
| `on_levels.py` | a call inside `grad` and `jvp` |
| `batching.py` | a call inside `vmap` |
| `once.py` | `once_differentiable` |
"""

from adjoint.calls.function.base import Function, InplaceFunction
from adjoint.calls.function.context import FunctionContext, FunctionNode
from adjoint.calls.function.once import once_differentiable

BackwardCFunction, FunctionCtx = FunctionNode, FunctionContext  # PyTorch's names

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionContext",
    "FunctionCtx",
    "FunctionNode",
    "InplaceFunction",
    "once_differentiable",
]
