"""The pages of operators, of families, and their index, as text for MyST."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from adjoint.table import TABLE, examples
from docs.building import certificates, formulas, pictures
from docs.building.facts import Fact, steps_of
from docs.building.stage import Folder

FAMILIES = {
    "activation": "Activations",
    "attention": "Attention",
    "convolution": "Convolutions",
    "creation": "New tensors",
    "dropout": "Dropout",
    "embedding": "Embeddings",
    "fft": "Fourier transforms",
    "foreach": "Lists of tensors",
    "indexing": "Indexing",
    "linalg": "Linear algebra",
    "loss": "Losses",
    "matmul": "Products",
    "nested": "Nested tensors",
    "normalization": "Normalisation",
    "padding": "Padding",
    "pointwise": "Element by element",
    "pooling": "Pooling",
    "quantization": "Quantisation",
    "random": "Random numbers",
    "recurrent": "Recurrent layers",
    "reduction": "Reductions",
    "resampling": "Resampling",
    "scan": "Running totals",
    "shape": "Shapes and views",
    "sorting": "Sorting",
    "sparse": "Sparse tensors",
    "special": "Special functions",
    "vendor": "Names of other libraries",
}
LEGEND = (
    "<i>x</i> is <code>self</code>, <i>y</i> <code>other</code>, <i>z</i> the result; "
    "a bar marks a gradient, a dot a tangent, * the conjugate."
)
SHORT = 16  # lines of a function that is shown at once
WORDS = {
    "zero": "has the derivative zero: the result does not change with it.",
    "non_differentiable": "has no derivative. A gradient that reaches it raises an error.",
    "not_implemented": "has a derivative that is not written yet",
}
AUTOMATIC = {
    "auto_linear": "The operator is linear: it maps tangents as it maps values.",
    "auto_multilinear": "The operator is linear in each argument: one term for each tangent.",
    "auto_element_wise": "Element by element: the factor of the reverse formula times the tangent.",
    "auto_gather": "The operator selects elements: it selects those of the tangent.",
}
MODES = {
    "formula": "written in the row",
    "decomposition": "follows from the decomposition",
    "derived from forward": "derived: the transpose of the forward formula",
    "derived from reverse": "derived: the transpose of the reverse formula",
    "not differentiable": "none: the result has no derivative",
    "not written yet": "not written yet",
}
BATCHING = {
    "own rule": "a rule of its own",
    "archetype": "the rule of its kind of operator",
    "decomposition": "follows from the decomposition",
    "none needed": "not needed: it takes no tensor",
    "loop": "a loop over the batch",
}
LAWS = {
    "value_equals_reference": "the value equals that of another method",
    "reverse_equals_differences": "reverse mode equals finite differences",
    "second_order_equals_differences": "second derivatives equal differences",
    "jvp_is_adjoint_of_vjp": "forward mode is the adjoint of reverse mode",
    "tangents_add_up": "forward mode is linear in the tangents",
    "unselected_elements_have_no_gradient": "elements that were not selected have no gradient",
    "what_stands_still_has_no_tangent": "elements that do not move with the inputs have no tangent",
    "vmap_equals_loop": "vmap equals a loop",
    "shape_rule_is_right": "the shape rule gives the real shape",
    "traced_equals_eager": "a traced program equals the eager one",
    "decomposition_equals_kernel": "the decomposition equals the kernel",
    "inputs_are_untouched": "inputs stay as they are",
    "drawing_is_declared": "random numbers are declared",
    "shared_memory_is_known": "shared memory is known",
    "layout_does_not_matter": "strides of inputs do not matter",
}


# -- a page ---------------------------------------------------------------------------------------


def page(fact: Fact, lines: certificates.Lines) -> str:
    """The page of an operator, with its lines of the ledger."""
    parts = [
        "---\norphan: true\n---\n",
        f"# {_title(fact)}\n",
        f"[Operators](index.md) › [{FAMILIES[fact['family']]}](family/{fact['family']}.md)\n",
        _signatures(fact),
        _example(fact),
        _picture(fact["name"]),
        *_derivatives(fact),
        *_rows(fact),
        *_modes(fact),
        *_laws(fact),
        *_certificates(fact["name"], lines),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part) + "\n"


def _title(fact: Fact) -> str:
    return _spelled(fact).removeprefix("ops.").removeprefix("Tensor.").replace("_", r"\_")


def raw(text: str) -> str:
    """HTML as it is, of which the search knows nothing (extension.py)."""
    return f"```{{fragment}}\n{text}\n```\n"


def heading(text: str) -> str:
    """A heading that the search does not know: every page has the same ones."""
    return raw(f"<h2>{text}</h2>")


def table(lines: Iterable[Sequence[str]], head: Sequence[str] = (), kind: str = "") -> str:
    """A table of HTML cells, which the search does not know either."""
    made = [f"<tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>"] if head else []
    made += [f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in lines]
    inner = f'<table class="docutils {kind}">{"".join(made)}</table>'
    return raw(f'<div class="table-wrapper docutils container">{inner}</div>')


def _signatures(fact: Fact) -> str:
    """How it is called, an entry of the search, and what it does."""
    spelled = fact["called"].replace("ad.", "adjoint.", 1)
    head, *more = dict.fromkeys(f"{spelled}({_parameters(row)})" for row in fact["rows"])
    lines = [f".. py:function:: {head}", *(f"{' ' * 17}{line}" for line in more)]
    shown = "\n".join(lines).replace("\\", "\\\\")
    return f"```{{eval-rst}}\n{shown}\n```\n\n{_summary(fact['sentence'])}\n"


def _parameters(row: Fact) -> str:
    shown: list[str] = []
    for text, keyword in zip(row["arguments"], row["keyword_only"], strict=True):
        if keyword and "*" not in shown:
            shown.append("*")
        shown.append(text)
    return ", ".join(shown)


def _example(fact: Fact) -> str:
    if not fact["example"]:
        return ""
    text = fact["example"].replace("<BLANKLINE>", "")
    return f"```pycon\n>>> import adjoint as ad\n{text}\n```\n"


def _picture(name: str) -> str:
    drawn = pictures.picture(name)
    return raw(f'<figure class="function">{drawn}</figure>') if drawn else ""


# -- derivatives ----------------------------------------------------------------------------------


def _derivatives(fact: Fact) -> Iterator[str]:
    """The formulas of every overload, each set once."""
    seen: set[str] = set()
    found: list[str] = []
    for row in fact["rows"]:
        lines = list(_formulas(row))
        key = json.dumps([row["reverse"], row["forward"], row["decompose"]])
        if lines and key not in seen:
            seen.add(key)
            found += [f"**{row['full_name']}**\n"] if len(fact["rows"]) > 1 else []
            found += lines
    if found:
        yield heading("Derivatives")
        if any("<math" in line for line in found):
            yield raw(f'<p class="legend">{LEGEND}</p>')
        yield from found


def _formulas(row: Fact) -> Iterator[str]:
    if row["decompose"] and not row["named_decomposition"]:
        yield _line(formulas.name("result"), row["decompose"], "decomposition")
    for entry in row["reverse"]:
        yield _reverse(entry)
    for entry in row["forward"]:
        if entry["text"]:
            yield _line(
                formulas.over(formulas.name(entry["output"]), "˙"), entry["text"], "forward"
            )
        else:
            yield raw(f"<p>Forward: {AUTOMATIC[entry['word']]}</p>")
    yield from _steps(row)
    for function in row["functions"]:
        yield _function(function)


def _steps(fact: Fact) -> Iterator[str]:
    """What the operators are that exist for formulas alone."""
    for name in steps_of(fact):
        row = TABLE.row(name, TABLE.overloads(name)[0])
        doc = row.doc or examples.of(row.family, name).sentence
        link = f'<a href="{name}.html"><code>{name}</code></a>'
        yield raw(f"<p>{link}: {escape(doc)}</p>" if doc else f"<p>{link}</p>")


def _reverse(entry: Fact) -> str:
    if entry["text"]:
        inputs = [formulas.gradient(name) for name in entry["inputs"]]
        left = inputs[0] if len(inputs) == 1 else formulas.parentheses(formulas.separated(inputs))
        return _line(left, entry["text"], "reverse")
    names = ", ".join(f"`{name}`" for name in entry["inputs"])
    reason = f": {entry['reason']}" if entry["reason"] else ""
    return f"{names} {WORDS[entry['word']]}{reason}\n"


def _line(left: str, text: str, kind: str) -> str:
    """A formula in mathematics and as it is written."""
    try:
        shown = formulas.equation(left, formulas.expression(text))
    except formulas.Unprintable:
        shown = ""
    code = f"<code>{escape(' '.join(text.split()))}</code>"
    return raw(f'<div class="formula"><span class="kind">{kind}</span>{shown}{code}</div>')


def _function(function: Fact) -> str:
    head = f"<code>{escape(function['name'])}</code> <small>{escape(function['where'])}</small>"
    if not function["text"]:
        return raw(f"<p>{head}</p>")
    shown = " open" if function["text"].count("\n") < SHORT else ""
    opened, closed = raw(f"<details{shown}><summary>{head}</summary>"), raw("</details>")
    return f"{opened}\n```python\n{function['text']}\n```\n\n{closed}"


def source(place: str) -> str:
    """A place in the package, as text."""
    return f"`{place}`"


# -- rows, modes, laws ----------------------------------------------------------------------------


def _rows(fact: Fact) -> Iterator[str]:
    yield heading("In the table")
    for row in fact["rows"]:
        yield f"{source(row['where'])}\n\n```yaml\n{row['text']}\n```\n"


def _modes(fact: Fact) -> Iterator[str]:
    """Which modes there are, from where, and what becomes of it; one line where overloads agree."""
    yield heading("Where it runs")
    rows = fact["rows"]
    answers = {
        "reverse": [MODES[row["answers"]["reverse"]] for row in rows],
        "forward": [MODES[row["answers"]["forward"]] for row in rows],
        "second order": [_second(row) for row in rows],
        "vmap": [BATCHING[row["answers"]["batching"]] for row in rows],
        "compiled": [_compiled(row) for row in rows],
        "exported": [_exported(row) for row in rows],
        "in place": [_in_place(fact, row) for row in rows],
        "facts": ["; ".join(map(escape, row["facts"])) or "–" for row in rows],
    }
    lines: list[tuple[str, str]] = []
    for what, cells in answers.items():
        if len(set(cells)) == 1:
            lines.append((what, cells[0]))
            continue
        for row, cell in zip(rows, cells, strict=True):
            overload = row["full_name"].partition(".")[2]
            lines.append((what, f"<code>{overload}</code> {cell}"))
            what = ""
    yield table(lines, kind="modes")


def _second(row: Fact) -> str:
    if row["answers"]["reverse"] in ("not differentiable", "not written yet"):
        return "–"
    return "the formulas are made of operators, which are differentiated in turn"


def _compiled(row: Fact) -> str:
    text = row["becomes"].get("compiled", "–")
    c_text = "C text in the row; " if re.search(r"^  c:", row["text"], re.MULTILINE) else ""
    return escape(c_text + text)


def _exported(row: Fact) -> str:
    text = escape(row["becomes"].get("exported", "–"))
    return f"NumPy: <code>{text}</code>" if text.startswith("np.") else text


def _in_place(fact: Fact, row: Fact) -> str:
    return f"<code>{fact['name']}_</code>" if row["in_place"] else "–"


def _laws(fact: Fact) -> Iterator[str]:
    merged: dict[str, list[Fact]] = {}
    for row in fact["rows"]:
        for entry in row["laws"]:
            merged.setdefault(entry["law"], []).append(entry)
    if merged:
        yield heading("Laws")
        yield raw("<p>Checked when this page was made, on the first samples in float64.</p>")
        lines = (_law(law, entries) for law, entries in merged.items())
        yield table(lines, ("law", "samples", "largest error", "allowed"), "numbers")


def _certificates(name: str, lines: certificates.Lines) -> Iterator[str]:
    found = certificates.section(name, lines)
    if found:
        yield heading("Certificate")
        yield raw(found)


def _law(law: str, entries: list[Fact]) -> list[str]:
    broken = [e for e in entries if e["broken"]]
    if broken:
        raise AssertionError(broken[0]["broken"])
    worst = max(entries, key=lambda e: (e["error"] or 0.0) / (e["allowed"] or 1.0))
    samples = str(sum(e["samples"] for e in entries))
    if worst["error"] is None:
        return [LAWS[law], samples, "–", "–"]
    return [LAWS[law], samples, _number(worst["error"]), _number(worst["allowed"])]


def _number(value: float) -> str:
    return f"{value:.1e}" if value else "0"


# -- families and index ---------------------------------------------------------------------------


def family_page(family: str, found: list[Fact]) -> str:
    """The operators of a family, public ones first, each with its sentence."""
    public = [f for f in found if not f["name"].startswith("_")]
    private = [f for f in found if f["name"].startswith("_")]
    parts = [f"# {FAMILIES[family]}\n", f"Rows: `src/adjoint/table/{family}.yaml`\n"]
    if public:
        parts += ["| operator | |\n| --- | --- |"]
        parts += [f"| {_link(f)} | {_summary(f['sentence'])} |" for f in public]
    if private:
        parts += ["\n## Operators inside\n", "Steps of others; `ad.ops` has them.\n"]
        parts += ["| operator | |\n| --- | --- |"]
        parts += [f"| {_link(f)} | {_summary(f['sentence'])} |" for f in private]
    return "\n".join(parts) + "\n"


def _link(fact: Fact) -> str:
    return f"[`{_spelled(fact)}`](../{fact['name']}.md)"


def _spelled(fact: Fact) -> str:
    """linalg.svd"""
    return fact["called"].removeprefix("ad.")


def _summary(sentence: str) -> str:
    return re.sub(r"([|*_$<])", r"\\\1", sentence) if "`" not in sentence else sentence


def index(families: dict[str, list[Fact]]) -> str:
    """All families, and all public operators by name."""
    rows = sum(len(f["rows"]) for found in families.values() for f in found)
    names = sum(map(len, families.values()))
    parts = [
        "# Operators\n",
        f"The table has {rows} rows: {names} operators and their overloads. Each operator has a "
        "page, made from the table: what it does, an example, its derivatives, its row, where it "
        "runs, its laws.\n",
        "| family | operators | |\n| --- | ---: | --- |",
    ]
    for family, found in families.items():
        public = [f for f in found if not f["name"].startswith("_")] or found
        some = ", ".join(f"[`{_spelled(f)}`]({f['name']}.md)" for f in public[:5])
        parts.append(f"| [{FAMILIES[family]}](family/{family}.md) | {len(found)} | {some}, … |")
    entries = "\n".join(f"family/{family}" for family in families)
    parts.append(f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n")
    parts.append("## By name\n")
    public = sorted(
        (f for found in families.values() for f in found if not f["name"].startswith("_")),
        key=lambda f: _spelled(f).lower(),
    )
    for initial, group in itertools.groupby(public, key=lambda f: _spelled(f)[0].upper()):
        links = " ".join(f"[`{_spelled(f)}`]({f['name']}.md)" for f in group)
        parts.append(f"**{initial}** {links}\n")
    return "\n".join(parts) + "\n"


def write(facts: dict[str, Fact], lines: certificates.Lines, folder: Folder) -> None:
    """Write all pages of operators."""
    place = folder.root / "operators"
    families: dict[str, list[Fact]] = {family: [] for family in FAMILIES}
    for fact in facts.values():
        families[fact["family"]].append(fact)
        folder.write(place / f"{fact['name']}.md", page(fact, lines))
    families = {family: found for family, found in families.items() if found}
    for family, found in families.items():
        folder.write(place / "family" / f"{family}.md", family_page(family, found))
    folder.write(place / "index.md", index(families))
