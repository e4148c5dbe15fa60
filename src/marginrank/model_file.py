"""The model file: a `container` of the model's arrays under everything that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.container import Family, read_container, write_container
from marginrank.errors import DataError
from marginrank.sources import open_input
from marginrank.typing import AnyArray

#: How a file name of a model ends.
SUFFIX: Final = ".safetensors"
_MODELS: Final = Family("marginrank", "model file", "copy it again or save the model again")


def write_model(
    path: str | Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], *, overwrite: bool = True
) -> None:
    """Write a model file, whole or not at all.

    Args:
        path: The file to write; its folder has to exist.
        kind: What the file holds, such as ``ranker``.
        header: Plain JSON values; numbers are finite.
        arrays: Arrays by name.
        overwrite: Replace a file of that name instead of refusing it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/a.safetensors", "ranker", {"C": 2.0}, {"theta": np.array([0.5, -1.0])})
    ...     kind, header, arrays = read_model(f"{folder}/a.safetensors")
    >>> kind, header["C"], arrays["theta"].tolist()
    ('ranker', 2.0, [0.5, -1.0])
    """
    write_container(path, _MODELS, kind, header, arrays, overwrite=overwrite)


def is_model(path: Path) -> bool:
    """Tell a model file by how it begins."""
    if path.is_dir() or not path.exists():
        return False
    with open_input(path) as file:
        return _MODELS.begins(file.read(208))


def holds(path: str | Path) -> str:
    """Return what kind of model a file holds, such as ``ranker``, by its header alone."""
    return read_container(path, _MODELS).kind


def read_model(path: str | Path) -> tuple[str, dict[str, Any], dict[str, AnyArray]]:
    """Read a model file: what kind it is of, its header, and its arrays by name.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: It is not a model file, it is damaged, or a newer marginrank wrote it.
    """
    content = read_container(path, _MODELS, mapped=False)
    if content.damaged():
        raise DataError("damaged model file (an array does not match its digest); copy it again", path=path)
    return content.kind, content.header, {name: np.array(array) for name, array in content.arrays.items()}


class reading:  # noqa: N801
    """Turn whatever goes wrong with the content of a file into a `DataError` with its path."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Name the file."""
        if isinstance(error, DataError):
            raise DataError(error.problem, path=self.path) from None
        if isinstance(error, ArithmeticError | AttributeError | LookupError | RecursionError | TypeError | ValueError):
            why = ascii(str(error))[1:-1]
            raise DataError(f"this model is incomplete or contradicts itself ({why}); save it again", path=self.path)
