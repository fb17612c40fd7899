"""Configuration of Sphinx; `python -m docs.building` runs it on docs/_build/source."""

from pathlib import Path

from adjoint import __version__

project = "adjoint"
author = "The adjoint authors"
copyright = f"2026, {author}"
release = version = __version__
extensions = ["myst_parser", "docs.building.extension"]
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
html_math_renderer = "mathml"
maximum_signature_line_length = 120  # parameters of longer ones stand in lines of their own
