"""The reference: a page for each public module, made of signatures and docstrings.

An object is described once, on the page that comes first; other names of it lead there. Operators
have pages of their own (operators.py), to which their names lead.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import adjoint as ad
from adjoint.ops.signatures import MAY_BE_LEFT_OUT, Annotation
from adjoint.stubs.modules import operator_of
from adjoint.table import TABLE

# Groups of names of `adjoint` itself, in the order of its page; "Other functions" has the rest.
GROUPS = {
    "Derivatives": """grad value_and_grad vjp jvp jacobian jacrev jacfwd hessian hvp gvp linearize
        vmap checkpoint stop_gradient custom_rule custom_vjp custom_jvp custom_gradient""",
    "Graphs and compilation": """trace differentiate decompose simplify compile ShapeDtype
        eval_shape make_graph closure_convert linear_transpose library""",
    "Control flow": """cond switch scan while_loop fori_loop map associative_scan custom_root
        custom_linear_solve pure_callback""",
    "Tensors": """Tensor tensor as_tensor asarray from_numpy from_dlpack to_dlpack frombuffer
        from_file is_tensor numel allclose equal result_type promote_types can_cast""",
    "Modes": "no_grad enable_grad set_grad_enabled inference_mode autocast is_grad_enabled",
    "Random numbers": """manual_seed seed initial_seed Generator fork_rng get_rng_state
        set_rng_state""",
}
# The pages of modules, in groups, as the index lists them.
MODULES = {
    "Transforms": "func autograd autograd.functional autograd.forward_ad autograd.graph tree",
    "Networks": """nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.parametrize
        nn.utils.parametrizations nn.utils.prune optim optim.lr_scheduler optim.swa_utils amp
        utils.data utils.checkpoint serialization utils.safetensors""",
    "Probability": "distributions distributions.constraints distributions.transforms random",
    "Mathematics": "linalg fft special signal.windows sparse nested masked",
    "Other libraries' names": """numpy numpy.linalg numpy.fft numpy.random numpy.special array_api
        array_api.linalg array_api.fft scipy.linalg
        scipy.stats lax tree_util""",
    "Programs": "graph export debug testing errors types overrides multiprocessing",
}
# Modules of the package without a page: what PyTorch's programs ask of devices that are not here,
# and what stands on other pages.
WITHOUT = """accelerator backends compiler cpu cuda decompositions distributed mps mtia onnx
    return_types version xpu utils signal scipy"""
SECTIONS = "nn nn.functional distributions"  # pages with a section for each file


class Reference:
    """The pages, while they are written; knows what was described, and where."""

    def __init__(self, operators: Iterable[str]) -> None:
        self.operators = set(operators)  # those that have a page
        # objects by their id, and where: (ad.nn.Linear, "adjoint.nn.Linear")
        self.described: dict[int, tuple[Any, str]] = {}

    def pages(self) -> Iterator[tuple[str, str]]:
        """(path, text) of every page; objects of `adjoint` itself come first."""
        yield "functions.md", self.functions()
        yield "reference/index.md", index()
        for name in " ".join(MODULES.values()).split():
            yield f"reference/{name}.md", self.module(name)

    def functions(self) -> str:
        """The page of `adjoint` itself."""
        groups = {group: names.split() for group, names in GROUPS.items()}
        known = {name for names in groups.values() for name in names}
        others = [n for n in dir(ad) if n not in known and n not in TABLE and _is_described(ad, n)]
        parts = [
            "# adjoint\n",
            _inside("adjoint"),
            "What is public in `adjoint` itself beside [operators](operators/index.md); there is "
            "a page for each of [its modules](reference/index.md), too.\n",
        ]
        for group, names in (*groups.items(), ("Other functions", others)):
            parts.append(f"## {group}\n")
            parts += [self.entry("adjoint", name, getattr(ad, name)) for name in names]
        return "\n".join(parts)

    def module(self, name: str) -> str:
        """The page of a module."""
        found, full = module(name), f"adjoint.{name}"
        own: dict[str, list[str]] = {}
        elsewhere: list[str] = []
        for public in names_of(found):
            value = getattr(found, public)
            link = self.link(value)
            if link:
                elsewhere.append(f"| `{public}` | {link} | {_sentence(value)} |")
            else:
                section = _section(value) if name in SECTIONS.split() else ""
                own.setdefault(section, []).append(self.entry(full, public, value))
        parts = [
            "---\norphan: true\n---\n",  # the menu of every page would have to hold them all
            f"# {full}\n".replace("_", r"\_"),
            "[Modules](index.md)\n",
            markdown(inspect.getdoc(found) or ""),
            f"\n{_inside(full)}",
        ]
        for section in sorted(own):
            parts += [f"## {section}\n"] if section else []
            parts += own[section]
        if elsewhere:
            parts += ["## Described elsewhere\n"] if own else []
            parts += ["| name | is | |", "| --- | --- | --- |", *elsewhere]
        return "\n".join(parts) + "\n"

    def link(self, value: Any) -> str:
        """A link to where an object is described already; nothing if it is not."""
        operator = operator_of(value)
        if operator is not None:
            name = operator.name
            page = name if name in self.operators else name.removesuffix("_")
            there = page in self.operators
            return f"[`ad.{name}`](../operators/{page}.md)" if there else f"`ad.{name}`"
        _, known = self.described.get(id(value), (None, ""))
        return f"{{py:obj}}`{known}`" if known else ""

    def entry(self, module: str, name: str, value: Any) -> str:
        """The description of an object, which the search finds by its name."""
        self.described[id(value)] = (value, f"{module}.{name}")
        if inspect.isclass(value):
            members = "\n".join(self.member(*each) for each in _members(value))
            return _directive("class", name + signature(value), value, members)
        return _directive("function", name + signature(value), value)

    def member(self, name: str, value: Any) -> str:
        """The description of a method or property of a class."""
        if isinstance(value, property):
            return _directive("property", name, value, fence="````")
        return _directive("method", name + signature(value), value, fence="````")


def _inside(module: str) -> str:
    """What says that the entries of a page are of a module; their names are found there first."""
    return f"```{{py:currentmodule}} {module}\n```\n"


def _directive(kind: str, head: str, value: Any, members: str = "", fence: str = "`````") -> str:
    text = markdown(inspect.getdoc(value) or "")
    return f"{fence}{{py:{kind}}} {head}\n{text}\n\n{members}\n{fence}\n"


def index() -> str:
    """The list of all modules."""
    parts = ["# Modules\n", "[`adjoint`](../functions.md) itself, and what it has beside.\n"]
    for group, names in MODULES.items():
        rows = [f"| [`ad.{n}`]({n}.md) | {_sentence(module(n))} |" for n in names.split()]
        parts += [f"## {group}\n", "| module | |", "| --- | --- |", *rows, ""]
    return "\n".join(parts)


def module(name: str) -> ModuleType:
    """A public module by its name: "nn.functional"."""
    found: Any = ad
    for part in name.split("."):
        inside = getattr(found, part, None)
        found = inside or importlib.import_module(f"{found.__name__}.{part}")
    return found


def names_of(found: ModuleType) -> list[str]:
    """The public names of a module that are described: functions and classes."""
    listed = dir(found) if "__dir__" in vars(found) else getattr(found, "__all__", None)
    if listed is None:
        listed = [n for n, v in vars(found).items() if _home(v) == found.__name__]
    return sorted({n for n in listed if _is_described(found, n)})


def _is_described(found: ModuleType, name: str) -> bool:
    value = getattr(found, name)
    described = callable(value) and bool(inspect.getdoc(value))
    return described and not name.startswith("_") and _home(value).startswith("adjoint")


def _home(value: Any) -> str:
    return str(getattr(value, "__module__", None)) if callable(value) else ""


def _section(value: Any) -> str:
    """What the file that defines an object is about, as a title; of a row, the heading above it."""
    code = getattr(value, "__code__", None)
    if code is not None and code.co_filename.endswith(".txt"):
        table = Path(code.co_filename).read_text(encoding="utf-8").splitlines()
        above = reversed(table[: code.co_firstlineno])
        return next(line[5:] for line in above if line.startswith("# -- "))
    said = inspect.getdoc(importlib.import_module(_home(value))) or ""
    return re.split(r"[:.] ?|,? with PyTorch's signature", said.split("\n")[0])[0]


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that a class itself describes; operators have pages of their own."""
    for name, member in vars(value).items():
        found = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        described = inspect.isfunction(found) or isinstance(found, property)
        if described and operator_of(found) is None and not name.startswith("_") and found.__doc__:
            yield name, found


def signature(value: Any) -> str:
    """The signature of a function or class as Python text; nothing where there is none."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bound = [p for p in found.parameters.values() if p.name != "self"]
    bare = [p.replace(annotation=_bare(p.annotation), default=_short(p.default))
            for p in bound]  # fmt: skip
    returns = inspect.Signature.empty if inspect.isclass(value) else _bare(found.return_annotation)
    return str(found.replace(parameters=bare, return_annotation=returns))


def _bare(annotation: Any) -> Any:
    """An annotation that is printed without quotes; `Any` says nothing."""
    if annotation in (inspect.Parameter.empty, Any, "Any"):
        return inspect.Parameter.empty
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return Annotation(text)


def _short(default: Any) -> Any:
    """A default that Python can read, or an ellipsis."""
    readable = default is inspect.Parameter.empty or isinstance(default, str)
    return default if readable or "<" not in repr(default) else MAY_BE_LEFT_OUT


def _sentence(value: Any) -> str:
    """The first sentence of a docstring, in one line of a table."""
    first = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    text = re.split(r"(?<=\.)\s", re.sub(r"^`(?:ad|adjoint)\.[\w.]+`: ", "", first), maxsplit=1)[0]
    return markdown(text[:1].upper() + text[1:]).replace("|", r"\|")


def markdown(doc: str) -> str:
    """A docstring as Markdown: doctests and indented blocks become blocks of code.

    >>> markdown("Twice x_1 of `a_b`:\\n\\n    2 * x")
    'Twice x\\\\_1 of `a_b`:\\n\\n```pycon\\n2 * x\\n```'
    """
    lines: list[str] = []
    block: list[str] = []
    for line in [*doc.splitlines(), ""]:
        starts = line.startswith((">>>", "    "))
        if starts or (block and line.strip()):
            block.append(line)
            continue
        if block:
            lines += ["```pycon", textwrap.dedent("\n".join(block)), "```"]
            block = []
        lines.append(_escaped(line))
    return "\n".join(lines).strip()


def _escaped(line: str) -> str:
    """A line whose signs outside of `code` mean nothing to Markdown; tables stay tables."""
    if line.startswith("|"):
        return line
    pieces = re.split(r"(`[^`]*`)", line)
    return "".join(
        piece if number % 2 else re.sub(r"([*_<$\[\]])", r"\\\1", piece)
        for number, piece in enumerate(pieces)
    )
