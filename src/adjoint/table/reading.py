"""Reading rows: one block of YAML becomes one `Row`, parsed on first use.

Every column is read and checked here, as far as a row can be checked by itself. The mistakes of a
row raise one `TableError`, each on a line with `file:line:column`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.core.errors import TableError, did_you_mean
from adjoint.core.lazy import Lazy
from adjoint.core.source_lines import warn
from adjoint.table import formula as language
from adjoint.table import schema as schemas
from adjoint.table.archetypes import ARCHETYPES, Archetype
from adjoint.table.formula import Formula, Location
from adjoint.table.rows import KINDS, MAPPED, ForwardFormula, Reverse, Row, written_over

if TYPE_CHECKING:
    import yaml
else:
    yaml = Lazy("yaml")  # prepared rows need no YAML

_COLUMNS = frozenset((
    "name", "like", "kernel", "shape", "promote", "decompose", "inplace", "doc", "domain",
    "output_differentiability", "dispatch", "batch", "numbers", "order", "kink", "near", "above",
    "fan", "clusters", "element", "moves", "fills", "reduces", "accumulates", "product",
    "overwrites", "random", "identity", "linear", "undoes", "selects", "numpy", "reads", "routine",
    "layouts", "nested", "autocast", "requires", "native", "former", "computes", "creates",
    "dtypes",
))  # fmt: skip
_FORMER = {"c": "element"}  # former names of columns, which are read with a warning
# The words allowed in columns of words; `promote` may also list arguments.
WORDS: dict[str, tuple[str, ...]] = {
    "like": tuple(ARCHETYPES),
    "numbers": ("wrap", "checked", "powers", "wide"),
    "order": ("needed",),
    "domain": ("own", "positive", "unit", "above_one", "probability"),
    "promote": ("sum", "float", "real", "bool", "index"),
    "moves": ("nothing", "ones", "shape", "elements"),
    "reduces": ("sum", "mean", "prod", "amax", "amin", "any", "all"),
    "accumulates": ("sum", "prod"),
    "undoes": ("itself",),
    "reads": ("memory",),
    "selects": ("some", "all"),
    "autocast": ("lower", "float32", "widest", "parts", "whole"),
    "native": ("early",),
    "computes": ("wide",),
    "routine": (
        "triangular",
        "cholesky",
        "convolution",
        "correlation",
        "maxima",
        "back",
        "attention",
        "attention_backward",
        "lu",
        "solve",
        "inverse",
        "qr",
        "eigh",
        "svd",
        "ldl",
        "exponential",
        "distinct",
        "rank",
        "inverses",
        "gauge_of_pairs",
        "det",
        "slogdet",
        "adjugate",
        "pinv",
        "least_squares",
        "inverse_gaps",
        "inverse_sums",
        "shared",
        "combinations",
        "join",
        "zeros",
        "grouped",
        "sort",
        "median",
        "nanmedian",
        "mode",
        "median_over",
        "kth",
        "top",
        "quantiles",
        "quantiles_of_numbers",
        "distances",
        "alphas",
        "alphas_back",
        "search",
        "count",
        "within",
        "maxima_so_far",
        "minima_so_far",
        "recurrence",
        "logarithms",
        "member",
        "divide",
        "remainder",
        "fmod",
        "frexp",
        "segments",
        "gather",
        "scatter",
        "nonzero",
        "strides",
        "repeat",
        "permutation",
        "layout",
        "windows",
        "pad",
        "pack",
        "numbers",
        "fourier",
        "fourier_forward",
        "fourier_backward",
        "bits",
        "layer",
        "layer_back",
        "mostly",
    ),
}
# The kinds of numbers that a text of the column `element` may serve.
_KINDS: dict[str, tuple[str, ...]] = {
    "real": ("real",),
    "whole": ("whole",),
    "bool": ("bool",),
    "complex": ("complex",),
    "number": ("real", "whole"),
    "all": ("real", "whole", "bool"),
}
_NUMBER = r"-?\d{1,9}(\.\d{1,9})?"
_PRODUCT = r"(\w+)(?:\.conj\(\))? @ (\w+)(?:\.mT)?"
_NOT_IMPLEMENTED = r"not_implemented(?:\(\s*(['\"])(?P<reason>[^'\"]*)\1\s*\))?"
_ZEROS = ("zeros({0}.shape, dtype={0}.dtype)", "[None for entry in {0}]")  # of a tensor, a list
_WITHOUT = ("non_differentiable", "zero", "not_implemented")  # in place of a formula
AUTOMATIC = ("auto_linear", "auto_element_wise", "auto_multilinear", "auto_gather")
# Characters of anchors, aliases, tags and nested collections; rows without them are read once only.
_UNUSUAL = r"(?sm)(?:^|[\[{,:?-])[ \t]*(?:[&*!]\S|\?\s)|\{.*\{|- +[-?] "
# Control characters and marks that reverse text are refused: the text read must be the text seen.
_INVISIBLE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
_LONGEST = 20_000  # characters of a row, its comments included
_DEEPEST = 5  # levels of YAML in a row: the list in dispatch: {Default: {promote: [self]}}


class Source(NamedTuple):
    """The place and name of a row, before it is parsed."""

    family: str  # "pointwise"
    path: str  # "/…/table/pointwise.yaml"
    line: int  # 41
    text: str
    name: str  # "add"
    overload: str  # "Tensor"
    module: Any = None  # the user's kernels, for a file of his own
    writes: bool = False  # whether this is `_foreach_sin_`, in the text of `_foreach_sin`

    @property
    def where(self) -> Location:
        return Location(self.path, self.line)


def load(source: Source) -> Row:
    """Parse one block of YAML into a row."""
    if source.writes:
        return written_over(load(source._replace(name=source.name[:-1], writes=False)))
    return _RowReader(source).row()


def _loader() -> Any:
    """YAML's reader in C, where it was built."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Mistakes:
    """Mistakes of a row, gathered for one error."""

    def __init__(self, most: int = 100) -> None:
        self.found: list[str] = []
        self.most = most  # mistakes after which gathering stops

    @contextmanager
    def gathered(self) -> Generator[None]:
        """A block whose `TableError` is noted; the program goes on after the block."""
        try:
            yield
        except TableError as error:
            self.note(error)

    def note(self, error: TableError) -> None:
        self.found += str(error).splitlines()

    @property
    def enough(self) -> bool:
        return len(self.found) >= self.most

    def told(self) -> None:
        """Raise the mistakes found, if any."""
        if self.found:
            told = list(dict.fromkeys(self.found))
            more = ["… and more"] if self.enough else []
            raise TableError("\n".join([*told[: self.most], *more]))


class _RowReader:
    """Reads the row of one block, and remembers the place of each column."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.nodes: dict[str, yaml.Node] = {}
        self.places: dict[str, Location] = {}
        self.mistakes = Mistakes()
        for key, value in self._entries():
            name = key.value
            if not isinstance(name, str):
                raise TableError(f"{self._at(key)}: a column's name is a word")
            if name in _FORMER:
                name = self._renamed(key)
            if name in self.nodes:
                raise TableError(f"{self._at(key)}: duplicate key {name!r}")
            self.nodes[name] = value
            self.places[name] = self._at(value)
        self.lines = {n: source.where.line + v.start_mark.line for n, v in self._keys.items()}

    def _renamed(self, key: yaml.Node) -> str:
        """The name that a column has now; the user is told."""
        name = _FORMER[key.value]
        where = self._at(key)
        told = f"the column {key.value} is called {name} now; the next version does not read it"
        message = f"{where.path}:{where.line}: {told}"
        warn(message, DeprecationWarning)
        return name

    def _entries(self) -> list[tuple[Any, Any]]:
        source = self.source
        if len(source.text) > _LONGEST:
            raise TableError(f"{source.where}: a row has at most {_LONGEST} characters")
        try:
            if re.search(_UNUSUAL, source.text) or source.text.count("[") > 50:
                self._refuse_references()
            node = yaml.compose(source.text, Loader=_loader())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = source.where
            if mark is not None:
                where = Location(where.path, where.line + mark.line, mark.column + 1)
            raise TableError(f"{where}: not YAML: {error.problem or error.context}") from None
        except yaml.YAMLError as error:
            raise TableError(f"{source.where}: not YAML: {' '.join(str(error).split())}") from None
        rows = node.value if isinstance(node, yaml.SequenceNode) else ()
        entry = rows[0] if len(rows) == 1 else None
        if not isinstance(entry, yaml.MappingNode):
            raise TableError(f"{source.where}: a row is a mapping that starts with '- name:'")
        self._keys = {_FORMER.get(str(k.value), str(k.value)): k for k, _ in entry.value}
        return entry.value

    def _refuse_references(self) -> None:
        """Refuse aliases (whose expansion can be huge), tags and deep nesting."""
        depth = 0
        for event in yaml.parse(self.source.text, Loader=_loader()):
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            if depth > _DEEPEST:
                raise TableError(f"{self._at(event)}: nested too deeply for a row")
            if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
                raise TableError(f"{self._at(event)}: YAML's anchors and aliases are not read here")
            if getattr(event, "tag", None) is not None:
                raise TableError(f"{self._at(event)}: YAML's tags are not read here")

    def _at(self, node: Any) -> Location:
        """The location of a YAML node, with its text."""
        start, line = node.start_mark, self.source.where.line
        text = self.source.text[start.index : node.end_mark.index]
        return Location(self.source.where.path, line + start.line, start.column + 1, text)

    def where(self, column: str) -> Location:
        return self.places.get(column, self.source.where)

    # -- columns, by what they hold ------------------------------------------------------------

    def text(self, column: str, node: yaml.Node | None = None) -> str:
        """A column that is a text."""
        node = self.nodes.get(column) if node is None else node
        if node is None:
            return ""
        if not isinstance(node.value, str):
            raise TableError(f"{self._at(node)}: {column} must be a text")
        if odd := re.search(_INVISIBLE, node.value):
            raise TableError(f"{self._at(node)}: {odd[0]!r} in a text")
        return node.value

    def word(self, column: str, default: str = "") -> str:
        """A column that is one word of a few."""
        text = self.text(column) or default
        if text and text not in WORDS[column]:
            raise TableError(
                f"{self.where(column)}: {column} cannot be {text!r}"
                f"{did_you_mean(text, WORDS[column])} It is one of {', '.join(WORDS[column])}"
            )
        return text

    def boolean(self, column: str, node: yaml.Node) -> bool:
        text = self.text(column, node).lower()
        if text not in ("true", "false"):
            raise TableError(f"{self._at(node)}: {column} must be True or False, got {text!r}")
        return text == "true"

    def kinds(self, column: str) -> None:
        """A column of kinds of numbers: `real complex`."""
        for word in (text := self.text(column)).split() or [text]:
            if word not in KINDS:
                raise TableError(
                    f"{self.where(column)}: {column} cannot be {word!r}"
                    f"{did_you_mean(word, KINDS)} It is some of {', '.join(KINDS)}"
                )

    def _list(self, column: str) -> list[yaml.Node]:
        node = self.nodes[column]
        if not isinstance(node, yaml.SequenceNode):
            raise TableError(f"{self.where(column)}: {column} must be a list: [a, b]")
        return node.value

    def promote(self) -> Any:
        """A list of arguments, or a word; None where not given."""
        if not isinstance(self.nodes.get("promote"), yaml.SequenceNode):
            return self.word("promote") or None
        names = [self.text("promote", n) for n in self._list("promote")]
        for name in names:
            if name not in self.schema.names:
                raise TableError(
                    f"{self.where('promote').of(name)}: promote: {name!r} is no argument"
                    f"{did_you_mean(name, self.schema.names)}"
                )
        return names

    def inplace(self, archetype: Archetype) -> bool:
        """Whether `name_` follows: by the column `inplace`, else by the archetype if possible."""
        can = self.schema.can_be_written and not archetype.maps  # its in-place form has another row
        if "inplace" not in self.nodes or archetype.maps:
            return archetype.inplace and can
        wanted = self.boolean("inplace", self.nodes["inplace"])
        if wanted and not can:
            raise TableError(
                f"{self.where('inplace')}: only name(Tensor self, …) -> Tensor has an in-place "
                "variant"
            )
        return wanted

    def decompose(self, archetype: Archetype) -> str:
        """The decomposition; for an operator over lists the operator that its name contains."""
        if not archetype.maps:
            return self.text("decompose")
        lists = any(a.type.is_tensor and a.type.is_list for a in self.schema.arguments)
        if not lists or not self.schema.name.startswith(MAPPED):
            raise TableError(
                f"{self.where('name')}: like: foreach is for {MAPPED}<operator>(Tensor[] self, …)"
            )
        if others := self.nodes.keys() - {"name", "like", "inplace", "domain", "doc"}:
            other = min(others)
            raise TableError(
                f"{self._at(self._keys[other])}: {other}: everything about a row that is "
                "like: foreach follows from the operator it maps"
            )
        return f"foreach.{self.schema.name.removeprefix(MAPPED)}"

    def dispatch(self) -> dict[str, Any]:
        """Formulas by the kind of tensor, as texts; we use `Default`."""
        node = self.nodes.get("dispatch")
        if node is None:
            return {}
        found: dict[str, Any] = {}
        for kind, entries in node.value if isinstance(node, yaml.MappingNode) else [(node, node)]:
            if not isinstance(entries, yaml.MappingNode):
                raise TableError(f"{self._at(entries)}: dispatch must be {{Default: {{…}}}}")
            found[str(kind.value)] = inner = {}
            for key, value in entries.value:
                inner[str(key.value)] = self.text(str(key.value), value)
                if kind.value == "Default":
                    self.nodes.setdefault(str(key.value), value)
                    self.places.setdefault(str(key.value), self._at(value))
                    self.lines.setdefault(str(key.value), self.lines["dispatch"])
        return found

    def argument(self, column: str, name: str, *, tensor: bool | None = None) -> None:
        """Refuse a name that is no argument; with `tensor`, also an argument that is no tensor."""
        names = [
            a.name
            for a in self.schema.arguments
            if tensor is None or (a.type.is_tensor and not a.type.is_list) == tensor
        ]
        if name not in names:
            raise TableError(
                f"{self.where(column).of(name)}: {column}: {name!r} is no such argument"
                f"{did_you_mean(name, names)}"
            )

    def number_or_argument(self, column: str) -> None:
        text = self.text(column)
        if not text.isdigit():
            self.argument(column, text, tensor=False)

    def argument_names(self, column: str) -> None:
        for name in self.text(column).split(","):
            self.argument(column, name.strip(), tensor=True)

    def identity(self, column: str) -> None:
        for pair in self.text(column).split(","):
            name, _, number = (part.strip() for part in pair.partition("="))
            self.argument(column, name)
            others = [a for a in self.schema.tensors if a.name != name]
            if not re.fullmatch(_NUMBER, number) or len(others) != 1:
                raise TableError(
                    f"{self.where(column)}: {column} must be argument=number, and there must be "
                    "one other tensor, which is the result"
                )

    def matrices(self, column: str) -> None:
        names = re.fullmatch(_PRODUCT, self.text(column))
        if names is None:
            raise TableError(f"{self.where(column)}: {column} must be a @ b, of two arguments")
        for name in names.groups():
            self.argument(column, name, tensor=True)

    def element(self) -> dict[str, str]:
        """The element for each kind of numbers; a single text is for real numbers."""
        node = self.nodes.get("element")
        if not isinstance(node, yaml.MappingNode):
            return {} if node is None else {"real": self.text("element")}
        found: dict[str, str] = {}
        for key, value in node.value:
            kind = str(key.value)
            if kind not in _KINDS:
                raise TableError(
                    f"{self._at(key)}: element: {kind!r} is not among {', '.join(_KINDS)}"
                    f"{did_you_mean(kind, _KINDS)}"
                )
            if not found.keys().isdisjoint(_KINDS[kind]):
                raise TableError(f"{self._at(key)}: element: {kind} has a second text")
            found |= dict.fromkeys(_KINDS[kind], self.text("element", value))
        return found

    # -- the row ---------------------------------------------------------------------------------

    def row(self) -> Row:
        try:
            self.schema = schema = schemas.parse(self.text("name"))
            schemas.check(schema)
            if (schema.name, schema.overload) != (self.source.name, self.source.overload):
                raise schemas.SchemaError("the name must stand as it is in its first line")
        except schemas.SchemaError as error:
            raise TableError(f"{self.where('name').of(error.word)}: {error}") from None
        for argument in schema.tensors:
            if argument.name in _COLUMNS:
                where = self.where("name").of(argument.name)
                raise TableError(f"{where}: {argument.name!r} is a column; call it something else")
        like = self.each(self.word, "like", "none")
        archetype = ARCHETYPES[like or "none"]
        dispatch = self.each(self.dispatch) or {}
        reverse, forward = self._formulas()
        for column in ("numbers", "order", "domain", *FACTS):
            if column in self.nodes:
                self.each(FACTS.get(column, _RowReader.word), self, column)
        for column in (
            "kernel",
            "shape",
            "doc",
            "batch",
            "kink",
            "near",
            "above",
            "fan",
            "clusters",
            "numpy",
            "layouts",
            "nested",
        ):
            if column in self.nodes:
                self.each(self.text, column)
        decompose = self.each(self.decompose, archetype)
        promote, inplace = self.each(self.promote), self.each(self.inplace, archetype)
        element = self.each(self.element)
        self.each(self._check_grad_style, reverse)
        differentiable = self.each(self._differentiable_outputs, reverse)
        self.mistakes.told()
        return Row(
            schema=schema,
            family=self.source.family,
            where=Location(self.source.where.path, self.lines["name"]),
            archetype=archetype,
            kernel=self.text("kernel"),
            shape=self.text("shape"),
            promote=promote,
            decompose=decompose,
            inplace=bool(inplace),
            doc=self.text("doc"),
            domain=self.text("domain"),
            element=element or {},
            reverse=reverse,
            forward=forward,
            differentiable_outputs=differentiable or (),
            texts={n: _text_of(v) for n, v in self.nodes.items()},
            lines=self.lines,
            dispatch=dispatch,
            module=self.source.module,
            places=self.places,
        )

    def each(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Read a column; a mistake in it is reported with those in other columns."""
        try:
            return read(*arguments)
        except TableError as error:
            self.mistakes.note(error)

    def _formulas(self) -> tuple[tuple[Reverse, ...], tuple[ForwardFormula, ...]]:
        inputs = {a.name for a in self.schema.arguments}
        outputs = {r.name for r in self.schema.returns} | {"result"}
        outputs |= {f"result{i}" for i in range(len(self.schema.returns))}
        reverse: list[Reverse] = []
        forward: list[ForwardFormula] = []
        served: set[str] = set()
        for key in self.nodes:
            if key in _COLUMNS:
                continue
            names = tuple(n.strip() for n in key.split(","))
            with self.mistakes.gathered():
                if all(n in inputs for n in names):
                    self._refuse_second(key, names, served)
                    reverse.append(self._reverse(key, names, self.text(key)))
                elif all(n in outputs for n in names):
                    made = [self._forward(key, n, self.text(key)) for n in names]
                    self._refuse_second(key, tuple(f"of {f.output}" for f in made), served)
                    forward.extend(made)
                elif inputs.issuperset(names := tuple(n for n in names if n not in outputs)):
                    raise TableError(
                        f"{self.where(key)}: {', '.join(names)} and results of "
                        f"{self.schema.text!r} have formulas of their own"
                    )
                else:
                    wrong = next(n for n in names if n not in inputs)
                    raise TableError(
                        f"{self._at(self._keys.get(key, self.nodes[key]))}: {wrong!r} is neither "
                        f"a column, nor an argument or output of {self.schema.text!r}"
                        f"{did_you_mean(wrong, {*inputs, *outputs, *_COLUMNS})}"
                    )
        return tuple(reverse), tuple(forward)

    def _refuse_second(self, key: str, names: tuple[str, ...], served: set[str]) -> None:
        repeated = [n for i, n in enumerate(names) if n in served or n in names[:i]]
        if repeated:
            raise TableError(f"{self.where(key)}: a second formula for {', '.join(repeated)}")
        served |= set(names)

    def _reverse(self, key: str, names: tuple[str, ...], text: str) -> Reverse:
        for name in names:
            if not self.schema.argument(name).type.is_tensor:
                raise TableError(
                    f"{self.where(key)}: {name!r} is not a tensor in {self.schema.text!r}"
                )
        if text == "non_differentiable":
            return Reverse(names, None, text)
        if waiting := re.fullmatch(_NOT_IMPLEMENTED, text):
            return Reverse(names, None, "not_implemented", waiting["reason"] or "")
        if text == "zero":
            zeros = ", ".join(_ZEROS[self.schema.argument(n).type.is_list].format(n) for n in names)
            zeros = f"({zeros})" if len(names) > 1 else zeros
            return Reverse(names, self._parse(key, zeros, forward=False), text)
        if _is_word_like(text) and (hint := did_you_mean(text, _WITHOUT)):
            raise TableError(f"{self.where(key)}: {text!r} is no formula{hint}")
        return Reverse(names, self._parse(key, text, forward=False))

    def _forward(self, key: str, output: str, text: str) -> ForwardFormula:
        returns = self.schema.returns
        if output == "result" and len(returns) == 1:
            output = returns[0].name
        elif output.startswith("result") and output[6:].isdigit():
            output = returns[int(output[6:])].name
        if output not in {r.name for r in returns}:
            raise TableError(
                f"{self.where(key)}: {output!r} is no output of {self.schema.text!r}"
                f"{did_you_mean(output, [r.name for r in returns])}"
            )
        if text in AUTOMATIC:
            return ForwardFormula(output, None, text)
        if _is_word_like(text) and (hint := did_you_mean(text, AUTOMATIC)):
            raise TableError(f"{self.where(key)}: {text!r} is no formula{hint}")
        return ForwardFormula(output, self._parse(key, text, forward=True))

    def _parse(self, key: str, text: str, *, forward: bool) -> Formula:
        if forward:
            return language.parse(text, self.where(key), set())
        tensors = {a.name for a in self.schema.tensors if not a.type.is_list}
        results = {r.name for r in self.schema.returns if not r.type.is_list} | {"result"}
        results |= {f"result{i}" for i in range(len(self.schema.returns))}
        others = set(self.schema.names) - tensors
        lists = {a.name for a in self.schema.tensors if a.type.is_list and not a.type.holds_none}
        return language.parse(text, self.where(key), (tensors | results) - others, lists)

    def _check_grad_style(self, reverse: tuple[Reverse, ...]) -> None:
        styles: dict[str, str] = {}
        names = {f"grad_{r.name}" for r in self.schema.returns}
        arguments = set(self.schema.names)
        for entry in reverse:
            used = (entry.formula.names if entry.formula else frozenset()) - arguments
            for style, present in (
                ("grad", "grad" in used),
                ("grads", "grads" in used),
                ("grad_<output>", bool(names & used)),
            ):
                if present:
                    styles[style] = entry.inputs[0]
        if len(styles) > 1:
            where = self.where(next(iter(styles.values())))
            raise TableError(f"{where}: mixes {' and '.join(styles)}; choose one")

    def _differentiable_outputs(self, reverse: tuple[Reverse, ...]) -> tuple[bool, ...]:
        count = len(self.schema.returns)
        if "output_differentiability" in self.nodes:
            given = [
                self.boolean("output_differentiability", n)
                for n in self._list("output_differentiability")
            ]
            if len(given) != count:
                raise TableError(
                    f"{self.where('output_differentiability')}: {len(given)} booleans for "
                    f"{count} outputs"
                )
            return tuple(given)
        used = {n for r in reverse if r.formula is not None for n in r.formula.names}
        if "grad" in used and not any(
            n == "grads" or n.startswith("grad_") for n in used - set(self.schema.names)
        ):
            return tuple(i == 0 for i in range(count))
        return (True,) * count


# The readers of columns that state facts; the text stays in `Row.texts`.
FACTS: dict[str, Callable[[_RowReader, str], Any]] = {
    "moves": _RowReader.word,
    "reduces": _RowReader.word,
    "accumulates": _RowReader.word,
    "undoes": _RowReader.word,
    "reads": _RowReader.word,
    "selects": _RowReader.word,
    "routine": _RowReader.word,
    "autocast": _RowReader.word,
    "requires": _RowReader.argument_names,
    "native": _RowReader.word,
    "random": lambda reader, column: reader.boolean(column, reader.nodes[column]),
    "computes": _RowReader.word,
    "creates": lambda reader, column: reader.boolean(column, reader.nodes[column]),
    "fills": _RowReader.number_or_argument,
    "linear": _RowReader.argument_names,
    "identity": _RowReader.identity,
    "product": _RowReader.matrices,
    "overwrites": _RowReader.text,
    "former": _RowReader.text,
    "dtypes": _RowReader.kinds,
}


def _is_word_like(text: str) -> bool:
    """Whether a column may be meant as one of the words with an underscore."""
    return text.isidentifier() and "_" in text


def _text_of(node: yaml.Node) -> str:
    """A column as text; lists and mappings as Python writes them."""
    if isinstance(node.value, str):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return f"[{', '.join(_text_of(n) for n in node.value)}]"
    return f"{{{', '.join(f'{k.value}: {_text_of(v)}' for k, v in node.value)}}}"
