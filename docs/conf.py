"""How `make docs` builds the site: offline, with every warning an error, notebooks executed."""

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from movegrad._version import __version__  # noqa: E402

project = "movegrad"
author = "The movegrad developers"
project_copyright = "The movegrad developers"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "repository",  # docs/_ext: pages and files of the repository outside of docs/, figures from JSON
]
exclude_patterns = ["_build", "_ext", "**/.ipynb_checkpoints", "jupyter_execute"]
nitpicky = False
# Levels of headings in READMEs; "solutions" as a type in a docstring is a word, and the name of several attributes.
suppress_warnings = ["myst.header", "ref.python"]

# --- pages -------------------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "substitution"]  # no math: MathJax would come from the network
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto"]
nb_execution_mode = "cache"
# Notebooks run again when the library, or what they are made of, has changed.
_read = sorted([*HERE.parent.glob("src/movegrad/**/*.py"), *HERE.parent.glob("examples/*.py")])
nb_execution_cache_path = str(
    HERE.parent / "build" / "notebooks" / hashlib.sha256(b"".join(path.read_bytes() for path in _read)).hexdigest()[:16]
)
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds for a cell, on a busy machine
nb_merge_streams = True
nb_execution_show_tb = True

# --- the reference -----------------------------------------------------------------------------------------------------------

autosummary_generate = True
autosummary_imported_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it
autodoc_mock_imports: list[str] = []
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

# --- how it looks --------------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "movegrad"
html_static_path = ["_static"]
html_css_files = ["movegrad.css"]
html_favicon = "_static/favicon.svg"
html_extra_path = ["../experiments/dvrptw/results/quick/day.html"]
html_show_sourcelink = False
html_copy_source = False
pygments_style = "default"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}
