"""Starting points of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marginrank.model.model import Model
from marginrank.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Start:
    """Where training begins.

    Args:
        theta: The parameters to begin with.
        model: The model that they are of, whose form and scaling are kept; None where these are learned anew.
        centered: Whether the regulariser is minimal at these parameters.
    """

    theta: FloatArray
    model: Model | None = None
    centered: bool = False

    @classmethod
    def of(cls, start: Any, center: Any) -> Start | None:
        """Read the arguments of `fit`: models, or fitted rankers."""
        if start is None and center is None:
            return None
        if start is not None and center is not None:
            raise TypeError("give start or center, not both; training with a center starts there")
        name, given = ("start", start) if center is None else ("center", center)
        model = given if isinstance(given, Model) else getattr(given, "model_", None)
        if not isinstance(model, Model):
            raise TypeError(f"{name} is {given!r}; give a Model or a fitted ranker, such as load('model.safetensors')")
        return cls(model.theta, model, center is not None)
