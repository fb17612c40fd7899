"""Compiled forwards of modules: `ad.compile(module)` and `module.compile()`.

A compiled function takes tensors from outside for constants. So the parameters and buffers of a
module become arguments of what is compiled, and the buffers that forward changes become results,
which are copied back.
"""

from __future__ import annotations

from typing import Any

from adjoint import func
from adjoint.compiler.compiled import Compiled
from adjoint.compiler.compiled import compile as compile_function
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tape import version


class CompiledForward:
    """The forward of a module as native code, one program for each choice of training modes."""

    is_compiled = True

    def __init__(self, module: Any, *, verbose: bool) -> None:
        self.module = module
        self.verbose = verbose
        self.programs: dict[tuple[bool, ...], Compiled] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        modes = tuple(module.training for module in self.module.modules())
        program = self.programs.get(modes)
        if program is None:
            program = self.programs[modes] = compile_function(self._pure, verbose=self.verbose)
        parameters = dict(self.named_parameters(remove_duplicate=False))
        buffers = dict(self.named_buffers(remove_duplicate=False))
        result, changed = program(parameters, buffers, args, kwargs)
        with no_grad():
            for name, value in changed.items():
                buffers[name].copy_(value)
        return result

    def named_parameters(self, **options: Any) -> Any:
        """The parameters by their paths from here."""
        return self.module.named_parameters(prefix="module", **options)

    def named_buffers(self, **options: Any) -> Any:
        """The buffers by their paths from here."""
        return self.module.named_buffers(prefix="module", **options)

    def _pure(self, parameters: Any, buffers: Any, args: Any, kwargs: Any) -> Any:
        """The result of forward, and the buffers that it changed."""
        own = {name: buffer.clone() for name, buffer in buffers.items()}
        before = dict(own)
        eager = _Eager(self.module)
        result = func.functional_call(eager, (parameters, own), args, kwargs)
        changed = {
            name: buffer
            for name, buffer in own.items()
            if buffer is not before[name] or version(buffer)
        }
        return result, changed


class _Eager:
    """A module whose call is the forward of its class."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self.module).forward(self.module, *args, **kwargs)
