"""`ad.func`: the transforms under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from adjoint import ops
from adjoint.absent import absent
from adjoint.core.errors import ArgumentError
from adjoint.transforms import arguments
from adjoint.transforms.jacobians import hessian, jacfwd, jacrev, jvp, linearize
from adjoint.transforms.reverse import grad as grad
from adjoint.transforms.reverse import value_and_grad, vjp
from adjoint.transforms.vectorize import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]


def grad_and_value(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As `value_and_grad`, the gradient first."""
    both = value_and_grad(f, argnums, has_aux)

    def compute(*args: Any, **keywords: Any) -> Any:
        value, gradient = both(*args, **keywords)
        return gradient, value

    return arguments.keeps_signature(f, compute, "grad_and_value")


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with other values for its named parameters, and put the old ones back.

    A parameter is named by its path of attributes, items of lists and keys of dicts:
    'layers.0.weight'. The module is an `nn.Module`, or anything callable that holds tensors. With
    `tie_weights` a tensor that a Module has under several names is replaced under all of them;
    `strict`: every parameter and buffer of a Module must be given.

    >>> import adjoint as ad
    >>> class Scale:
    ...     def __init__(self): self.factor = ad.tensor(2.0)
    ...     def __call__(self, x): return self.factor * x
    >>> scale = Scale()
    >>> f = lambda parameters: ad.func.functional_call(scale, parameters, ad.tensor(3.0))
    >>> ad.grad(f)({"factor": ad.tensor(5.0)})
    {'factor': tensor(3.)}
    """
    args = args if isinstance(args, tuple) else (args,)
    several = isinstance(parameter_and_buffer_dicts, (tuple, list))
    dicts = parameter_and_buffer_dicts if several else (parameter_and_buffer_dicts,)
    given = {path: value for parameters in dicts for path, value in parameters.items()}
    if sum(map(len, dicts)) > len(given):
        raise _Ambiguous("functional_call: a parameter is given in two dicts")
    if hasattr(module, "named_parameters"):
        given = _completed(module, given, tie_weights, strict)
    before: list[tuple[Any, Any, Any]] = []
    try:
        for path, value in given.items():
            owner, key = _find(module, path)
            before.append((owner, key, _get(owner, key)))
            _set(owner, key, value)
        return module(*args, **(kwargs or {}))
    finally:
        _write_back(module, dicts)
        for owner, key, value in reversed(before):
            _set(owner, key, value)


class _Ambiguous(ArgumentError, ValueError):
    """Two values for one parameter."""


class _Incomplete(ArgumentError, RuntimeError):
    """A parameter without a value, where all must have one."""


def _completed(module: Any, given: dict[str, Any], tied: bool, strict: bool) -> dict[str, Any]:
    """The values for all names of a Module that share a tensor with one that is given."""
    names: dict[Any, list[str]] = {}
    for members in (module.named_parameters, module.named_buffers):
        for path, tensor in members(remove_duplicate=False):
            names.setdefault(tensor, []).append(path)
    if strict:
        known = given.keys() if not tied else _tied_names(names, given)
        missing = [path for paths in names.values() for path in paths if path not in known]
        if missing:
            raise _Incomplete(f"functional_call: no value for {', '.join(missing)}")
    if not tied:
        return given
    found = dict(given)
    for paths in names.values():
        values = [given[path] for path in paths if path in given]
        if values and any(value is not values[0] for value in values):
            raise _Ambiguous(
                f"functional_call: {' and '.join(paths)} are one tensor and have different values; "
                "tie_weights=False allows it"
            )
        found.update(dict.fromkeys(paths, values[0]) if values else {})
    return found


def _tied_names(names: dict[Any, list[str]], given: dict[str, Any]) -> set[str]:
    return {p for paths in names.values() if any(q in given for q in paths) for p in paths}


def _write_back(module: Any, dicts: Any) -> None:
    """Let the dicts have what a call assigned to a name: `self.steps = self.steps + 1`."""
    for parameters in dicts:
        for path, value in parameters.items():
            owner, key = _find(module, path)
            now = _get(owner, key)
            if now is not value:
                parameters[path] = now


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of modules of one class, stacked by name.

    `vmap` of `functional_call` over them runs all modules at once.

    >>> import adjoint as ad
    >>> models = [ad.nn.ParameterDict({"scale": ad.ones(2)}) for _ in range(3)]
    >>> parameters, buffers = ad.func.stack_module_state(models)
    >>> parameters["scale"].shape, buffers
    ((3, 2), {})
    """
    listed = list(models)
    if not listed:
        raise _Incomplete("stack_module_state: no modules were given")
    if any(type(m) is not type(listed[0]) or m.training != listed[0].training for m in listed):
        raise _Incomplete(
            "stack_module_state: the modules must be of one class, and all in training or none"
        )
    parameters = [dict(m.named_parameters()) for m in listed]
    buffers = [dict(m.named_buffers()) for m in listed]
    return _stacked(parameters), _stacked(buffers)


def _stacked(members: list[dict[str, Any]]) -> dict[str, Any]:
    """The tensors of each name in one, a leaf that requires a gradient if they all do."""
    found: dict[str, Any] = {}
    for name in members[0]:
        tensors = [each[name] for each in members]
        wants = {t.requires_grad for t in tensors}
        if len(wants) > 1:
            raise _Incomplete(
                f"stack_module_state: {name} requires a gradient in some modules and not in others"
            )
        found[name] = ops.stack([t.detach() for t in tensors]).requires_grad_(wants.pop())
    return found


def _find(module: Any, path: str) -> tuple[Any, Any]:
    *steps, last = path.split(".")
    owner = module
    try:
        for step in steps:
            owner = _get(owner, _key(owner, step))
        owner = next((d for d in _members(owner) if last in d), owner)
        key = _key(owner, last)
        _get(owner, key)
    except (AttributeError, LookupError, ValueError):
        raise ArgumentError(f"functional_call: the module has no parameter {path!r}") from None
    return owner, key


def _members(owner: Any) -> list[dict[str, Any]]:
    """The dicts in which a Module holds what its attributes seem to be."""
    own = getattr(owner, "__dict__", {})
    return [own[kind] for kind in ("_parameters", "_buffers") if kind in own]


def _key(owner: Any, step: str) -> Any:
    return int(step) if isinstance(owner, (list, tuple)) else step


def _get(owner: Any, key: Any) -> Any:
    return owner[key] if isinstance(owner, (list, tuple, dict)) else getattr(owner, key)


def _set(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, tuple):
        raise ArgumentError(
            f"functional_call: item {key} of a tuple cannot be replaced; hold parameters in a list"
        )
    if isinstance(owner, (list, dict)):
        owner[key] = value
    else:
        setattr(owner, key, value)


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
