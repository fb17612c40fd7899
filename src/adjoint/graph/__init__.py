"""Graphs of operators: traced from functions, printed as Python, differentiated, simplified."""

from adjoint.graph import interpret as _interpret
from adjoint.graph import ir as _ir
from adjoint.graph import printing as _printing
from adjoint.graph import show as _show
from adjoint.graph import statistics as _statistics
from adjoint.graph.control.cond import cond
from adjoint.graph.control.regions import region
from adjoint.graph.control.scan import scan
from adjoint.graph.control.while_loop import fori_loop, while_loop
from adjoint.graph.differentiate import Gradient, differentiate, jvp, transpose
from adjoint.graph.ir import Graph, GraphError, Node, Type, Value
from adjoint.graph.parsing import parse
from adjoint.graph.passes import run as simplify
from adjoint.graph.trace import ShapeDtype, TraceError, trace
from adjoint.graph.verify import verify

__all__ = [
    "Gradient",
    "Graph",
    "GraphError",
    "Node",
    "ShapeDtype",
    "TraceError",
    "Type",
    "Value",
    "parse",
    "region",
    "simplify",
    "trace",
    "verify",
]

# ir.py knows nothing of the modules that work on graphs; here a graph gets their methods.
_ir.Graph.__call__ = _interpret.run  # type: ignore[method-assign]
_ir.Graph.__str__ = _ir.Graph.python = _printing.python  # type: ignore[method-assign, attr-defined]
_ir.Graph.__repr__ = _printing.summary  # type: ignore[method-assign]
_ir.Graph.ssa = _printing.ssa  # type: ignore[attr-defined]
_ir.Graph.constants = property(_printing.constants)  # type: ignore[attr-defined]
_ir.Graph.statistics = _statistics.statistics  # type: ignore[attr-defined]
_ir.Graph.show, _ir.Graph._repr_svg_ = _show.show, _show.svg  # type: ignore[attr-defined]
_ir.Graph._repr_html_ = _show.page  # type: ignore[attr-defined]
Gradient.show, Gradient._repr_svg_ = _show.show_pair, _show.svg_of_pair  # type: ignore[attr-defined]
