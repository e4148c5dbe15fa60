"""Training recommenders: MovieLens-100K, growing generated data, users folded in, and ``implicit`` beside it.

    python benchmarks/recommend.py [--ratings 100000 --ratings 1000000] [--rounds 30] [--data ../shared/data]

Generated data: users rate 100 items each, drawn by popularity, after 8 hidden tastes. A round improves all users and
all items once; times are of the clock, on all cores, and CPU seconds. Memory is the peak of the process so far, the
ratings and what generates them included. ``implicit`` is timed where it is installed, with 16 factors and its own
number of iterations; it solves another problem, so only the growth of its times compares. The last line is the exponent
e of CPU time ~ ratings^e, by least squares over the generated data, for a round and for ``implicit``.
"""

from __future__ import annotations

import importlib.util
import lzma
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import typer

from marginrank.recommend import Ratings, Recommender

PER_USER = 100


def generated(n_ratings: int, seed: int = 0) -> Ratings:
    rng = np.random.default_rng(seed)
    n_users, n_items = n_ratings // PER_USER, max(500, int(4 * n_ratings**0.5))
    shares = 1.0 / np.arange(10, n_items + 10)
    tastes, kinds = rng.standard_normal((n_users, 8)), rng.standard_normal((n_items, 8)) / 3
    quality = rng.standard_normal(n_items)
    users, items = np.repeat(np.arange(n_users), PER_USER), rng.choice(n_items, n_ratings, p=shares / shares.sum())
    _, first = np.unique(users * n_items + items, return_index=True)
    users, items = users[first], items[first]
    liking = quality[items] + rng.standard_normal(len(users))
    for factor in range(8):
        liking += tastes[users, factor] * kinds[items, factor]
    return Ratings.of((users, items, np.digitize(liking, [-2.0, -0.7, 0.7, 2.0]) + 1))


def movielens(data: Path) -> Ratings | None:
    path = data / "movielens-100k" / "ratings.tsv.xz"
    if not path.exists():
        return None
    table = np.loadtxt(lzma.decompress(path.read_bytes()).decode().splitlines()[1:], usecols=(0, 1, 2))
    return Ratings.of((table[:, 0], table[:, 1], table[:, 2]))


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    clock, cpu = time.perf_counter(), time.process_time()
    done = work()
    return done, time.perf_counter() - clock, time.process_time() - cpu


def implicit_als(ratings: Ratings) -> tuple[float, float] | None:
    if importlib.util.find_spec("implicit") is None:
        return None
    from implicit.als import AlternatingLeastSquares

    shape = len(ratings.users), len(ratings.items)
    table = sp.csr_matrix((ratings.values, ratings.item, ratings.offsets), shape=shape)
    model: Any = AlternatingLeastSquares(factors=16, random_state=0)
    _, clock, cpu = timed(lambda: model.fit(table, show_progress=False))
    return clock, cpu


def line(name: str, ratings: Ratings, rounds: int) -> tuple[float, float, float]:
    """Print a line; return the number of ratings, CPU seconds of a round, and those of implicit."""
    trained, clock, cpu = timed(lambda: Recommender(max_iter=rounds).fit(ratings))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rounds = sum(step.side == "users" for step in trained.trace_)
    some = ratings.of_users(np.arange(min(len(ratings.users), 5000)))
    _, _, folding = timed(lambda: trained.fold_in(some))
    cells = [f"{ratings.n_ratings:,}", f"{len(ratings.users):,}", f"{len(ratings.items):,}"]
    cells += [f"{clock:.1f}", f"{cpu:.1f}", str(rounds), f"{1e6 * cpu / rounds / ratings.n_ratings:.2f}"]
    other = implicit_als(ratings)
    cells += [f"{memory:.1f}", f"{1e3 * folding / len(some.users):.3f}"]
    cells += ["–", "–"] if other is None else [f"{other[0]:.1f}", f"{other[1]:.1f}"]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return ratings.n_ratings, cpu / rounds, np.nan if other is None else other[1]


def main(
    ratings: list[int] = typer.Option([100_000, 1_000_000]),  # noqa: B008
    rounds: int = 30,
    data: Path = Path("../shared/data"),
) -> None:
    Recommender(max_iter=1).fit(generated(10_000))  # compiles
    print(
        "| data | ratings | users | items | seconds | CPU seconds | rounds | µs of CPU per rating and round | peak "
        "memory, GiB | folding in, ms of CPU per user | implicit ALS, seconds | its CPU seconds |"
    )
    print("| --- " * 12 + "|")
    films = movielens(data)
    if films is not None:
        line("MovieLens-100K", films, rounds)
    lines = [line("generated", generated(n), rounds) for n in ratings]
    logs = np.log(np.array(lines))
    if len(lines) > 1:
        ours, theirs = (np.polyfit(logs[:, 0], logs[:, column], 1)[0] for column in (1, 2))
        print(f"\nexponent of a round {ours:.2f}, of implicit ALS {theirs:.2f}")


if __name__ == "__main__":
    typer.run(main)
