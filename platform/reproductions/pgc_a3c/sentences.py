"""Which sentences of [OT20] hold in our trials: each is decided by comparisons of cells, stated one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from dprl.algorithms.base import Float64Array
from dprl.platform.reproductions.pgc_a3c import published
from dprl.platform.reproductions.pgc_a3c.published import BUFFERS, EPSILONS, LAPLACE, PROJECTED, Quote
from dprl.platform.reproductions.pgc_a3c.trials import ELEMENTWISE, MECHANISMS, Key, Trials
from dprl.platform.reproductions.resampling import Comparison, Statistic, compared, mean, median, share, trial_range

EARLY = 10_000
"""Submissions; the paper does not say when its early stage ends."""
Verdict = Literal["holds", "open", "fails", "not run"]
_ALL = "share of trials with a success"


class Measure(NamedTuple):
    """What is compared. of: the numbers of the trials. statistic: over them. better: whether low or high is."""

    name: str
    of: Callable[[Trials], Float64Array]
    statistic: Statistic


FIRST_SUCCESS = Measure("median first success", lambda trials: trials.first_success, median)
SUCCESS = Measure("success ratio", lambda trials: trials.succeeded, mean)
EARLY_SUCCESS = Measure(f"success ratio by submission {EARLY:,}", lambda trials: trials.succeeded_by(EARLY), mean)
AREA = Measure("area", lambda trials: trials.area, mean)
MEAN_SCORE = Measure("mean score", lambda trials: trials.mean_score, mean)


class Side(NamedTuple):
    """A cell of whatever reading."""

    mechanism: str
    epsilon: float
    buffer_size: int

    @classmethod
    def of(cls, mechanism: str, epsilon: float, buffer_size: int | None = None) -> Side:
        """Return the cell with the buffer of the tables, or with another."""
        return cls(mechanism, epsilon, BUFFERS[mechanism] if buffer_size is None else buffer_size)

    def key(self, reading: str) -> Key:
        """Return which cell of that reading it is."""
        return Key(reading, self.mechanism, self.epsilon, self.buffer_size)

    @property
    def label(self) -> str:
        """What pages call it."""
        unusual = self.buffer_size != BUFFERS.get(self.mechanism, self.buffer_size)
        return f"{MECHANISMS[self.mechanism]} \u03b5={self.epsilon:g}" + (
            f" buffer {self.buffer_size}" if unusual else ""
        )


class Claim(NamedTuple):
    """That `larger` exceeds `smaller` in a measure."""

    measure: Measure
    larger: Side
    smaller: Side

    @property
    def label(self) -> str:
        """The claim as an inequality."""
        return f"{self.measure.name}: {self.larger.label} > {self.smaller.label}"


class Sentence(NamedTuple):
    """A sentence of the paper and the claims, all of which it makes; without claims it is about cells without noise."""

    quote: Quote
    claims: tuple[Claim, ...]


class Finding(NamedTuple):
    """What became of a sentence: its verdict, and each comparison by the label of its claim."""

    verdict: Verdict
    comparisons: dict[str, Comparison]


def _steps(measure: Measure, mechanism: str, order: Sequence[float]) -> tuple[Claim, ...]:
    """Return that the measure of a mechanism falls along `order`, from each epsilon to the next."""
    sides = [Side.of(mechanism, epsilon) for epsilon in order]
    return tuple(Claim(measure, one, other) for one, other in itertools.pairwise(sides))


def _beats(measure: Measure, winner: str, epsilons: Sequence[float], soonest: bool = False) -> tuple[Claim, ...]:
    """Return that the winner's measure is larger, or with `soonest` smaller, than the other mechanism's."""
    loser = LAPLACE if winner == PROJECTED else PROJECTED
    first, second = (loser, winner) if soonest else (winner, loser)
    return tuple(Claim(measure, Side.of(first, epsilon), Side.of(second, epsilon)) for epsilon in epsilons)


def _buffered(measure: Measure, mechanism: str, better: int, worse: int) -> Claim:
    """Return that one buffer does better than another at epsilon 1."""
    return Claim(measure, Side.of(mechanism, 1.0, better), Side.of(mechanism, 1.0, worse))


SENTENCES = (
    Sentence(
        published.LAPLACE_BUFFERING,
        (_buffered(AREA, LAPLACE, 1, 100), _buffered(MEAN_SCORE, LAPLACE, 1, 100)),
    ),
    Sentence(
        published.PROJECTED_BUFFERING,
        (_buffered(AREA, PROJECTED, 100, 1), _buffered(MEAN_SCORE, PROJECTED, 100, 1)),
    ),
    Sentence(published.LAPLACE_FALLS, _steps(FIRST_SUCCESS, LAPLACE, EPSILONS)),
    Sentence(published.PROJECTED_SOONER, _beats(FIRST_SUCCESS, PROJECTED, (2.0, 5.0), soonest=True)),
    Sentence(published.PROJECTED_FALLS, _steps(FIRST_SUCCESS, PROJECTED, (1.0, 5.0))),
    Sentence(published.NO_IMPROVEMENT, _steps(FIRST_SUCCESS, PROJECTED, (10.0, 5.0))),
    Sentence(published.NON_PRIVATE, ()),
    Sentence(
        published.MORE_SUCCESSES,
        (*_steps(SUCCESS, LAPLACE, (10.0, 1.0)), *_steps(SUCCESS, PROJECTED, (10.0, 1.0))),
    ),
    Sentence(published.PROJECTED_SUCCESSES, _beats(SUCCESS, PROJECTED, (1.0, 2.0))),
    Sentence(published.LAPLACE_SUCCESSES, _beats(SUCCESS, LAPLACE, (5.0, 10.0))),
    Sentence(published.EARLY_STAGE, _beats(EARLY_SUCCESS, PROJECTED, EPSILONS)),
    Sentence(published.LATE_STAGE, _beats(SUCCESS, LAPLACE, EPSILONS)),
    Sentence(published.LAPLACE_AREA, _steps(AREA, LAPLACE, EPSILONS[::-1])),
    Sentence(
        published.PROJECTED_BEST,
        tuple(Claim(AREA, Side.of(PROJECTED, 2.0), Side.of(PROJECTED, other)) for other in (1.0, 5.0, 10.0)),
    ),
    Sentence(published.STRONG_PRIVACY, _beats(AREA, PROJECTED, (1.0, 2.0, 5.0))),
    Sentence(published.WEAK_PRIVACY, _beats(AREA, LAPLACE, (10.0,))),
)


def decide(sentence: Sentence, reading: str, trials: Mapping[Key, Trials]) -> Finding:
    """Return what becomes of a sentence in one reading.

    It holds if every one of its claims does: the 95 % interval of the difference lies above 0. It fails if that of some
    claim lies below 0. Else it is open. The intervals are not widened for being many.
    """
    if not sentence.claims:
        return _all_succeed(reading, trials)
    found = {}
    for claim in sentence.claims:
        larger, smaller = (trials.get(side.key(reading)) for side in (claim.larger, claim.smaller))
        if larger is None or smaller is None:
            return Finding("not run", {})
        of = claim.measure.of
        found[claim.label] = compared(of(larger), of(smaller), claim.measure.statistic, published.TRIALS)
    if any(comparison.below for comparison in found.values()):
        return Finding("fails", found)
    return Finding("holds" if all(comparison.above for comparison in found.values()) else "open", found)


def _all_succeed(reading: str, trials: Mapping[Key, Trials]) -> Finding:
    """Return whether all trials without noise succeed.

    Holds if all of ours do; fails if 20 trials like ours would not all succeed but in 2.5 % of cases; else open.
    """
    found: dict[str, Comparison] = {}
    verdicts: list[Verdict] = []
    for buffer_size in BUFFERS.values():
        cell = trials.get(Key(reading, ELEMENTWISE, math.inf, buffer_size))
        if cell is None:
            return Finding("not run", {})
        ours, (_, highest) = share(cell.succeeded), trial_range(cell.succeeded, mean, published.TRIALS)
        seen = ours.value**published.TRIALS
        found[f"{_ALL} without privacy, buffer {buffer_size}"] = Comparison(*ours, seen)
        verdicts.append("holds" if ours.value == 1.0 else "open" if highest == 1.0 else "fails")
    worst: Verdict = next(verdict for verdict in ("fails", "open", "holds") if verdict in verdicts)
    return Finding(worst, found)
