"""Settings of Sphinx: `make docs` builds the pages of this folder, without a connection."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

import generated  # noqa: E402 - found by the path above

from jpwr import __version__  # noqa: E402

project, author = "CARAML", "The CARAML suite's contributors"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
highlight_language = "none"  # of blocks that name none
html_theme = "furo"
html_title = f"CARAML {release}"
html_theme_options = {"source_edit_link": "", "footer_icons": []}
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_css_files = ["wide.css"]
html_static_path = ["static"]
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "code"  # as in the docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "description"


def setup(app):
    """Fill generated parts into pages when Sphinx reads them."""
    app.connect("source-read", generated.fill_in)
