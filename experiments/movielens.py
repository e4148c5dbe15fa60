"""MovieLens-100K: 100,000 ratings of films, one to five stars."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import numpy as np

from marginrank.recommend import Ratings


@cache
def ratings(data: Path) -> Ratings:
    """Read all ratings."""
    text = lzma.decompress((data / "movielens-100k" / "ratings.tsv.xz").read_bytes()).decode()
    table = np.loadtxt(text.splitlines()[1:], delimiter="\t", usecols=(0, 1, 2))
    return Ratings.of((table[:, 0], table[:, 1], table[:, 2]))
