"""Modules as functions of their parameters: `functional_call`, `stack_module_state`.

A module is an `nn.Module`, which holds its parameters and buffers in two dicts, or any callable
that holds tensors in attributes, lists and dicts. A *place* is the holder of one tensor and the key
there.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError

Place = tuple[Any, Any]
_MEMBERS = ("_parameters", "_buffers")  # the dicts of an nn.Module


class Ambiguous(ArgumentError, ValueError):
    """Two values for one parameter."""


class Incomplete(ArgumentError, RuntimeError):
    """A parameter without a value, or modules that do not fit together."""


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
    `strict`: every parameter and buffer of a Module must be given, and no other name. A name that a
    Module does not have is an attribute of it during the call. What the call assigns to a name
    (`self.steps = self.steps + 1`) is in the dict afterwards.

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
    values = _merged(dicts)
    known = _places(module)
    if known and tie_weights:
        values = _tied(known, values)
    if strict:
        missing = [path for path in known if path not in values]
        if missing:
            raise Incomplete(f"functional_call: no value for {', '.join(missing)}")
        if other := [path for path in values if path not in known]:
            raise Incomplete(f"functional_call: the module has no {', '.join(other)}")
    places = {path: known.get(path) or _find(module, path) for path in values}
    before = [(owner, key, _held(owner, key)) for owner, key in places.values()]
    try:
        for path, (owner, key) in places.items():
            _set(owner, key, values[path])
        result = module(*args, **(kwargs or {}))
        _write_back(dicts, places)
        return result
    finally:
        for owner, key, value in before:
            if value is _ABSENT:
                vars(owner).pop(key, None)
            else:
                _set(owner, key, value)


_ABSENT = object()  # the value of an attribute that does not exist


def _held(owner: Any, key: Any) -> Any:
    """The tensor at a place; _ABSENT for an attribute that exists during the call only."""
    if isinstance(owner, (list, tuple, dict)) or not _is_module(owner):
        return _get(owner, key)
    return getattr(owner, key, _ABSENT)


def _is_module(owner: Any) -> bool:
    return all(kind in getattr(owner, "__dict__", {}) for kind in _MEMBERS)


def _merged(dicts: Any) -> dict[str, Any]:
    """Several dicts with no path in common as one."""
    values = {path: value for parameters in dicts for path, value in parameters.items()}
    if sum(map(len, dicts)) > len(values):
        raise Ambiguous("functional_call: a parameter is given in two dicts")
    return values


def _places(module: Any) -> dict[str, Place]:
    """The places of an nn.Module's parameters and buffers, by all their paths."""
    found: dict[str, Place] = {}
    if not hasattr(module, "named_modules"):
        return found
    for prefix, each in module.named_modules(remove_duplicate=False):
        start = f"{prefix}." if prefix else ""
        for kind in _MEMBERS:
            members = each.__dict__[kind]
            found.update((start + k, (members, k)) for k, v in members.items() if v is not None)
    return found


def _tied(known: dict[str, Place], values: dict[str, Any]) -> dict[str, Any]:
    """The values, repeated for other paths of the same tensors."""
    paths_of: dict[int, list[str]] = {}
    for path, (members, name) in known.items():
        paths_of.setdefault(id(members[name]), []).append(path)
    found = dict(values)
    for paths in paths_of.values():
        given = [values[path] for path in paths if path in values]
        if len(paths) == 1 or not given:
            continue
        if any(value is not given[0] for value in given):
            raise Ambiguous(
                f"functional_call: {' and '.join(paths)} are one tensor and have different values; "
                "tie_weights=False allows it"
            )
        found.update(dict.fromkeys(paths, given[0]))
    return found


def _write_back(dicts: Any, places: dict[str, Place]) -> None:
    """Put the values that a call assigned to paths back into the dicts."""
    for parameters in dicts:
        for path, value in parameters.items():
            now = _get(*places[path])
            if now is not value:
                parameters[path] = now


def _find(module: Any, path: str) -> Place:
    """The place at a path; an error if there is none."""
    *steps, last = path.split(".")
    owner = module
    try:
        for step in steps:
            owner = _get(owner, _key(owner, step))
        own = getattr(owner, "__dict__", {})
        owner = next((own[kind] for kind in _MEMBERS if last in own.get(kind, ())), owner)
        key = _key(owner, last)
        if not _is_module(owner):
            _get(owner, key)
    except (AttributeError, LookupError, ValueError):
        raise ArgumentError(f"functional_call: the module has no parameter {path!r}") from None
    return owner, key


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
    elif _is_module(owner) and not hasattr(owner, key):
        vars(owner)[key] = value  # and no parameter or buffer
    else:
        setattr(owner, key, value)


# --- several modules at once --------------------------------------------------------------------


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
        raise Incomplete("stack_module_state: no modules were given")
    if any(type(m) is not type(listed[0]) or m.training != listed[0].training for m in listed):
        raise Incomplete(
            "stack_module_state: the modules must be of one class, and all in training or none"
        )
    parameters = [dict(m.named_parameters()) for m in listed]
    buffers = [dict(m.named_buffers()) for m in listed]
    return _stacked(parameters), _stacked(buffers)


def _stacked(members: list[dict[str, Any]]) -> dict[str, Any]:
    """The tensors of each name stacked: a leaf, which requires a gradient if all of them do."""
    found: dict[str, Any] = {}
    for name in members[0]:
        tensors = [each[name] for each in members]
        wants = {t.requires_grad for t in tensors}
        if len(wants) > 1:
            raise Incomplete(
                f"stack_module_state: {name} requires a gradient in some modules and not in others"
            )
        found[name] = ops.stack([t.detach() for t in tensors]).requires_grad_(wants.pop())
    return found
