"""Errors of the library in the words of the command line: options instead of parameters, data instead of X."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import fields
from functools import cache
from typing import Any, Final, get_type_hints

from marginrank.cli.commands.recommend import RatingOptions, RecommenderOptions
from marginrank.cli.options.evaluation_options import EvaluationOptions
from marginrank.cli.options.method_options import MethodOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.training_options import CheckpointOptions
from marginrank.cli.train_and_tune import TuneOptions

#: Parameters of the library whose options have other names.
_OTHER_NAMES: Final = {"C": "-C", "n_bins": "--bins", "validation": "--valid", "measures": "--measure", "k": "--k"}
#: Parameters with their values that are options without one.
_WHOLE: Final = {
    "allow_nan=True": "--missing nan",
    "overwrite=True": "--force",
    "regroup=True": "--regroup",
    "resume=True": "--resume",
}
#: Phrases that name objects of Python.
_PHRASES: Final = (
    (re.compile(r"\bX (?=has|holds)"), "the data "),
    (re.compile(r"\bX\b(?= was|;|$)"), "the data"),
    (re.compile(r"(?<![\w'])Queries\b"), "judged data"),
    (re.compile(r"\bRecommender\.save\b"), "`marginrank recommend train`"),
    (re.compile(r"(?<![\w'])feature_names\b"), "feature names"),
    (re.compile(r"(?<![\w'])document_ids\b"), "document ids"),
    (re.compile(r"(?<![\w'])query_weights\b"), "query weights"),
    (re.compile(r"(?<![\w`])pass (?=--|-C\b)"), "give "),
    (re.compile(r",? or None\b"), ""),
)
#: ``name=value`` with one or several values; what stands in parentheses, such as ``dorm(shape=log)``, is a spelling.
_ASSIGNED: Final = re.compile(
    r"\w*\([^()]*\)|\b(?P<name>\w+)=(?P<value>\[[^]]*\]|'[^']*'(?:(?:, | or )'[^']*')*|[A-Z]\w*\(\)|[\w.]+)?"
)
_IS: Final = re.compile(r"(?:^|(?<=: ))(?P<name>\w+)(?= (?:is|are) (?!missing|not|for))")


@cache
def options() -> dict[str, str]:
    """Return the option of each parameter of the library that has one.

    >>> options()["missing_topics"], options()["features"], options()["max_iter"], options()["n_bins"]
    ('--missing-topics', '--feature', '--max-iter', '--bins')
    """
    named = {}
    for group in (
        RatingOptions,
        RecommenderOptions,
        MethodOptions,
        TuneOptions,
        CheckpointOptions,
        ReadingOptions,
        EvaluationOptions,
    ):
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):
            named[field.name] = _declared(hints[field.name].__metadata__[0]) or f"--{field.name.replace('_', '-')}"
    return named | _OTHER_NAMES


def _declared(option: Any) -> str | None:
    """Return the long name that an option is declared with; typer takes the first argument for a default at first."""
    words = [word for word in (option.default, *(option.param_decls or ())) if isinstance(word, str)]
    return next((word for word in words if word.startswith("--")), None)


def in_options(message: str) -> str:
    """Name options where the library names parameters.

    >>> in_options("choose what it becomes: missing='nan', 'zero' or 'min'")
    'choose what it becomes: --missing nan, zero or min'
    >>> in_options("name the feature columns with features=['bm25', 'days old']")
    "name the feature columns with --feature bm25 --feature 'days old'"
    >>> in_options("StructuredLoss(measure='ap') has no tight bound; use bound='hinge', or pass regroup=True")
    "StructuredLoss(measure='ap') has no tight bound; use --bound hinge, or give --regroup"
    >>> in_options("max_iter is 0; at least one iteration is needed"), in_options("X has 3 features; fill it")
    ('--max-iter is 0; at least one iteration is needed', 'the data has 3 features; fill it')
    """
    message = _ASSIGNED.sub(_assigned, message)
    message = _IS.sub(lambda match: options().get(match["name"], match["name"]), message)
    for pattern, words in _PHRASES:
        message = pattern.sub(words, message)
    return message


def _assigned(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    if name is None or match[0] in _WHOLE:
        return _WHOLE.get(match[0], match[0])
    if name not in options():
        return match[0]
    if value is not None and value.startswith("["):
        return " ".join(f"{options()[name]} {shlex.quote(word)}" for word in ast.literal_eval(value))
    shown = "" if value is None else " " + value.replace("'", "").removesuffix("()").lower()
    return f"{options()[name]}{shown}"
