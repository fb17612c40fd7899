"""`ad.lax`: control flow and operators under the names of `jax.lax`.

Functions that `ad` has under the same names, and the rows of doors/lax/names.txt.

>>> import adjoint as ad
>>> from adjoint import lax
>>> lax.scan is ad.scan, lax.rsqrt is ad.rsqrt
(True, True)
>>> lax.dynamic_slice(ad.arange(5), (3,), (3,)), lax.cumsum(ad.arange(3), reverse=True)
(tensor([2, 3, 4]), tensor([3, 3, 2]))
"""

from adjoint.doors import door as _door
from adjoint.doors.lax import words as _words
from adjoint.graph.control.associative_scan import associative_scan, map
from adjoint.graph.control.callbacks import pure_callback
from adjoint.graph.control.cond import cond, switch
from adjoint.graph.control.implicit import custom_linear_solve, custom_root
from adjoint.graph.control.scan import scan
from adjoint.graph.control.while_loop import fori_loop, while_loop
from adjoint.transforms.reverse import stop_gradient

__all__ = [
    "associative_scan",
    "cond",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "map",
    "pure_callback",
    "scan",
    "stop_gradient",
    "switch",
    "while_loop",
]

__getattr__, __dir__ = _door(globals(), _words.TABLE, "", vars(_words))
