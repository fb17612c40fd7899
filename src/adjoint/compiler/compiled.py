"""`ad.compile`: a function as native code, one program for each signature of its arguments."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels.copies import contiguous
from adjoint.calls.function import Function
from adjoint.calls.methods import as_tensor, tensor_of
from adjoint.compiler import entry, notebook
from adjoint.compiler.attributes import Same, attributes_of, has_attributes
from adjoint.compiler.entry import DECLINED
from adjoint.compiler.fast_call import EITHER
from adjoint.compiler.outside_tensors import OutsideValues
from adjoint.compiler.program import compiled as compiled_graph
from adjoint.compiler.reads import Reads, look
from adjoint.compiler.stages import Cost, Stages, closure_that_wants_a_gradient
from adjoint.compiler.statics import Statics, unwrapped
from adjoint.compiler.symbolic import learning
from adjoint.core import pytrees
from adjoint.core.collecting import uncollected
from adjoint.core.dtypes import DEFAULT
from adjoint.core.errors import ArgumentError, DegenerateError, GradError, InplaceError
from adjoint.core.remembering import Bounded
from adjoint.core.source_lines import warn
from adjoint.core.state import changed, current, dtype_blocks, inference_modes, seeing
from adjoint.graph import interpret, mutated_arguments
from adjoint.graph.argument_tensors import ArrayTensor, NumberTensor, array_tensor, number_tensor
from adjoint.graph.differentiate import Gradient, differentiate
from adjoint.graph.facts import may_give_up
from adjoint.graph.ir import Graph
from adjoint.graph.mutated_arguments import Written
from adjoint.graph.trace import ShapeDtype, paths_of, trace
from adjoint.homes.arrays import ndarray
from adjoint.homes.held_numbers import number_of
from adjoint.homes.pullback import pullback
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.nodes import mark_inference
from adjoint.tensor.tensor import Tensor, make
from adjoint.toolchain import build
from adjoint.transforms.annotations import P, R
from adjoint.transforms.dressing import argument_of, plain, plain_tree, result_arrays
from adjoint.transforms.transformed import Wrapper, describe, keeps_signature


class Compiled(Wrapper[P, R]):
    """A function that runs as native code; made by `ad.compile`."""

    def __init__(
        self,
        function: Callable[P, R],
        verbose: bool,
        dynamic: Any = None,
        static: Statics | None = None,
        *,
        sees_arrays: bool = True,
    ) -> None:
        self.function: Callable[..., Any] = function
        self.static = static
        self.sees_arrays = sees_arrays  # whether the function sees arrays, or tensors
        self.verbose = verbose
        self.dynamic = dynamic
        # one record, so that threads see it whole: the function that calls the program of the last
        # signature, its number of arguments, and the default dtype that it holds for
        self.entry: tuple[Any, int, Any] = (None, -1, None)
        self.latest: Stages | None = None
        # the programs for the outside values of now, and those for earlier ones by their key
        self.world = _World(function, dynamic, None)
        self.worlds: Bounded[Any, _World] = Bounded(_WORLDS)
        self.renewals = 0  # how often programs were made because outside values changed
        self.restless = 0  # how often the function itself changed values that it reads
        # attributes of arguments that the function itself changes, such as a count of calls
        self.own: set[tuple[type, str]] = set()
        keeps_signature(function, self, "compile")

    def remake(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and the options; another process compiles, or finds the program on disk."""
        options = (self.verbose, self.dynamic, self.static)
        if self.sees_arrays:
            return Compiled, (self.function, *options)
        return compiled_on_tensors, (self.function, *options)

    @property
    def programs(self) -> dict[Any, Any]:
        """signature -> (program, structure of the outputs), for the outside values of now"""
        return self.world.programs

    @property
    def sizes(self) -> Any:
        """The programs with symbolic sizes; None if no dimension is dynamic."""
        return self.world.sizes

    @property
    def pairs(self) -> dict[Any, Any]:
        """(signature, which arguments require a gradient) -> programs with gradients"""
        return self.world.pairs

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        short, count, default = self.entry
        if (
            len(args) == count
            and not keywords
            and not (seeing and current().seen)  # Note [Seen calls]
            and not (inference_modes and current().inference)  # Note [Inference]
            # a program may depend on it without an argument that shows it
            and (DEFAULT.dtype if dtype_blocks else DEFAULT.process) is default
        ):
            result = short(*args)
            if result is not DECLINED:
                return result
        return self._general(args, keywords)

    def __repr__(self) -> str:
        count = len({id(program.code) for program, _ in self.programs.values()}) + len(self.pairs)
        said = {0: "not compiled yet", 1: "1 program"}.get(count, f"{count} programs")
        signatures = len(self.programs) + len(self.pairs)
        sizes = f" for {signatures} signatures" if signatures > count else ""
        return f"<adjoint.{describe(self)}: {said}{sizes}>"

    def _repr_html_(self) -> str:
        return notebook.page(repr(self), self.latest)

    def _general(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        key, tensors, structure = self._signature(args, keywords)
        self._renew(tensors)
        if self.restless >= _MANY:
            return self._eagerly(args, keywords)
        given = [t for t in tensors if isinstance(t, Tensor)]
        if build.compiler() is None or any(t.home is not None for t in given):
            if build.compiler() is None:
                _warn_once()
            return self._eagerly(args, keywords)
        if self.sizes is not None and self.sizes.is_of_nothing(tensors, structure):
            return self._eagerly(args, keywords)  # faster than compiling
        if current().recording and any(t.edge is not None for t in given):
            return self._differentiable(key, tensors, structure, args, keywords)
        program, outputs = self._program(key, tensors, structure)
        writes = mutated_arguments.places_in(outputs)
        memory = self._memory(args, keywords, given) if writes else []
        of_ours = any(type(t) is ArrayTensor and t.is_ours for t in tensors)
        if mutated_arguments.share_memory(memory, writes) or (writes and of_ours):
            return self._eagerly(args, keywords)
        mutated_arguments.check_writable(memory, writes)
        closure = program.stages.closure
        if current().recording:
            _refuse(closure)
        arrays_alone = all(isinstance(t, Tensor) and type(t) is not NumberTensor for t in tensors)
        seen = seeing and current().seen
        simple = closure is None and arrays_alone and not writes
        if not keywords and simple and not seen:
            self._enter(program, structure.children[0], outputs, tensors)
        try:
            results = program.run([contiguous(t.value) for t in given])
        except DegenerateError:  # repeated eigenvalues: the eager derivative handles them
            results = None
        if results is None:  # an index is out of range: the eager operators raise
            return self._eagerly(args, keywords)
        made = [mark_inference(make(o)) if isinstance(o, np.ndarray) else o for o in results]
        result = _returned(pytrees.unflatten(outputs, made), given)
        _write_arrays(memory, given, writes)
        return result_arrays(result) if of_ours else result

    def _eagerly(self, args: Any, keywords: Any) -> Any:
        """Run the function itself, on tensors that share the memory of arrays, as in the trace."""
        if self.static is not None:
            args, keywords = self.static.marked(args, keywords)
        of_ours = any(isinstance(v, ndarray) for v in pytrees.leaves((args, keywords)))
        seen = argument_of if self.sees_arrays else lambda tensor: tensor
        shared = lambda v: seen(as_tensor(v)) if isinstance(v, np.ndarray) else v
        args, keywords = pytrees.map(shared, (args, keywords))
        result = self.call(*args, **keywords)
        return result if of_ours else plain_tree(result)

    def _memory(self, args: Any, keywords: Any, given: list[Any]) -> list[Any]:
        """The arrays of all tensor arguments, as the caller has them."""
        if self.static is not None:
            args, keywords = self.static.marked(args, keywords)
        leaves = [v for v in pytrees.leaves((args, keywords)) if isinstance(_argument(v), Tensor)]
        pairs = zip(leaves, given, strict=True)
        return [leaf if isinstance(leaf, np.ndarray) else t.array for leaf, t in pairs]

    def _program(self, key: Any, tensors: list[Any], structure: Any) -> tuple[Any, Any]:
        found = self.programs.get(key) or self._open_program(key, tensors, structure)
        return found or self._compile(key, tensors, structure)

    def _open_program(self, key: Any, tensors: list[Any], structure: Any) -> Any:
        """A program with symbolic sizes; None if there is none."""
        if self.sizes is None:
            return None
        with uncollected():
            found = self.sizes.program(key, tensors, structure, self._traced_for, self._report)
        if found is not None:
            self.world.keep(key, found)
            self.latest = found[0].stages
        return found

    def _renew(self, tensors: list[Any]) -> None:
        """Choose the programs for the outside values of now, or start a new set of programs.

        All values that the function reads are compared, also those reached from its arguments.
        """
        objects = [t for t in tensors if not isinstance(t, Tensor) and has_attributes(t)]
        about = tuple(map(Same, objects))
        if self.world.is_of_now(about):
            return
        self.entry = (None, -1, None)
        known = [w for w in [*self.worlds.values()] if w.is_of_now(about)]
        if known:
            self.world = known[-1]
            return
        reads = self._look(objects)
        found = self.worlds.get(reads.key)
        if found is None or found.outside is None or found.outside.changed():
            self._count_renewal()
            found = _World(self.function, self.dynamic, OutsideValues(reads, about))
            self.worlds.pop(reads.key, None)
        else:
            found.outside.reads, found.outside.about = reads, about
        self._keep(found)

    def _keep(self, world: _World) -> None:
        """Make a world the current one; keep the latest few."""
        self.world = world
        for key in [k for k, w in [*self.worlds.items()] if w is world]:
            self.worlds.pop(key, None)
        self.worlds[world.outside.reads.key] = world

    def _look(self, objects: Sequence[Any]) -> Reads:
        members = self.sees_arrays  # parameters of a compiled module or step are arguments already
        return look(self.function, objects, members=members)

    def _count_renewal(self) -> None:
        if self.world.outside is None or self.restless:
            return
        self.renewals += 1
        if self.renewals == _MANY:
            warn(
                f"compile: {_name(self.function)} was compiled {_MANY} times because values that "
                "it uses from outside change; pass them as arguments"
            )

    def _note_changes(self, objects: list[Any]) -> None:
        """Look at what the function changed while it was traced.

        A container that it fills counts as it is afterwards. A function that changes other values
        that it reads, again and again, is not compiled.
        """
        outside = self.world.outside
        if (source := outside.reads.moved()) is not None:
            raise ArgumentError(
                f"compile: {_name(self.function)} takes values from {_described(source)}, which "
                "gives others each time; a program would repeat those of its first call. Draw with "
                "ad.rand and the like, or pass the values as arguments"
            )
        if outside.reads.still_hold():
            return
        reads = self._look(objects)
        if outside.reads.hold_but_for_items():
            outside.reads = reads
            self._keep(self.world)
        elif reads.key != outside.reads.key:
            self.restless += 1
            if self.restless == _MANY:
                warn(
                    f"compile: {_name(self.function)} changes values outside that it reads, each "
                    "time it runs; it is not compiled from now on. Pass them as arguments and "
                    "return the new ones"
                )

    def _enter(self, program: Any, arguments: Any, outputs: Any, tensors: list[Any]) -> None:
        """Install the short way in for this signature, from its second call on: most programs
        called once are never called again.
        """
        if not program.is_known:
            program.is_known = True
            return
        if program.entry_function is not None and program.entry is None:
            kinds = [type(t) is ArrayTensor if self.sees_arrays else EITHER for t in tensors]
            program.entry = entry.write(program, arguments, outputs, kinds)
        if program.entry is not None:
            short = self.world.outside.guarded(program.entry)
            self.entry = short, len(arguments.children), DEFAULT.dtype

    def _signature(
        self, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Any, list[Any], Any]:
        if self.static is not None:
            args, keywords = self.static.marked(args, keywords)
        return _signature(args, keywords, self.own, self.sees_arrays)

    def call(self, *args: Any, **keywords: Any) -> Any:
        """Call the function, with static arguments unwrapped."""
        return self.function(
            *map(unwrapped, args), **{k: unwrapped(v) for k, v in keywords.items()}
        )

    def _traced_for(self, args: Any, keywords: Any) -> Graph:
        function = self.function
        if self.static is not None:
            function = keeps_signature(self.function, lambda *a, **k: self.call(*a, **k), "compile")
        objects = [v for v in pytrees.leaves((args, keywords)) if has_attributes(v)]
        before = [attributes_of(v) for v in objects]
        with changed(roots_from=0):
            graph = trace(mutated_arguments.watched(function), *args, **keywords)
        kept = graph.signature.static  # a program does not keep these objects alive
        graph.signature.static = {n: Same(v) if has_attributes(v) else v for n, v in kept.items()}
        self.world.outside.note(graph)
        self._note_changes(objects)
        for each, old in zip(objects, before, strict=True):
            new = attributes_of(each)
            moved = (n for n in old.keys() | new.keys() if old.get(n) != new.get(n))
            self.own |= {(type(each), name) for name in moved}
        return graph

    def _trace(self, tensors: list[Any], structure: Any, *, marked: bool) -> Graph:
        examples = [
            ShapeDtype.of(t, t.shape, marked and t.requires_grad)
            if isinstance(t, Tensor) and type(t) is not NumberTensor
            else t
            for t in tensors
        ]
        args, keywords = pytrees.unflatten(structure, examples)
        return self._traced_for(args, keywords)

    def _report(self, stage: str, seconds: float) -> None:
        if self.verbose:
            print(f"compile {_name(self.function)}: {stage}: {seconds * 1e3:.1f} ms", flush=True)

    def _compile(self, key: Any, tensors: list[Any], structure: Any) -> Any:
        started = time.perf_counter()
        graph = self._trace(tensors, structure, marked=False)
        traced = time.perf_counter() - started
        self._report("trace", traced)
        program = compiled_graph(graph, self._report)
        program.stages.seconds = {"trace": traced, **program.stages.seconds}
        found = (program, graph.signature.outputs)
        self.world.keep(key, found)
        self.latest = program.stages
        self._warn_of_numbers(key)
        return found

    def _warn_of_numbers(self, key: Any) -> None:
        """Warn once that each value of a whole number, or of an attribute, compiles a program."""
        alike = [k for k in self.programs if _but_for_numbers(k) == _but_for_numbers(key)]
        if len(alike) != _MANY:
            return
        differs = next(i for i, part in enumerate(key) if any(k[i] != part for k in alike))
        name = paths_of(self.function, key[0])[differs - _BEFORE]
        what, instead = f"values of {name}: a whole number is", "a float"
        if _is_object(key[differs]):
            what, instead = f"attributes of {name}: they are", "those that change as arguments"
        warn(
            f"compile: {_name(self.function)} was compiled {_MANY} times for other {what} part of "
            f"the program. Where Python need not look at it, pass a tensor or {instead}"
        )

    def _differentiable(
        self, key: Any, tensors: list[Any], structure: Any, args: Any, keywords: Any
    ) -> Any:
        """Run the compiled pair of `differentiate` as one node of the tape."""
        marks = tuple(isinstance(t, Tensor) and t.requires_grad for t in tensors)
        found = self.pairs.get((key, marks))
        if found is None:
            graph = self._trace(tensors, structure, marked=True)
            _refuse(closure_that_wants_a_gradient(graph))
            programs = _CompiledPair(self, key, marks, tensors, structure, differentiate(graph))
            found = self.pairs[key, marks] = (programs, graph.signature.outputs)
        programs, out_structure = found
        assert out_structure is not None
        given = [
            make(t.value) if type(t) is NumberTensor else t.under if type(t) is ArrayTensor else t
            for t in tensors
            if isinstance(t, Tensor)
        ]
        writes = mutated_arguments.places_in(out_structure)
        _check_written(given, writes)
        memory = self._memory(args, keywords, given) if writes else []
        of_ours = any(type(t) is ArrayTensor and t.is_ours for t in tensors)
        if mutated_arguments.share_memory(memory, writes) or (writes and of_ours):
            return self._eagerly(args, keywords)
        mutated_arguments.check_writable(memory, writes)
        outputs = _PairFunction.apply(programs, *given)
        made = pytrees.unflatten(out_structure, list(outputs[: programs.pair.real_outputs]))
        result = _returned(made, given)
        _write_arrays(memory, given, writes)
        return result_arrays(result) if of_ours else result

    def _pair_program(self, graph: Graph, request: Any, part: Callable[[Gradient], Graph]) -> Any:
        """A program of a pair, with symbolic sizes if any dimension is dynamic."""
        found = None
        if self.sizes is not None:
            key, role, tensors, structure = request

            def traced(args: Any, keywords: Any) -> Graph:
                with enable_grad():
                    return part(differentiate(self._traced_for(args, keywords)))

            found = self.sizes.program(key, tensors, structure, traced, self._report, role)
        program = compiled_graph(graph, self._report) if found is None else found[0]
        self.latest = program.stages
        return program

    def lower(self, *args: Any, **keywords: Any) -> Stages:
        """Compile for these arguments and return every stage: the graph as traced and simplified,
        its fused loops with what they compute and read, the C source, the memory plan, the times.
        """
        key, tensors, structure = self._signature(args, keywords)
        self._renew(tensors)
        program, _ = self._program(key, tensors, structure)
        return program.stages

    def cost(self, *args: Any, **keywords: Any) -> Cost:
        """What one call does: operations, functions, bytes read and written, memory. Without
        arguments, of the program that was compiled last.

        >>> import adjoint as ad
        >>> fast = ad.compile(lambda x: (x.sin() * x).sum())
        >>> cost = fast.cost(ad.ones(1000, dtype=ad.float64))
        >>> cost.functions, cost.bytes_read
        (1000, 8000)
        """
        if args or keywords:
            return self.lower(*args, **keywords).cost()
        if self.latest is None:
            raise ArgumentError(
                "cost(): nothing is compiled yet; call the function, or give cost() its arguments"
            )
        return self.latest.cost()


def compiled_on_tensors(
    function: Callable[..., Any],
    verbose: bool = False,
    dynamic: Any = None,
    static: Statics | None = None,
) -> Compiled[..., Any]:
    """A compiled function that sees NumPy arrays as tensors, as a module's forward does."""
    return Compiled(function, verbose, dynamic, static, sees_arrays=False)


def _returned(result: Any, given: list[Any]) -> Any:
    """The result for the caller, once the arguments are written to."""
    return result.put_back(given) if type(result) is Written else result


def _write_arrays(memory: list[Any], given: list[Any], places: Sequence[int]) -> None:
    """Copy writes to the tensors that stand for the caller's arrays back to these arrays."""
    for place in places:
        if memory[place] is not given[place].array:
            np.copyto(memory[place], given[place].array, casting="unsafe")


def _check_written(given: list[Any], places: Sequence[int]) -> None:
    """Refuse writes to an argument that requires a gradient, as eager mode does for a leaf."""
    for place in places:
        if given[place].requires_grad:
            raise InplaceError(
                "compile: the function changes an argument in place that requires a gradient; "
                "clone() it inside and return the new value"
            )


def _signature(
    args: Any, keywords: Any, own: set[tuple[type, str]], sees_arrays: bool
) -> tuple[Any, list[Any], Any]:
    """(key of the signature, arguments as tensors and Python values, their structure)."""
    leaves, structure = pytrees.flatten((args, keywords))
    tensors = [_argument(v) for v in leaves]
    if not sees_arrays:
        tensors = [t.under if type(t) is ArrayTensor else t for t in tensors]
    parts = [_part(t, own) for t in tensors]
    key = (structure, (DEFAULT.dtype, *_modes()), *parts)
    try:
        hash(key)
    except TypeError:
        odd = next(t for t in tensors if not isinstance(t, (Tensor, Hashable)))
        raise ArgumentError(
            "compile: arguments must be tensors, arrays, numbers or other values that can be "
            f"hashed, got {type(odd).__name__}"
        ) from None
    return key, tensors, structure


_MANY = 8  # programs that differ only in a whole number
_WORLDS = 16  # worlds that are kept
_PROGRAMS = 512  # programs kept in one world
_BEFORE = 2  # entries of a signature before the arguments: their structure, and the modes


def _but_for_numbers(key: Any) -> tuple[Any, ...]:
    """A signature without the values of whole numbers and of attributes."""
    kept = (p[:1] if p[0] is int else p[:2] if _is_object(p) else p for p in key[_BEFORE:])
    return (*key[:_BEFORE], *kept)


def _is_object(part: tuple[Any, ...]) -> bool:
    """Whether an entry of a signature is an object with its attributes."""
    return type(part) is tuple and len(part) > 1 and type(part[1]) is Same


def _modes() -> tuple[Any, ...]:
    """The active modes that a program depends on: the autocast dtype and the default device."""
    now = current()
    precision = now.autocast is not None and now.autocast.enabled and now.autocast.dtype
    return precision, now.default_device


def _argument(value: Any) -> Any:
    """Arrays and numbers as tensors, so that one program serves all; other values unchanged."""
    if isinstance(value, Tensor):
        if not isinstance(value, ndarray):
            return value
        return array_tensor(value.undressed(), is_ours=True)
    number = number_of(value)
    if number is not None:
        return number_tensor(value, number)
    if isinstance(value, np.ndarray):
        return array_tensor(tensor_of(value), is_ours=False)
    return value


def _part(value: Any, own: set[tuple[type, str]]) -> tuple[Any, ...]:
    """The entry of an argument in the signature."""
    kind = type(value)
    if kind is NumberTensor:
        return (value.shape, value.dtype, value.wrapped)
    if isinstance(value, Tensor):
        return (value.shape, value.dtype, kind is ArrayTensor)
    if not has_attributes(value):
        return (kind, value)
    found = attributes_of(value).items()
    return (kind, Same(value), *(pair for pair in found if (kind, pair[0]) not in own))


def _described(source: Any) -> str:
    kind = type(source)
    return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__module__}.{kind.__name__}"


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


class _World:
    """The programs made for one set of outside values."""

    outside: Any  # None before the first call

    def __init__(self, function: Any, dynamic: Any, outside: OutsideValues | None) -> None:
        self.programs: Bounded[Any, Any] = Bounded(_PROGRAMS)
        self.pairs: dict[Any, Any] = {}
        self.sizes = None if dynamic is None else learning.DynamicSizes(function, dynamic)
        self.outside = outside

    def keep(self, key: Any, found: Any) -> None:
        """Add a program; drop those for deleted objects, and the oldest of too many."""
        gone = [k for k in self.programs if any(_is_object(p) and p[1].is_gone() for p in k)]
        for each in gone:
            del self.programs[each]
        self.programs[key] = found

    def is_of_now(self, about: tuple[Same, ...]) -> bool:
        """Whether the outside values are unchanged, for a call with the objects `about`."""
        return self.outside is not None and self.outside.is_as_it_was(about)


class _CompiledPair:
    """A pair of graphs with programs: forward, and backward for each set of absent gradients."""

    def __init__(
        self, owner: Compiled, key: Any, marks: Any, tensors: Any, structure: Any, pair: Gradient
    ) -> None:
        self.owner, self.pair = owner, pair
        self.may_give_up = any(map(may_give_up, (pair.f, pair.df)))
        examples = [_without_data(t) for t in tensors]
        self.request = (key, marks, examples, structure)
        self.programs: dict[Any, Any] = {}

    def run(self, absent: Any, inputs: list[Any]) -> tuple[list[Any], bool]:
        """The outputs of the forward graph (`absent` is None) or of the backward graph, and whether
        the program gave the call up.
        """

        def part(pair: Gradient) -> Graph:
            return pair.f if absent is None else pair.specialised(absent)

        graph = part(self.pair)
        program = self.programs.get(absent)
        if program is None:
            key, marks, tensors, structure = self.request
            request = (key, (marks, absent), tensors, structure)
            program = self.programs[absent] = self.owner._pair_program(graph, request, part)
        arrays = program.run([contiguous(t.value) for t in inputs])
        if arrays is None:  # an index is out of range: the eager operators raise
            return interpret.run_flat(graph, inputs), True
        return [None if a is None else make(a) for a in arrays], False

    def pull_eagerly(self, inputs: list[Any], grads: list[Any]) -> list[Any]:
        """Gradients by the eager tape, for repeated values or a root of 0."""
        _, _, examples, structure = self.request

        def flat(*variables: Any) -> tuple[list[Any], None]:
            given = iter(variables)
            leaves = [_seen(e, given) if isinstance(e, ShapeDtype) else e for e in examples]
            args, keywords = pytrees.unflatten(structure, leaves)
            return [plain(v) for v in pytrees.leaves(self.owner.call(*args, **keywords))], None

        (outputs, _), pull = pullback(flat, inputs)
        return pull(grads[: len(outputs)])


class _PairFunction(Function):
    """A compiled pair as an eager function. Second derivatives interpret its graphs."""

    @staticmethod
    def forward(ctx: Any, programs: _CompiledPair, *inputs: Any) -> Any:
        ctx.set_materialize_grads(False)
        pair = programs.pair
        outputs, ctx.given_up = programs.run(None, list(inputs))
        ctx.programs, ctx.count = programs, len(inputs)
        captured = [inputs[i] for i in pair.captured_inputs] + [
            outputs[i] for i in pair.captured_outputs
        ]
        ctx.save_for_backward(*captured, *(inputs if programs.may_give_up else ()))
        ctx.mark_non_differentiable(
            *[o for i, o in enumerate(outputs) if i not in pair.output_grads]
        )
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pair: Gradient = ctx.programs.pair
        absent = tuple(n for n, i in enumerate(pair.output_grads) if grads[i] is None)
        given = [grads[i] for i in pair.output_grads if grads[i] is not None]
        saved = list(ctx.saved_tensors)
        captured = len(pair.captured_inputs) + len(pair.captured_outputs)
        inputs = [*given, *saved[:captured]]
        if ctx.given_up and ctx.programs.may_give_up:
            return (None, *ctx.programs.pull_eagerly(saved[captured:], list(grads)))
        try:
            if current().recording or any(g.home is not None for g in given):
                found = interpret.run_flat(pair.specialised(absent), inputs)
            else:
                found, _ = ctx.programs.run(absent, inputs)
        except DegenerateError:
            return (None, *ctx.programs.pull_eagerly(saved[captured:], list(grads)))
        spread: list[Any] = [None] * ctx.count
        for position, grad in zip(pair.input_grads, found, strict=True):
            spread[position] = grad
        return (None, *spread)


def _seen(example: ShapeDtype, given: Iterator[Any]) -> Any:
    """The next argument, in the form that the function sees."""
    tensor = next(given)
    return argument_of(tensor) if example.is_array else tensor


def _without_data(value: Any) -> Any:
    """An argument as its shape, dtype and gradient mark; numbers and other values unchanged."""
    if not isinstance(value, Tensor) or type(value) is NumberTensor:
        return value
    return ShapeDtype.of(value, value.shape, value.requires_grad)


def _refuse(closure: Any) -> None:
    if closure is not None:
        raise GradError(
            f"compile: the function uses a tensor of shape {tuple(closure.shape)} from outside "
            "that requires a gradient; pass it as an argument, or detach() it"
        )


_warned: list[bool] = []


def _warn_once() -> None:
    if not _warned:
        _warned.append(True)
        warnings.warn(
            "ad.compile: no C compiler was found; functions run in eager mode. Install gcc or "
            "clang, or `pip install ziglang`, or set CC",
            stacklevel=3,
        )


_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BACKENDS = ("inductor", "eager")


def compile(
    function: Callable[..., Any] | None = None,
    *,
    verbose: bool = False,
    dynamic: Any = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    fullgraph: bool = False,
    backend: str = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return `function` as native code, compiled on its first call with some shapes and dtypes.

    Pointwise operators, views, reductions, gathers and loops over time are fused into loops in C,
    products and factors of matrices are calls of BLAS and LAPACK; other operators call their eager
    kernels (`compiled.lower(*args).callbacks()` names them). Compile the gradient, not its
    function: `ad.compile(ad.grad(f))` shares the loops of forward and backward. Whole numbers and
    other Python values are part of the signature. Tensors from outside are constants; where one is
    written to, the next call compiles anew. So it does where something else that the function reads
    from outside has changed: globals, closures, attributes, items, defaults, modes and hooks of
    modules. Arguments that the function writes to are changed.

    `dynamic` names dimensions whose size should not matter, as {argument: dimensions}, the argument
    by name or position: a new size then needs no new compilation. `static_argnums` and
    `static_argnames` name arguments whose values are part of the program, for Python to look at: a
    new value is a new compilation. Of an `nn.Module` a module is returned that shares all tensors
    and whose forward is compiled. `verbose` prints one line for each stage while it works.
    Without a function, a decorator with these options is returned.

    The others are PyTorch's. A program is always one graph, so `fullgraph` changes nothing, nor do
    the names of `mode`; the backend "inductor" is native code, and "eager", like `disable`, gives
    the function as it is. `dynamic=True` and `False` compile each new size.

    >>> import adjoint as ad
    >>> fast = ad.compile(ad.value_and_grad(lambda x: (x.sin() * x).sum()))
    >>> fast(ad.tensor([0.0, 1.0]))
    (tensor(0.8415), tensor([0.0000, 1.3818]))
    >>> mean = ad.compile(lambda x: x.mean(0), dynamic={"x": 0})
    >>> mean(ad.ones(3, 2)), mean(ad.ones(5, 2))
    (tensor([1., 1.]), tensor([1., 1.]))
    >>> power = ad.compile(lambda x, n: x ** math.floor(n), static_argnames="n")
    >>> import math
    >>> power(ad.tensor(3.0), 2.5)
    tensor(9.)
    """
    _check_options(backend, mode, options)
    if function is None:
        return lambda given: compile(
            given, verbose=verbose, dynamic=dynamic, static_argnums=static_argnums,
            static_argnames=static_argnames, fullgraph=fullgraph, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if disable or backend == "eager":
        return function
    dynamic = None if isinstance(dynamic, bool) else dynamic
    copied = getattr(function, "compiled_copy", None)
    if copied is not None:  # an nn.Module
        if dynamic is not None or static_argnums != () or static_argnames != ():
            raise ArgumentError(
                "compile: dynamic and static arguments are a function's; compile a function that "
                "calls ad.func.functional_call(module, parameters, args)"
            )
        return copied(verbose=verbose)
    static = Statics(function, static_argnums, static_argnames)
    return Compiled(function, verbose, dynamic, static if static.names or static.numbers else None)


def _check_options(backend: Any, mode: Any, options: Any) -> None:
    """Refuse PyTorch's options that have no meaning here."""
    if backend not in _BACKENDS:
        raise ArgumentError(
            f"compile(backend={backend!r}): there is native code, under the name 'inductor', and "
            "'eager', which leaves a function as it is"
        )
    if mode is not None and mode not in _MODES:
        raise ArgumentError(f"compile(mode={mode!r}): a mode is one of {', '.join(_MODES)}")
    if options:
        raise ArgumentError(
            f"compile(options={options!r}): options of PyTorch's backend mean nothing here; the C "
            "compiler's flags are in $ADJOINT_CFLAGS"
        )
