"""Policies for ties, short lists and queries without relevant documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from marginrank.runtime.option_objects import check_types
from marginrank.runtime.text import did_you_mean

#: Order of documents with equal scores: the mean over all orders, as they come in the input, document ids descending
#: (trec_eval), or the order that is worst for the system.
Ties: TypeAlias = Literal["average", "input", "document_id", "worst"]

#: Value of a query without relevant documents: none (it is left out), 0 or 1.
Empty: TypeAlias = Literal["skip", "zero", "one"]


@dataclass(frozen=True)
class Policy:
    """Rules of evaluation that measures leave open: ties, short lists, queries without relevant documents."""

    name: str
    summary: str
    ties: Ties = "input"
    empty: Empty = "zero"
    #: Measures whose value @k of a list shorter than k is 0; the others pad it with irrelevant documents.
    zero_if_short: tuple[str, ...] = ()
    #: Parameters of measures whose spelling does not name them.
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(self, "policy")


POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy
    for policy in (
        Policy(
            "standard",
            "queries without relevant documents are left out; ties count their average over all orders",
            ties="average",
            empty="skip",
        ),
        Policy(
            "letor3",
            "Eval-Score-3.0.pl of LETOR 3.0: NDCG@k and P@k of a list shorter than k are 0",
            zero_if_short=("ndcg", "p"),
            parameters={"discount": "letor"},
        ),
        Policy(
            "letor4",
            "Eval-Score-4.0.pl of LETOR 4.0: NDCG@k of a list shorter than k is 0",
            zero_if_short=("ndcg",),
            parameters={"discount": "letor"},
        ),
        Policy(
            "mslr",
            "eval-score-mslr.pl: as letor4, relevant from grade 2 on",
            zero_if_short=("ndcg",),
            parameters={"discount": "letor", "rel": 2},
        ),
        Policy(
            "trec",
            "trec_eval: linear gain, ties by document id descending",
            ties="document_id",
            parameters={"gain": "linear"},
        ),
        Policy(
            "lightgbm",
            "LightGBM and XGBoost: a query without relevant documents counts 1",
            empty="one",
        ),
    )
}


def parse_policy(policy: str | Policy) -> Policy:
    """Find a policy by name; a policy is returned as it is.

    >>> parse_policy("trec").ties
    'document_id'
    >>> parse_policy("stadard")
    Traceback (most recent call last):
    ValueError: unknown policy 'stadard'; did you mean 'standard'? known: standard, letor3, letor4, mslr, trec, lightgbm
    """
    if isinstance(policy, Policy):
        return policy
    if not isinstance(policy, str):
        raise TypeError(f"policy is {policy!r}; give a Policy or the name of one: {', '.join(POLICIES)}")
    if policy not in POLICIES:
        hint = did_you_mean(policy, POLICIES)
        raise ValueError(f"unknown policy {policy!r}; {hint}known: {', '.join(POLICIES)}")
    return POLICIES[policy]
