"""Grades that are missing: the documents that nobody judged."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from marginrank.errors import Parameter, ParameterError
from marginrank.typing import FloatArray

#: The grade of an unjudged document in files and arrays, beside NaN and nothing at all.
UNJUDGED: Final = -1.0
#: What counts as unjudged, for messages.
UNJUDGED_GRADES: Final = "NaN, -1 and an empty cell mean unjudged"
#: Why training is refused if no document has a grade.
NOTHING_JUDGED: Final = f"no document is judged, so there is nothing to learn; {UNJUDGED_GRADES}; give some grades"
#: Why a loss or a bound refuses documents without a grade.
SOME_UNJUDGED: Final = (
    "some documents are unjudged; leave them out with queries.with_unjudged('skip'), or count them as irrelevant with "
    "queries.with_unjudged('irrelevant')"
)

#: What becomes of unjudged documents: they count as irrelevant, or they are left out.
UnjudgedRule: TypeAlias = Literal["irrelevant", "skip"]


def check_unjudged(unjudged: str) -> UnjudgedRule:
    """Return the rule; refuse one that does not exist."""
    for rule in get_args(UnjudgedRule):
        if unjudged == rule:
            return rule  # type: ignore[no-any-return]
    raise ParameterError(Parameter("unjudged"), f" is {unjudged!r}; choose 'skip' or 'irrelevant'")


def with_nan(grades: FloatArray) -> FloatArray:
    """Return grades with NaN for −1; the same array if no grade is missing.

    >>> with_nan(np.array([2.0, -1.0, np.nan])).tolist()
    [2.0, nan, nan]
    """
    missing = np.isnan(grades) | (grades == UNJUDGED)
    # One NaN for all, as the fingerprint of the data depends on its bits.
    return np.where(missing, np.nan, grades) if missing.any() else grades
