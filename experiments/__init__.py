"""The results of the papers, reproduced on public data: each module with an ``EXPERIMENT`` is one experiment."""

from __future__ import annotations

import importlib
import pkgutil

from experiments.base import Experiment


def all_experiments() -> dict[str, Experiment]:
    """Every experiment by name, in alphabetical order."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    experiments = [module.EXPERIMENT for module in modules if hasattr(module, "EXPERIMENT")]
    return {experiment.name: experiment for experiment in sorted(experiments, key=lambda one: one.name)}
