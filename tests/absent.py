"""PyTorch and JAX as if they were not installed, for tests that start Python."""

from __future__ import annotations

#: The first lines of a program. None in `sys.modules` would not do: SciPy takes it for a module that is loaded.
WITHOUT_TORCH_AND_JAX = """
import sys
class Absent:
    def find_spec(name, *_):
        if name in ('torch', 'jax'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Absent)
"""
