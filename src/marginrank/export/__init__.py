"""Exports of models to search engines, databases and languages: one module per target.

A target is a frozen dataclass of its options in a module of this folder; its ``name`` is its spelling. It says which
scoring functions it takes, writes them down, and says what to do next. Every export comes with a check file.
"""

from marginrank.runtime.lazy_imports import attach

# __init__.pyi names what is exported; modules are loaded when their names are first used.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
