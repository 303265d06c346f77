"""The tables of the page on [TH23]: claims beside proofs, regrets, tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from dprl.platform.reports.cell_texts import table
from dprl.platform.reports.inference.pairs import holm
from dprl.platform.reports.verdicts import standing
from dprl.platform.reproductions.ma_ldp.figures import row_label
from dprl.platform.reproductions.ma_ldp.guarantees import ATTACKED, EXAMPLES, Guarantees, Proved, proved, variance_share
from dprl.platform.reproductions.ma_ldp.orders import FIGURE, Outcome, episodes_needed, outcomes
from dprl.platform.reproductions.ma_ldp.published import (
    AGENTS,
    BOUNDED,
    FEATURES,
    GAUSSIAN,
    LAPLACE,
    TABLE_1,
    UNIFORM,
    printed_bound,
)
from dprl.platform.reproductions.ma_ldp.runs import (
    CLIPPED,
    GROUPS,
    NO_NOISE,
    NON_PRIVATE_CEILING,
    PRINTED,
    VOTES,
    WITHOUT_MAXMIN,
    Key,
    Levels,
    Runs,
)
from dprl.platform.reproductions.ma_ldp.texts import (
    INFINITE,
    between,
    ends,
    p_value,
    plain,
    ratios,
    regret,
    regrets,
    share,
)
from dprl.platform.reproductions.resampling import estimate, mean, ratio
from dprl.privacy.audits.findings import Finding
from dprl.privacy.audits.papers_linear import DELTA, EPSILON

BOUNDED_EPSILON = 0.1
_SAME = 1e-9
"""Relative: sums of exact values differ by roundings."""
_WORDS = ("mechanism", "claimed", "order of regret", "reading", "theorem", "order", "cell", "verdict", "B", "attack")
_VERDICTS = {
    "holds": "holds",
    "holds_approximately": "**fails**; holds at \u03b4 = 1e-06",
    "fails": "**fails**",
    "unbounded": "**unbounded**",
}


@dataclass(frozen=True)
class Found:
    """All that the page says. runs: by cell. levels: of policies that learn nothing. made: lines on what was run."""

    runs: Mapping[Key, Runs]
    levels: Levels
    guarantees: Guarantees
    made: Sequence[str]


def privacy_table(guarantees: Guarantees) -> str:
    """Return Table 1: what is claimed, and what the same noise proves."""
    lines = []
    for row in TABLE_1:
        proofs = [guarantees.proofs[row.mechanism, n, d] for n, d in EXAMPLES]
        verdicts = [_VERDICTS[one.verdict] for one in proofs]
        lines.append(
            [
                row.name,
                row.privacy,
                row.order,
                f"\u03b5 = {INFINITE}",
                *(_proof(row.mechanism, one) for one in proofs),
                _attack(row.mechanism, guarantees.attacks.get(row.mechanism)),
                verdicts[0] if len(set(verdicts)) == 1 else "; ".join(_by_example(verdicts)),
            ]
        )
    headers = ["mechanism", "claimed", "order of regret", "proved as printed"]
    headers += [f"proved after the clips, n={n} d={d}" for n, d in EXAMPLES]
    headers += ["attack on n=2 d=2", "verdict after the clips"]
    return table(headers, lines, headers)


def _by_example(verdicts: Iterable[str]) -> list[str]:
    return [f"n={n}: {verdict}" for (n, _), verdict in zip(EXAMPLES, verdicts, strict=True)]


def _proof(mechanism: str, found: Proved) -> str:
    if mechanism == GAUSSIAN:
        return f"\u03b5 at most {plain(found.at_delta)} at \u03b4 = {DELTA:g}"
    if mechanism == LAPLACE:
        return f"pure \u03b5 {between(found.least_pure, found.pure)}"
    at = "every \u03b5" if mechanism == UNIFORM else f"\u03b5 = {EPSILON:g}"
    return f"no pure \u03b5; \u03b4 {between(found.least_delta, found.delta)} at {at}"


def _attack(mechanism: str, found: Finding | None) -> str:
    if mechanism not in ATTACKED:
        return "too rare to sample"
    if found is None or found.measurement is None:
        return "not run"
    if not found.measurement.refutes:
        return f"{found.name}: not refuted"
    return f"{found.name}: \u03b4 at least {plain(found.measurement.delta_lb)} at \u03b5 = {found.claim.epsilon:g}"


def bounded_table(found: Found) -> str:
    """Return Table 2 for B of the order of b: regrets beside Laplace's, and what a bound leaves of the guarantee."""
    lines = []
    for group in (PRINTED, CLIPPED):
        laplace = found.runs.get(Key(group, LAPLACE, BOUNDED_EPSILON))
        keys = [key for key in found.runs if key.group == group and key.mechanism == BOUNDED]
        for key in sorted(keys, key=lambda one: one.setting):
            cell = found.runs[key]
            claim = proved(BOUNDED, AGENTS, FEATURES, key.epsilon, key.setting)
            after = between(claim.least_delta, claim.delta) if group == CLIPPED else "= 1"
            lines.append(
                [
                    _group_words(group),
                    f"{key.setting:g} b",
                    share(variance_share(key.setting)),
                    regrets(estimate(cell.regret, mean)),
                    ratios(ratio(cell.regret, laplace.regret)) if laplace is not None else "\u2014",
                    f"\u03b4 {after}",
                    "**fails**" if claim.least_delta > 0.0 else "holds",
                ]
            )
        if laplace is not None:
            last = [
                "1.00",
                "\u03b4 = 0" if group == CLIPPED else "\u03b4 = 1",
                "holds" if group == CLIPPED else "**fails**",
            ]
            name = f"{INFINITE} (Laplace)"
            lines.append([_group_words(group), name, "100.0 %", regrets(estimate(laplace.regret, mean)), *last])
    headers = ["reading", "B", "variance, of Laplace's", "R_K [95 %]", "of Laplace's R_K [95 %]"]
    return table([*headers, f"proved at the claimed \u03b5 = {BOUNDED_EPSILON:g}", "verdict"], lines, _WORDS)


def order_table(groups: Sequence[str], found: Found) -> str:
    """Return the tests of the paper's inequalities in those groups of cells."""
    lines = []
    for group in groups:
        lines += [_order_texts(group, one, found) for one in outcomes(group, found.runs)]
    headers = ["reading", "theorem", "order", "R_K of the larger", "of the smaller", "ratio [95 %]", "ratio printed"]
    headers += ["p", "p, Holm", "seen in 10 runs", "verdict"]
    return table(headers, lines, _WORDS)


def _order_texts(group: str, one: Outcome, found: Found) -> list[str]:
    order = one.order
    cells = [found.runs[Key(group, *side)] for side in (order.larger, order.smaller)]
    return [
        _group_words(group),
        order.theorem,
        order.label,
        *(with_error(cell) for cell in cells),
        ratios(one.ratio),
        f"{order.ratio:.2f}" + (" (excluded)" if one.excluded else ""),
        p_value(one.p),
        p_value(one.adjusted),
        share(one.difference.seen),
        {"shows": "shows", "reversed": "**reversed**"}.get(one.verdict, "**does not show**"),
    ]


def ceiling_table(found: Found) -> str:
    """Return R_K without noise for each reading of V: one row per constant of the bonus."""
    keys = [key for key in found.runs if key.group in NON_PRIVATE_CEILING]
    lines = []
    for setting in sorted({key.setting for key in keys}, reverse=True):
        cells = [found.runs.get(Key(group, NO_NOISE, math.inf, setting)) for group in NON_PRIVATE_CEILING]
        shown = ["" if cell is None else f"{with_error(cell)} {ends(estimate(cell.regret, mean))}" for cell in cells]
        lines.append([f"{setting:g}", *shown])
    return table(["c", "V of joint actions: R_K [95 %]", "V of maxmin: R_K [95 %]"], lines, _WORDS)


def reading(key: Key) -> str:
    """Return the settings of a cell without noise in words."""
    return f"V of {'maxmin' if key.group == WITHOUT_MAXMIN else 'joint actions'}, c = {key.setting:g}"


def bound_table(found: Found) -> str:
    """Return how much the printed bounds say at the paper's K."""
    episodes = max(cell.episodes for cell in found.runs.values())
    lines = [
        [
            side.label,
            f"{printed_bound(side.mechanism, side.epsilon, episodes):.2g}",
            regret(found.levels.worst),
            f"{episodes_needed(side.mechanism, side.epsilon, found.levels, episodes):.1g}",
            *_shift(found.runs.get(Key(PRINTED, *side))),
        ]
        for side in FIGURE
    ]
    headers = ["cell", f"bound on R_K, K={episodes:,}", "R_K of the worst policy", "K from which it says something"]
    headers += ["shift of \u03a3 after the last user", "users until it is their number"]
    return table(headers, lines, _WORDS)


def _shift(cell: Runs | None) -> list[str]:
    """Return what is added to Sigma, and when users are as many: it grows like the square root of their number."""
    if cell is None:
        return ["", ""]
    return [f"{cell.shift:.2g}", f"{cell.shift**2 / cell.episodes:.1g}"]


def cell_table(found: Found) -> str:
    """Return every cell: regret, how it stands to actions at random, and what is proved."""
    judged = at_random(found)
    lines = []
    for group in GROUPS:
        for key in [one for one in found.runs if one.group == group.name]:
            cell = found.runs[key]
            lines.append(
                [
                    group.words,
                    row_label(key, cell),
                    str(cell.count),
                    with_error(cell),
                    ends(estimate(cell.regret, mean)),
                    p_value(judged[key]) if key in judged else "",
                    _late(cell, found.levels),
                    share(cell.saturated),
                    _guarantee(cell),
                    _VERDICTS[standing(cell.certificate).verdict],
                ]
            )
    headers = ["reading", "cell", "runs", "R_K", "[95 %]", "p, Holm: not random's", "last tenth, of random's"]
    return table([*headers, "Q cut", "proved", "verdict"], lines, _WORDS)


def vote_table(found: Found) -> str:
    """Return the baseline against what actions at random lose, and half of it."""
    lines = []
    for key, cell in found.runs.items():
        if key.group == VOTES:
            one = estimate(cell.regret, mean)
            known = not math.isnan(one.upper)
            lines.append(
                [
                    f"{key.epsilon:g}",
                    plain(standing(cell.certificate).proved),
                    with_error(cell),
                    ends(one),
                    share(one.value / found.levels.uniform),
                    "yes" if known and one.upper < found.levels.uniform else "no",
                    "yes" if known and one.upper < found.levels.half else "no",
                ]
            )
    headers = ["\u03b5", "proved pure \u03b5", "R_K", "[95 %]", "of random's", "below random's", "below half of it"]
    return table(headers, lines, _WORDS)


def at_random(found: Found) -> dict[Key, float]:
    """Return, for cells of MA-LDP with printed or certified noise, the p-value that R_K is not random's.

    It is of a two-sided t test, by Holm.
    """
    private = {group.name for group in GROUPS if group.private and group.name != VOTES}
    keys = [key for key in found.runs if key.group in private]
    return dict(zip(keys, holm([_not_at(found.runs[key], found.levels.uniform) for key in keys]), strict=True))


def _not_at(cell: Runs, level: float) -> float:
    apart, error = abs(float(cell.regret.mean()) - level), standard_error(cell)
    if apart <= _SAME * level or math.isnan(error):
        return 1.0
    return float(2.0 * stdtr(cell.count - 1, -apart / error)) if error > 0.0 else 0.0


def standard_error(cell: Runs) -> float:
    """Return that of the mean of R_K; NaN for one run."""
    return float(np.std(cell.regret, ddof=1) / math.sqrt(cell.count)) if cell.count > 1 else math.nan


def with_error(cell: Runs) -> str:
    """Return the mean of R_K with its standard error."""
    return f"{regret(float(cell.regret.mean()))} \u00b1 {regret(standard_error(cell))}"


def _late(cell: Runs, levels: Levels) -> str:
    return share(float(cell.late.mean()) * cell.episodes / levels.uniform)


def _guarantee(cell: Runs) -> str:
    delta = cell.certificate["claimed"]["delta"]
    return f"\u03b5 = {plain(standing(cell.certificate).proved)}" + (f" at \u03b4 = {delta:g}" if delta else "")


def _group_words(name: str) -> str:
    return next(group.words for group in GROUPS if group.name == name)
