"""The page of functions that are no operators: transforms, modes, settings, graphs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import adjoint as ad
from adjoint.table import TABLE

# Groups of public names, in the order of the page; the rest follows under "Other functions".
GROUPS = {
    "Derivatives": """grad value_and_grad vjp jvp jacobian jacrev jacfwd hessian hvp gvp linearize
        vmap checkpoint stop_gradient custom_rule custom_vjp custom_jvp""",
    "Graphs and compilation": """trace differentiate decompose simplify compile cond scan while_loop
        fori_loop ShapeDtype library""",
    "Tensors": """Tensor tensor as_tensor asarray from_numpy from_dlpack to_dlpack frombuffer
        from_file is_tensor numel allclose equal result_type promote_types can_cast""",
    "Modes": "no_grad enable_grad set_grad_enabled inference_mode autocast is_grad_enabled",
    "Random numbers": """manual_seed seed initial_seed Generator fork_rng get_rng_state
        set_rng_state""",
}


def page() -> str:
    """The page."""
    groups = {group: names.split() for group, names in GROUPS.items()}
    known = {name for names in groups.values() for name in names}
    others = [name for name in sorted(dir(ad)) if name not in known and _is_function(name)]
    parts = [
        "# Functions\n",
        "What is public in `adjoint` beside [operators](operators/index.md).\n",
    ]
    for group, names in (*groups.items(), ("Other functions", others)):
        parts.append(f"## {group}\n")
        parts += [entry for name in names if hasattr(ad, name) for entry in _entry(name)]
    return "\n".join(parts)


def _is_function(name: str) -> bool:
    if name.startswith("_") or name in TABLE or name in ("Any", "bool"):
        return False
    found = getattr(ad, name)
    return (inspect.isfunction(found) or inspect.isclass(found)) and bool(inspect.getdoc(found))


def _entry(name: str) -> Iterator[str]:
    found = getattr(ad, name)
    kind = "class" if inspect.isclass(found) else "function"
    doc = inspect.getdoc(found) or ""
    yield f"````{{py:{kind}}} adjoint.{name}{_signature(found)}\n{_markdown(doc)}\n````\n"


def _signature(found: object) -> str:
    try:
        text = str(inspect.signature(found)) if callable(found) else ""  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    return re.sub(r"<[^>]*>", "...", text.replace("'", ""))


def _markdown(doc: str) -> str:
    """A docstring as Markdown: doctests and indented blocks become blocks of code."""
    lines: list[str] = []
    block: list[str] = []
    for line in [*doc.splitlines(), ""]:
        starts = line.startswith((">>>", "    "))
        if starts or (block and line.strip()):
            block.append(line)
            continue
        if block:
            lines += ["```pycon", *block, "```"]
            block = []
        lines.append(re.sub(r"(?<!`)([*_<])(?!`)", r"\\\1", line) if "`" not in line else line)
    return "\n".join(lines).strip()
