"""How the documentation is built."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parent / "experiments" / "results"
sys.path.insert(0, str(HERE))

from gallery_page import EXAMPLES, gallery_page  # noqa: E402
from registry_pages import measures_page, policies_table, presets_page  # noqa: E402

import marginrank  # noqa: E402

project = "marginrank"
author = project_copyright = "the marginrank developers"
release = version = marginrank.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"marginrank {version}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
# One module alone is documented as such.
html_domain_indices = False
html_search_scorer = str(HERE / "_static" / "search_order.js")
html_theme_options = {"navigation_with_keys": True}
# Formulas are plain text, so that pages need neither the network nor LaTeX.
myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}
# An extra of several GB, which pages can be built without.
autodoc_mock_imports = [
    "torch",
    "jax",
    "lancedb",
    "qdrant_client",
    "pyterrier",
    "langchain_core",
    "llama_index",
    "haystack",
]
napoleon_numpy_docstring = False
default_role = "code"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

MARKS = {
    "<!-- gallery -->": gallery_page,
    "<!-- measures -->": measures_page,
    "<!-- policies -->": policies_table,
    "<!-- presets -->": presets_page,
}


def fill_marks(app: Any, page: str, source: list[str]) -> None:
    """Put what the registries and the examples say in place of the marks."""
    for mark, make in MARKS.items():
        if mark in source[0]:
            source[0] = source[0].replace(mark, make())
    if page == "gallery":
        for script in EXAMPLES.iterdir():
            app.env.note_dependency(str(script), docname=page)


def copy_results(app: Any) -> None:  # noqa: ARG001
    """Show the results of the experiments as pages of the documentation."""
    shutil.rmtree(HERE / "results", ignore_errors=True)
    shutil.copytree(RESULTS, HERE / "results", ignore=shutil.ignore_patterns("*.json", ".cache"))


def leave_out(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:  # noqa: ARG001
    """Leave out methods that scikit-learn adds to every estimator."""
    return True if name == "set_output" or (name.startswith("set_") and name.endswith("_request")) else None


def setup(app: Any) -> None:
    """Connect the above."""
    app.connect("autodoc-skip-member", leave_out)
    app.connect("builder-inited", copy_results)
    app.connect("source-read", fill_marks)
