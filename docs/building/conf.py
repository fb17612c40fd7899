"""Configuration of Sphinx; `python -m docs.building` runs it on docs/_build/source."""

import shutil
from pathlib import Path

import latex2mathml.converter
import ziamath
from docutils import nodes

from adjoint import __version__

project = "adjoint"
author = "The adjoint authors"
copyright = f"2026, {author}"
release = version = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]
html_theme = "furo"
html_title = "adjoint"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["style.css"]
html_favicon = str(Path(__file__).parent / "static" / "icon.svg")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2f55b0", "color-brand-content": "#2f55b0"},
    "dark_css_variables": {"color-brand-primary": "#8fb2ff", "color-brand-content": "#8fb2ff"},
}
add_module_names = False
html_math_renderer = "mathml"


def mathml(translator, node) -> None:
    """A formula in the text of a page: TeX, made MathML when the site is built."""
    display = "block" if node.tagname == "math_block" else "inline"
    translator.body.append(latex2mathml.converter.convert(node.astext(), display=display))
    raise nodes.SkipNode


def add_font(app, exception) -> None:
    """Formulas look the same everywhere: STIX Two Math (SIL Open Font License), from ziamath."""
    if exception is None:
        font = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
        shutil.copy(font, Path(app.outdir) / "_static" / "math.ttf")


def setup(app) -> None:
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.connect("build-finished", add_font)
