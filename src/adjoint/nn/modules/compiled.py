"""Compiled forwards of modules: `ad.compile(module)` and `module.compile()`.

A compiled function takes tensors from outside for constants. So the parameters and buffers of a
module become arguments of what is compiled, and the buffers that forward changes become results,
which are copied back. Other attributes, which Python looks at while it traces, are part of the
signature: training modes, numbers, functions, hooks.
"""

from __future__ import annotations

import functools
from typing import Any

from adjoint import func
from adjoint.compiler.attributes import key_of
from adjoint.compiler.compiled import Compiled, compiled_on_tensors
from adjoint.core.source_lines import warn
from adjoint.nn.modules.hooks import Hooks
from adjoint.tensor.modes import no_grad
from adjoint.tensor.nodes import version

# members that are arguments, that say nothing, or that are looked at otherwise
_APART = {
    "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_state_hooks", "forward",
}  # fmt: skip
_MANY = 8  # programs for other attributes


class CompiledForward:
    """The forward of a module as native code, one program for each choice of its attributes."""

    is_compiled = True
    compiled_reads = ("module",)  # by a program

    def __init__(self, module: Any, *, verbose: bool) -> None:
        self.module = module
        self.verbose = verbose
        self.programs: dict[tuple[Any, ...], Compiled] = {}
        # attributes that forward itself changes, a count of calls say: {(0, "steps")}
        self.own: set[tuple[int, str]] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        seen = self._seen()
        program = self.programs.get(seen)
        if program is not None:
            return self._run(program, args, kwargs)
        program = compiled_on_tensors(self._pure, self.verbose)
        before = self._attributes()
        result = self._run(program, args, kwargs)
        after = self._attributes()
        own = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)} - self.own
        if own:
            self.own |= own
            self.programs.clear()
        self.programs[self._seen()] = program
        if len(self.programs) == _MANY:
            warn(
                f"compile: the forward of {type(self.module).__name__} was compiled {_MANY} times "
                "for other attributes of its modules; let those that change often be buffers"
            )
        return result

    def _run(self, program: Compiled, args: Any, kwargs: Any) -> Any:
        parameters = dict(self.named_parameters(remove_duplicate=False))
        buffers = dict(self.named_buffers(remove_duplicate=False))
        result, changed = program(parameters, buffers, args, kwargs)
        with no_grad():
            for name, value in changed.items():
                buffers[name].copy_(value)
        return result

    def _seen(self) -> tuple[Any, ...]:
        """What a program is for: all attributes of all modules that forward leaves alone."""
        found: list[Any] = []
        own = self.own
        for number, module in enumerate(self.module.modules()):
            found.append(type(module))
            for name, value in vars(module).items():
                if name in _APART or (own and (number, name) in own):
                    continue
                found += (name, _key(value))
        return tuple(found)

    def _attributes(self) -> dict[tuple[int, str], Any]:
        """All attributes of all modules, by the module's number and their name."""
        return {
            (number, name): _key(value)
            for number, module in enumerate(self.module.modules())
            for name, value in vars(module).items()
            if name not in _APART
        }

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


def _key(value: Any) -> Any:
    """What tells attributes apart."""
    return (Hooks, *value.before, *value.after) if type(value) is Hooks else key_of(value)


def twin(module: Any, *, verbose: bool) -> Any:
    """A module that has the members of another one, now and later, and whose forward is compiled.
    Copies and files of it are those of the other one.
    """
    kind, run = type(module), CompiledForward(module, verbose=verbose)

    @functools.wraps(kind.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    members = {
        "forward": forward,
        "__reduce_ex__": lambda self, protocol: module.__reduce_ex__(protocol),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    made = object.__new__(type(kind.__name__, (kind,), members))
    object.__setattr__(made, "__dict__", module.__dict__)
    return made


class _Eager:
    """A module whose call is the forward of its class."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self.module).forward(self.module, *args, **kwargs)
