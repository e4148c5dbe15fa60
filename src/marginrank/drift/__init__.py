"""Tell how features have moved since training: quantiles that a model keeps, and their comparison with later data."""

from marginrank.lazy import attach

# __init__.pyi names what is exported; modules are loaded when their names are first used.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
