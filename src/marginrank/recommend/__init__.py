"""Recommendation of items to users by ranking matrix factorization."""

from marginrank.runtime.lazy_imports import attach

# __init__.pyi names what is exported; modules are loaded when their names are first used.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
