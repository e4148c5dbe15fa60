"""One loss for clicks and another for judgements."""

from __future__ import annotations

from dataclasses import dataclass, replace

from marginrank.losses.base import Bound, Judgements, Loss, PreparedLoss


@dataclass(frozen=True, repr=False)
class ClicksAndJudgements(Loss):
    """The loss ``clicks`` for queries with document weights, and ``judgements`` for queries with grades.

    Clicks need a sum over relevant documents, such as pairwise hinges; judgements may have the loss of any measure.
    `marginrank.clicks.with_judgements` puts both kinds of queries together.

    >>> from marginrank.losses import PairwiseHinge, StructuredLoss
    >>> loss = ClicksAndJudgements(clicks=PairwiseHinge(), judgements=StructuredLoss("ap"))
    >>> loss([1, 0], [0.0, 0.0])[0].tolist()
    [0.5]
    >>> loss.prepare([1, 0], weights=[4.0, 1.0])([0.0, 0.0])[0].tolist()
    [1.0]
    """

    clicks: Loss
    judgements: Loss

    def __post_init__(self) -> None:
        for loss in (self.clicks, self.judgements):
            if not isinstance(loss, Loss):
                raise TypeError(f"{loss!r} is not a loss; give for example StructuredLoss('ndcg@10')")
        super().__post_init__()

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Prepare the loss of judgements."""
        return self.judgements._of(judged)

    @property
    def of_clicks(self) -> Loss:
        """The loss of clicks."""
        return self.clicks

    @property
    def criterion(self) -> str:
        """The criterion of the judgements."""
        return self.judgements.criterion

    @property
    def convex(self) -> bool:
        """Whether both are."""
        return self.clicks.convex and self.judgements.convex

    @property
    def smooth(self) -> bool:
        """Whether both are."""
        return self.clicks.smooth and self.judgements.smooth

    @property
    def exact(self) -> bool:
        """Whether both are."""
        return self.clicks.exact and self.judgements.exact

    @property
    def sums_relevant(self) -> bool:
        """Whether the loss of clicks is a sum over relevant documents."""
        return self.clicks.sums_relevant

    @property
    def depends_on_rows(self) -> bool:
        """Whether either does."""
        return self.clicks.depends_on_rows or self.judgements.depends_on_rows

    @property
    def majorant(self) -> Loss | None:
        """The majorants of both; a convex one is its own."""
        if self.convex:
            return None
        clicks, judgements = (loss.majorant or loss for loss in (self.clicks, self.judgements))
        return replace(self, clicks=clicks, judgements=judgements)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The bounds that either has."""
        return ("hinge", "tight") if "tight" in (*self.clicks.bounds, *self.judgements.bounds) else ("hinge",)

    def bounded(self, bound: Bound) -> Loss:
        """Return the same with another bound of those that have it."""
        clicks, judgements = (
            loss.bounded(bound) if bound in loss.bounds else loss for loss in (self.clicks, self.judgements)
        )
        return replace(self, clicks=clicks, judgements=judgements)
