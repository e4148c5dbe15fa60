"""Scorers: how parameters and features give scores, and the way back; one folder each.

A scorer is a frozen dataclass of its options; its ``name`` is its spelling. Training gives it a form, made of arrays,
which a model file can hold; the terms of the form compute the scores.
"""

from marginrank.runtime.lazy_imports import attach

# __init__.pyi names what is exported; modules are loaded when their names are first used.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
