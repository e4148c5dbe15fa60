"""Recommendation of items to users by ranking matrix factorisation."""

import lazy_loader

# __init__.pyi names what is exported; modules are loaded when their names are first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
