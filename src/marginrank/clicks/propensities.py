"""`Propensities`, the probability that a position is examined, and the correction of clicks by it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marginrank.clicks.click_log import ClickLog, check_propensities
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.runtime.text import table
from marginrank.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Propensities:
    """Propensities of positions 1, 2, ..., given or estimated.

    A click at position k counts 1/p_k, so that in expectation relevant documents count the same wherever they were
    shown: Joachims, Swaminathan and Schnabel (WSDM 2017). With ``trust``, P(click) = α_k·relevance + β_k with
    α_k = p_k (ε⁺_k − ε⁻_k) and β_k = p_k ε⁻_k, and the correction is affine, (click − β_k)/α_k: Vardasbi, Oosterhuis
    and de Rijke (CIKM 2020).

    >>> print(Propensities.power(1.0, depth=3, clip=0.4))
    position  propensity  used    bias by clipping
           1  1.0000      1.0000  0.0%
           2  0.5000      0.5000  0.0%
           3  0.3333      0.4000  -16.7%

    Args:
        values: p_k, above 0. Given ones are at most 1; estimates are relative to position 1 and may be above.
        clip: Propensities below it count as this, which bounds the weights and makes clicks there count too little.
        trust: ε⁺ and ε⁻ by position: probabilities of a click on examined documents, relevant or not.
        interval: Lower and upper ends of confidence intervals, if the values were estimated.
        assumes: What the estimate assumes.
    """

    values: FloatArray
    clip: float = 0.0
    trust: tuple[FloatArray, FloatArray] | None = None
    interval: tuple[FloatArray, FloatArray] | None = None
    assumes: str = "given"

    def __post_init__(self) -> None:
        if not np.all((self.values > 0) & np.isfinite(self.values)):
            raise DataError("propensities must be above 0; a position that nobody examines has no clicks to correct")
        if not 0 <= self.clip <= 1:
            raise ParameterError(Parameter("clip"), f" is {self.clip:g}; clip propensities at a number from 0 to 1")
        if self.trust is not None and not np.all(self.trust[0] > self.trust[1]):
            raise ParameterError(Parameter("trust"), ": relevant documents must be clicked more often than others")

    @classmethod
    def of(
        cls, values: npt.ArrayLike, *, clip: float = 0.0, trust: Sequence[npt.ArrayLike] | None = None
    ) -> Propensities:
        """Return the propensities of a table: one for each position."""
        table_of = np.atleast_1d(np.asarray(values, dtype=np.float64))
        ends = None
        if trust is not None:
            high, low = (np.broadcast_to(np.asarray(e, dtype=np.float64), table_of.shape) for e in trust)
            ends = (high, low)
        return cls(check_propensities(table_of), clip, ends)

    @classmethod
    def power(cls, eta: float, depth: int, *, clip: float = 0.0) -> Propensities:
        """Return p_k = 1/k^η for positions up to a depth."""
        if eta < 0:
            raise ParameterError(Parameter("eta"), f" is {eta:g}; it must not be negative")
        return cls(np.arange(1, depth + 1, dtype=np.float64) ** -float(eta), clip)

    def clipped(self, clip: float) -> Propensities:
        """Return the same propensities, clipped."""
        return replace(self, clip=clip)

    @property
    def used(self) -> FloatArray:
        """The propensities after clipping."""
        return np.maximum(self.values, self.clip)

    @property
    def clipping_bias(self) -> FloatArray:
        """Relative bias of the weight of a relevant document at each position: p_k/max(p_k, clip) − 1."""
        return np.asarray(self.values / self.used - 1)

    def corrected(self, log: ClickLog) -> FloatArray:
        """Return what each row of a log tells of relevance: clicks/p, or (clicks − β shown)/α with trust bias.

        >>> log = ClickLog.from_arrays([1, 1], ["x", "y"], [1, 2], [1, 1])
        >>> Propensities.power(1.0, 2).corrected(log).tolist()
        [1.0, 2.0]
        """
        clicks, scale = self.evidence(log)
        return clicks / scale

    def evidence(self, log: ClickLog) -> tuple[FloatArray, FloatArray]:
        """Return clicks, without those that trust makes, and what one impression is expected to have if relevant.

        They are clicks and p or, with trust bias, clicks − β shown and α.
        """
        if self.trust is None:
            return log.clicks, self.at(log)
        self._check_depth(log)
        at = log.position - 1
        alpha, beta = self.used * (self.trust[0] - self.trust[1]), self.used * self.trust[1]
        return np.asarray(log.clicks - beta[at] * log.shown), np.asarray(alpha[at])

    def at(self, log: ClickLog) -> FloatArray:
        """Return the propensity of each row of a log, after clipping; refuse trust bias, which is not one number."""
        if self.trust is not None:
            raise DataError(
                "a correction of trust bias is not a propensity of rows; give it where the log is used, as in "
                "log.to_queries(propensities)"
            )
        self._check_depth(log)
        return np.asarray(self.used[log.position - 1])

    def _check_depth(self, log: ClickLog) -> None:
        if log.depth > len(self.values):
            raise DataError(
                f"the log has position {log.depth}, and there are propensities up to {len(self.values)}; leave out the "
                "rows below, as in log.rows(log.position <= n), or give more propensities"
            )

    def __str__(self) -> str:
        head = ["position", "propensity", *(["interval"] if self.interval else []), "used", "bias by clipping"]
        rows = []
        for k, value in enumerate(self.values):
            ends = [f"{self.interval[0][k]:.4f}..{self.interval[1][k]:.4f}"] if self.interval else []
            rows.append([str(k + 1), f"{value:.4f}", *ends, f"{self.used[k]:.4f}", f"{self.clipping_bias[k]:.1%}"])
        return table([head, *rows], right=[0])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values."""
        return {
            "propensities": self.values.tolist(),
            "intervals": None if self.interval is None else np.transpose(self.interval).tolist(),
            "clip": self.clip,
            "trust": None if self.trust is None else [ends.tolist() for ends in self.trust],
            "clipping_bias": self.clipping_bias.tolist(),
            "assumes": self.assumes,
        }

    @classmethod
    def read(cls, path: str | Path) -> Propensities:
        """Read propensities from a JSON file with what `to_dict` returns: that of ``marginrank clicks propensities``.

        Only ``propensities`` is needed.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            values = np.asarray(content["propensities"], dtype=np.float64)
            ends = content.get("intervals")
            interval = None if ends is None else np.asarray(ends, dtype=np.float64).T
            trust = content.get("trust")
            return cls(
                values,
                float(content.get("clip", 0.0)),
                None if trust is None else (np.asarray(trust[0]), np.asarray(trust[1])),
                None if interval is None else (interval[0], np.nan_to_num(interval[1], nan=np.inf)),  # JSON has null
                str(content.get("assumes", "given")),
            )
        except DataError as error:
            raise error.at(path) from None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            advice = 'this has no propensities; write {"propensities": [1.0, 0.6, ...]}, or estimate them'
            raise DataError(advice, path=path) from None

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot the curve with its intervals; needs matplotlib."""
        from marginrank.model.plots import new_figure  # noqa: PLC0415

        figure = new_figure(6.4, 4.0)
        axes = figure.subplots()
        k = np.arange(1, len(self.values) + 1)
        spread = None if self.interval is None else np.abs(np.stack(self.interval) - self.values)
        axes.errorbar(k, self.values, spread, marker="o", capsize=3, label="propensity")
        if self.clip:
            axes.axhline(self.clip, linestyle=":", color="gray", label="clip")
        axes.set(xlabel="position", ylabel="propensity, relative to position 1", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure


def corrected_clicks(log: ClickLog, propensities: Propensities | None = None) -> FloatArray:
    """Return the corrected clicks of each row, by given propensities or those of the log."""
    clicks, scale = _evidence(log, propensities)
    return clicks / scale


def _evidence(log: ClickLog, propensities: Propensities | None) -> tuple[FloatArray, FloatArray]:
    if propensities is not None:
        return propensities.evidence(log)
    if log.propensity is None:
        raise DataError(
            "the log has no propensities; estimate them with estimate_propensities(log), or give "
            "them: log.with_propensities(Propensities.power(1.0, depth=log.depth))"
        )
    return log.clicks, log.propensity


def document_weights(log: ClickLog, propensities: Propensities | None = None) -> FloatArray:
    """Return the corrected clicks of each row of ``log.documents``: what a click log says of their relevance."""
    weights = np.bincount(log.pair, corrected_clicks(log, propensities), log.documents.n_documents)
    return weights.astype(np.float64)


def exposure_weights(log: ClickLog, propensities: Propensities | None = None) -> FloatArray:
    """Return the corrected clicks of each document as if it had been shown in all impressions of its query.

    w = impressions of the query · Σ clicks / Σ shown·p, with the sums over all positions of the document. Given what
    was shown, its expectation is the relevance times the impressions, also for documents that only some rankers show,
    which Σ clicks/p counts too little: the policy-aware estimate of Oosterhuis and de Rijke (SIGIR 2020), with the
    impressions of the log in place of the policy. For one ranking per query both are the same.

    >>> log = ClickLog.from_arrays([1, 1, 1], ["x", "y", "x"], [1, 2, 1], [0, 1, 1])      # y was shown in one of two
    >>> curve = Propensities.power(1.0, 2)
    >>> exposure_weights(log, curve).tolist(), document_weights(log, curve).tolist()
    ([1.0, 4.0], [1.0, 2.0])
    """
    clicks, scale = _evidence(log, propensities)
    n = log.documents.n_documents
    total, exposure = (np.bincount(log.pair, values, n) for values in (clicks, log.shown * scale))
    rate = np.divide(total, exposure, out=np.zeros(n), where=exposure > 0)
    return np.asarray(rate * log.impressions[log.documents.query_of_row])
