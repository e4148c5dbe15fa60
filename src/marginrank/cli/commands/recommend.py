"""``marginrank recommend``: train a recommender, recommend items to users, and evaluate it on held-out ratings."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

from marginrank.cli.exit_codes import Interrupted, UsageError
from marginrank.cli.options.shared_options import measure_names, policy_option, preset_names
from marginrank.cli.options.topic_options import TopicOptions
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.progress import TrainingProgress
from marginrank.cli.ranking_files import check_fields
from marginrank.cli.streams import note
from marginrank.cli.summary import STATES
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.text import count, facts, printable, table

if TYPE_CHECKING:
    from marginrank.recommend import Ratings, Recommendation, Recommender

EXAMPLES: Final = (
    "marginrank recommend train ratings.csv -o recommender.safetensors",
    "marginrank recommend recommend recommender.safetensors --user 7 --k 5",
)
_K: Final = 10
_POLICY: Final = "standard"
_HEADS: Final = ["user", "rank", "item", "score"]


@dataclass(frozen=True)
class RatingOptions:
    """Options of reading ratings."""

    panel: ClassVar = "Input"

    user: Annotated[
        str | None,
        typer.Option("--user-column", metavar="COLUMN", help="Column of users.", show_default="user, user_id, ..."),
    ] = None
    item: Annotated[
        str | None,
        typer.Option("--item-column", metavar="COLUMN", help="Column of items.", show_default="item, item_id, ..."),
    ] = None
    rating: Annotated[
        str | None,
        typer.Option("--rating-column", metavar="COLUMN", help="Column of ratings.", show_default="rating, grade, ..."),
    ] = None

    def read(self, path: Path, recommender: Recommender) -> Ratings:
        """Read ratings as a recommender takes them."""
        from marginrank.recommend import read_ratings  # noqa: PLC0415

        return read_ratings(
            path,
            user=self.user,
            item=self.item,
            rating=self.rating,
            shift=recommender.shift,
            rated=recommender.negatives is None,
        )


@dataclass(frozen=True)
class RecommenderOptions:
    """Options of training."""

    panel: ClassVar = "Training"

    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="MEASURE",
            help="The measure to train for, or the measures to evaluate.",
            show_default=DEFAULT_MEASURE,
            autocompletion=measure_names,
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train with the loss of this preset, or mmmf, instead of that of the measure.",
            autocompletion=preset_names,
        ),
    ] = None
    factors: Annotated[int, typer.Option(min=1, help="Number of factors per user and item.")] = 16
    C: Annotated[float, typer.Option("-C", help="Weight of the loss, per rating.", show_default="1/12")] = 1 / 12
    item_bias: Annotated[bool, typer.Option("--item-bias/--no-item-bias", help="Learn a bias of each item.")] = True
    popularity: Annotated[
        bool, typer.Option("--popularity/--no-popularity", help="Use how many users rated an item.")
    ] = True
    history: Annotated[int, typer.Option(min=0, help="Number of fixed columns computed from who rated what.")] = 8
    negatives: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="For implicit feedback: number of irrelevant items to draw per chosen item, or all others.",
        ),
    ] = None
    shift: Annotated[float, typer.Option(help="Number to add to all ratings, if some are negative.")] = 0.0
    max_iter: Annotated[int, typer.Option(min=1, help="Maximum number of rounds.")] = 30
    random_state: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0
    n_jobs: Annotated[int | None, typer.Option(help="Number of threads.", show_default="all cores")] = None

    @property
    def given(self) -> list[str]:
        """The options that are not the default ones, apart from the measure."""
        changed = [one.name for one in fields(self) if getattr(self, one.name) != one.default and one.name != "measure"]
        spelled = {"C": "-C", "item_bias": "--no-item-bias", "popularity": "--no-popularity"}
        return [spelled.get(name, f"--{name.replace('_', '-')}") for name in changed]

    def recommender(self) -> Recommender:
        """Return the recommender to train."""
        from marginrank.recommend import Recommender  # noqa: PLC0415

        if self.measure is not None and len(self.measure) > 1:
            raise UsageError("train for one measure, or a mix such as 'ndcg@10 + 0.5*ap'; give -m once")
        negatives: Any = self.negatives
        if negatives is not None and negatives != "all":
            if not negatives.isdecimal():
                raise UsageError(f"--negatives is {negatives!r}; give a whole number, or all")
            negatives = int(negatives)
        return Recommender(
            "ndcg@10" if self.measure is None else self.measure[0],
            loss=self.preset,
            factors=self.factors,
            C=self.C,
            item_bias=self.item_bias,
            popularity=self.popularity,
            history=self.history,
            negatives=negatives,
            shift=self.shift,
            max_iter=self.max_iter,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )


def command(
    action: Annotated[
        Literal["train", "recommend", "evaluate"],
        typer.Argument(metavar="ACTION", help="train RATINGS, recommend MODEL, or evaluate MODEL RATINGS."),
    ],
    sources: Annotated[list[Path], typer.Argument(metavar="FILE", help="The ratings, the model, or both.")],
    training: RecommenderOptions,
    columns: RatingOptions,
    topics: TopicOptions,
    output: Output,
    users: Annotated[
        list[str] | None, typer.Option("--user", metavar="ID", help="Recommend to this user.", show_default="all users")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Length of the lists.")] = _K,
    seen: Annotated[bool, typer.Option("--seen", help="Also recommend items that the user has rated.")] = False,
    among: Annotated[
        Literal["rated", "unseen"] | None,
        typer.Option(
            help="Rank the held-out items, or all items that the user did not rate in training.",
            show_default="rated; unseen with --negatives",
        ),
    ] = None,
    policy: Annotated[str, policy_option()] = _POLICY,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the model, or the lists as CSV, to this file.",
            rich_help_panel="Output",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Train a recommender on ratings, recommend items to users, or evaluate it on held-out ratings.

    Ratings are CSV, TSV, JSON Lines or Parquet with columns for user, item and rating; with --negatives, ratings are
    not needed. evaluate also reports catalog coverage and popularity bias. Ctrl-C ends training with the best model
    so far; the exit code is then 130.
    """
    _check_usage(action, sources, training, out)
    limit = topics.limit
    _check_options(
        action,
        training,
        columns,
        topics=topics.topics,
        users=users,
        k=k != _K,
        seen=seen,
        among=among,
        policy=policy != _POLICY,
    )
    check_inputs([*sources, *([] if topics.topics is None else [topics.topics])])
    check_outputs([out], inputs=sources, force=force)
    if action == "train":
        record, text = _train(sources[0], training, columns, out, force, quiet=output.quiet)
        output.summary(record, text)
        if record["stopped"] == "interrupted":
            raise Interrupted("the model is the best so far")
        return
    recommender = _load(sources[0])
    if action == "recommend":
        ids = recommender.user_ids_.tolist() if users is None else _ids(recommender, users)
        lists = recommender.recommend_to(ids, k, exclude_seen=not seen, **_limits(recommender, topics.read(), limit))
        _write(recommender, dict(zip(ids, lists, strict=True)), out, force, output)
    else:
        record, text = _evaluate(recommender, sources[1], training, columns, k=k, among=among, policy=policy)
        output.result(record, text)


def _check_usage(action: str, sources: Sequence[Path], training: RecommenderOptions, out: Path | None) -> None:
    expected = {"train": "RATINGS", "recommend": "MODEL", "evaluate": "MODEL RATINGS"}[action]
    if len(sources) != len(expected.split()):
        hint = "; name users with --user" if action == "recommend" else ""
        raise UsageError(f"{action} takes {expected}; give {count(len(expected.split()), 'file')}{hint}")
    if action == "train" and out is None:
        raise UsageError("train writes a model; give -o FILE")
    if action != "train" and training.given:
        raise UsageError(f"{training.given[0]} is for train; leave it out")
    if action == "evaluate" and out is not None:
        raise UsageError("evaluate writes no file; leave out -o")


def _check_options(action: str, training: RecommenderOptions, columns: RatingOptions, **given: Any) -> None:
    """Refuse options that the action does not use."""
    used = [
        ("--measure", training.measure, ("train", "evaluate")),
        ("--user-column", columns.user, ("train", "evaluate")),
        ("--item-column", columns.item, ("train", "evaluate")),
        ("--rating-column", columns.rating, ("train", "evaluate")),
        ("--user", given["users"], ("recommend",)),
        ("--topics", given["topics"], ("recommend",)),
        ("--k", given["k"], ("recommend", "evaluate")),
        ("--seen", given["seen"], ("recommend",)),
        ("--among", given["among"], ("evaluate",)),
        ("--policy", given["policy"], ("evaluate",)),
    ]
    for option, value, actions in used:
        if value and action not in actions:
            raise UsageError(f"{option} is for {' and '.join(actions)}; leave it out")


def _load(path: Path) -> Recommender:
    from marginrank.recommend import Recommender  # noqa: PLC0415

    return Recommender.load(path)


def describe_model(path: Path) -> tuple[dict[str, Any], str]:
    """Read a model, and describe it as values and as text."""
    recommender = _load(path)
    record = {"kind": "model", "holds": "recommender", "path": path, **_record(recommender)}
    return record, facts([("model", f"{printable(str(path))}, a recommender"), *_facts(recommender)])


def _record(recommender: Recommender) -> dict[str, Any]:
    seen, last = recommender.model_.seen, recommender.trace_[-1]
    return {
        "users": len(seen.users),
        "items": len(seen.items),
        "ratings": seen.n_ratings,
        "measure": recommender.measure,
        "loss": str(recommender.loss_),
        "C": recommender.C_,
        "factors": recommender.factors,
        "objective": last.objective,
        "gap": last.gap,
        "rounds": sum(step.side == "users" for step in recommender.trace_),
        "stopped": recommender.model_.stopped,
    }


def _facts(recommender: Recommender) -> list[tuple[str, str]]:
    seen, last = recommender.model_.seen, recommender.trace_[-1]
    rounds = sum(step.side == "users" for step in recommender.trace_)
    return [
        ("ratings", f"{seen.n_ratings:,} of {count(len(seen.items), 'item')} by {count(len(seen.users), 'user')}"),
        ("measure", recommender.measure),
        ("loss", f"{recommender.loss_}, C = {recommender.C_:g}"),
        ("factors", str(recommender.factors)),
        (
            "objective",
            f"{last.objective:.6g}, {STATES[recommender.model_.stopped]} after {count(rounds, 'round')}, "
            f"gap of the last half step {last.gap:.2g}",
        ),
    ]


def _train(
    source: Path, training: RecommenderOptions, columns: RatingOptions, out: Path | None, force: bool, *, quiet: bool
) -> tuple[dict[str, Any], str]:
    recommender = training.recommender()
    ratings = columns.read(source, recommender)
    with TrainingProgress(quiet=quiet) as progress:
        recommender.fit(ratings, callback=lambda step: progress.say(f"{step.side}, objective {step.objective:.6g}"))
    assert out is not None
    with atomic_output(out, force=force) as place:
        recommender.save(place)
    return {**_record(recommender), "model": out}, facts([*_facts(recommender), ("wrote", printable(str(out)))])


def _limits(recommender: Recommender, topics: dict[str, dict[str, float]] | None, limit: float) -> dict[str, Any]:
    """Topics by the ids of the model, and their limit, as arguments of `Recommender.recommend_to`."""
    from marginrank.evaluation import Diversify  # noqa: PLC0415

    if topics is None:
        return {}
    ids = {str(one): one for one in recommender.item_ids_.tolist()}
    return {"topics": {ids.get(one, one): given for one, given in topics.items()}, "diversify": Diversify(limit)}


def _write(
    recommender: Recommender, lists: dict[Any, list[Recommendation]], out: Path | None, force: bool, output: Output
) -> None:
    for user in sorted(set(lists) - set(recommender.user_ids_.tolist())):
        note(f"user {user} is not in the training data, and gets the items that are best for all users")
    record = {
        "lists": [
            {"user": user, "items": [{"item": one.item, "score": one.score} for one in found]}
            for user, found in lists.items()
        ],
        "output": out,
    }
    if out is None:
        output.result(record, table([_HEADS, *_rows(lists)], right=[1, 3]))
        return
    check_fields("CSV", item=recommender.item_ids_, user=recommender.user_ids_)
    with atomic_output(out, force=force) as place:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([_HEADS, *_rows(lists, digits=17)])
        place.write_text(text.getvalue(), encoding="utf-8")
    output.summary(record, f"{count(len(lists), 'list')} written to {printable(str(out))}")


def _ids(recommender: Recommender, users: list[str]) -> list[Any]:
    """Ids as in training: numbers where those of the model are."""
    if recommender.user_ids_.dtype.kind in "UO":
        return list(users)
    for user in users:
        if not user.removeprefix("-").isdecimal():
            raise UsageError(f"--user is {user!r}, and the users of this model have numbers; give a number")
    return [int(user) for user in users]


def _rows(lists: dict[Any, list[Recommendation]], digits: int = 5) -> list[list[str]]:
    return [
        [str(user), str(rank), str(one.item), f"{one.score:.{digits}g}"]
        for user, found in lists.items()
        for rank, one in enumerate(found, 1)
    ]


def _evaluate(
    recommender: Recommender,
    source: Path,
    training: RecommenderOptions,
    columns: RatingOptions,
    *,
    k: int,
    among: Literal["rated", "unseen"] | None,
    policy: str,
) -> tuple[dict[str, Any], str]:
    from marginrank.recommend import item_coverage  # noqa: PLC0415

    held_out = columns.read(source, recommender)
    results = recommender.evaluate(held_out, training.measure, among=among, policy=policy)
    reach = item_coverage(recommender, k)
    document = results.to_dict()
    del document["per_query"]
    record = {**document, "catalog": {**vars(reach), "popularity_bias": reach.popularity_bias}}
    return record, f"{results}\n\n{reach}"
