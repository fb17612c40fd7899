"""Infinities and NaN are results here, not accidents: NumPy does not warn of them.

Note [Floating-point warnings]. NumPy's warning goes to Python with the module of the code that
called the function, and Python drops a warning that comes from no module at all. So the code that
computes with arrays has no module name: generated functions, formulas, and the modules of
`kernels/`. That costs nothing, and does not depend on the filters, which belong to the user. Where
`np.errstate(all="raise")` turns the warning into an error, the kernel is run again with the error
state off (`dispatch.recover`); an error state around every kernel would cost as much as a small
kernel. A Python whose warnings do not work like this one's has the filter of `_wiring`.
"""

from __future__ import annotations

import sys
from typing import Any

NO_MODULE: Any = None  # `__name__` of code whose warnings are dropped


def hush_modules(package: str) -> None:
    """Take the name from all imported modules of a package, but not from packages.

    The import system needs the names of packages, and a module that another thread imports just now
    gives its name to the functions that it defines.
    """
    for name, module in list(sys.modules.items()):
        if not name.startswith(f"{package}.") or hasattr(module, "__path__"):
            continue
        if not getattr(module.__spec__, "_initializing", False):
            vars(module)["__name__"] = NO_MODULE
