"""Tables and figures that only the page on [TH23] has: proofs of its noise, all regrets, and printed bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from scipy.special import stdtr

from dprl.platform.reports.documents.markdown import markdown_table
from dprl.platform.reports.inference.pairs import holm
from dprl.platform.reproductions.claims import (
    Cell,
    Cells,
    Key,
    Outcome,
    all_seen,
    cell_data,
    decide,
    estimate_data,
    finite_epsilon,
    standard_error,
)
from dprl.platform.reproductions.engine import Findings, Paper
from dprl.platform.reproductions.ma_ldp import (
    AGAIN,
    AGENTS,
    AS_RUN,
    BOUNDED,
    CLIPPED,
    CONFIG,
    FEATURES,
    FIGURE,
    GROUPS,
    ILLUSTRATION,
    ILLUSTRATION_MAXMIN,
    ILLUSTRATIONS,
    LAPLACE,
    MAXMIN,
    NAMES,
    NO_NOISE,
    NON_PRIVATE_CEILING,
    ORDERS,
    PRINTED,
    R_K,
    RUNS,
    VOTES,
    WITHOUT_MAXMIN,
    Levels,
    key,
    printed_bound,
    read,
)
from dprl.platform.reproductions.ma_ldp_figures import figures, row_label
from dprl.platform.reproductions.ma_ldp_proofs import (
    VERDICTS,
    Guarantees,
    between,
    episodes_needed,
    privacy_table,
    proved,
    variance_share,
)
from dprl.platform.reproductions.resampling import ratio
from dprl.platform.reproductions.tables import (
    INFINITE,
    MISSING,
    ends,
    interval,
    left_open,
    longest,
    number,
    p_value,
    per_cent,
    plain,
    run_counts,
)
from dprl.platform.results.summary import standing

_BOUNDED_EPSILON = 0.1
_SAME = 1e-9
"""Relative: sums of exact values differ by roundings."""
_TEXTS = ("mechanism", "claimed", "order of regret", "reading", "theorem", "order", "cell", "verdict", "B", "attack")
_ORDERS = {"holds": "shows", "fails": "reversed", "open": "does not show"}
_SHORT = {
    PRINTED: "as printed",
    AGAIN: "with other seeds",
    MAXMIN: "with maxmin",
    CLIPPED: "after the clips",
}
_ANSWERED = {
    PRINTED: "as printed",
    AGAIN: "as printed, with other seeds",
    ILLUSTRATION: "in the illustration with V of joint actions, which is NOT PRIVATE",
    ILLUSTRATION_MAXMIN: "in the illustration with V of maxmin, which is NOT PRIVATE",
}
_GROUP_WORDS = {group.name: group.words for group in GROUPS}


def extra(*_: object) -> dict[str, Any]:
    """Return the guarantees of the printed noise."""
    return {"guarantees": Guarantees.found()}


def _levels(cells: Cells) -> Levels:
    return Levels.of(longest(cells))


def outcomes(group: str, cells: Cells) -> tuple[Outcome, ...]:
    """Return the outcome of each of the paper's orders in a group; none if cells are missing."""
    return decide(ORDERS, group, cells, RUNS).outcomes


def blocks(found: Findings) -> dict[str, str]:
    """Return the text of each place of the template."""
    cells, levels, guarantees = found.cells, _levels(found.cells), found.extra["guarantees"]
    return {
        "counted": f"{run_counts(cells)} runs of {longest(cells):,} users for each cell.",
        "uniform": number(levels.uniform),
        "worst": number(levels.worst),
        "summary": "\n".join(f"* {line}" for line in summary(cells)),
        "privacy_table": privacy_table(guarantees),
        "bounded_table": _bounded_table(cells),
        "bound_table": _bound_table(cells),
        "orders": _order_table(AS_RUN, cells),
        "chance": _chance(cells),
        "ceiling_table": _ceiling_table(cells),
        "illustrated_orders": _order_table(ILLUSTRATIONS, cells),
        "vote_table": _vote_table(cells),
        "cell_table": _cell_table(cells),
        "left_open": left_open(list(cells.values())),
    }


def summary(cells: Cells) -> list[str]:
    """Return the answers, one line each, from the numbers of these runs."""
    judged, lines = at_random(cells), []
    if judged:
        alike, lowest = sum(p >= 0.05 for p in judged.values()), min(_mean(cells[name]) for name in judged)
        lines.append(
            f"**Regret**: {alike} of {len(judged)} cells of MA-LDP with printed or certified noise show no significant "
            f"difference to actions at random, {number(_levels(cells).uniform)}; the lowest mean is {number(lowest)}."
        )
    for group, words in _ANSWERED.items():
        found = outcomes(group, cells)
        if found:
            showing, opposite = (sum(one.verdict == verdict for one in found) for verdict in ("holds", "fails"))
            told = f", {opposite} the other way round" if opposite else ""
            lines.append(f"**Order of Figure 1** {words}: {showing} of {len(found)} inequalities show{told}.")
    free = [name for name in cells if name.group in NON_PRIVATE_CEILING]
    if free:
        best = min(free, key=lambda name: _mean(cells[name]))
        value = "maxmin" if best.group == WITHOUT_MAXMIN else "joint actions"
        told = f"R_K = {_with_error(cells[best])} at best, V of {value}, c = {best.setting:g}"
        lines.append(f"**Without noise**, NOT PRIVATE: {told}.")
    votes = [f"{number(_mean(cells[name]))} at \u03b5 = {name.epsilon:g}" for name in cells if name.group == VOTES]
    return [*lines, f"**One bit a user**, with \u03b5 proved: R_K = {', '.join(votes)}."] if votes else lines


def _bounded_table(cells: Cells) -> str:
    """Return Table 2 for B of the order of b: regrets beside Laplace's, and the guarantee under a bound."""
    lines = []
    for group in (PRINTED, CLIPPED):
        laplace, clipped = cells.get(Key(group, LAPLACE, _BOUNDED_EPSILON)), group == CLIPPED
        names = [name for name in cells if name.group == group and name.mechanism == BOUNDED]
        for name in sorted(names, key=lambda one: one.setting):
            claim = proved(BOUNDED, AGENTS, FEATURES, name.epsilon, name.setting)
            values = cells[name].values[R_K.values]
            of_laplace = MISSING if laplace is None else interval(ratio(values, laplace.values[R_K.values]), 2)
            numbers = [per_cent(variance_share(name.setting)), interval(R_K.estimate(cells[name])), of_laplace]
            after = between(claim.least_delta, claim.delta) if clipped else "= 1"
            verdict = "**fails**" if claim.least_delta > 0.0 else "holds"
            lines.append([_GROUP_WORDS[group], f"{name.setting:g} b", *numbers, f"\u03b4 {after}", verdict])
        if laplace is not None:
            numbers = ["100.0 %", interval(R_K.estimate(laplace)), "1.00"]
            last = ["\u03b4 = 0", "holds"] if clipped else ["\u03b4 = 1", "**fails**"]
            lines.append([_GROUP_WORDS[group], f"{INFINITE} (Laplace)", *numbers, *last])
    headers = ["reading", "B", "variance, of Laplace's", "R_K [95 %]", "of Laplace's R_K [95 %]"]
    return markdown_table([*headers, f"proved at the claimed \u03b5 = {_BOUNDED_EPSILON:g}", "verdict"], lines, _TEXTS)


def _order_table(groups: Sequence[str], cells: Cells) -> str:
    """Return the tests of the paper's inequalities in those groups of cells."""
    lines = []
    for group in groups:
        for one in outcomes(group, cells):
            claim, shown = one.claim, _ORDERS[one.verdict]
            sides = [cells[side.key.of(group)] for side in (claim.larger, claim.smaller) if side is not None]
            printed = f"{claim.ratio:.2f}" + (" (excluded)" if one.excluded else "")
            p_values = [p_value(one.p), p_value(one.adjusted)]
            verdict = shown if one.verdict == "holds" else f"**{shown}**"
            line = [_GROUP_WORDS[group], claim.place, claim.order, *map(_with_error, sides), interval(one.ratio, 2)]
            lines.append([*line, printed, *p_values, per_cent(one.difference.seen), verdict])
    headers = ["reading", "theorem", "order", "R_K of the larger", "of the smaller", "ratio [95 %]", "ratio printed"]
    return markdown_table([*headers, "p", "p, Holm", f"seen in {RUNS} runs", "verdict"], lines, _TEXTS)


def _chance(cells: Cells) -> str:
    """Return how likely the paper's picture is where nothing is learned."""
    both, lines = [claim for claim in ORDERS.claims if claim.place == "Theorem 9"], []
    for group in AS_RUN:
        two, three = (all_seen(claims, group, cells, RUNS) for claims in (both, ORDERS.claims))
        if not math.isnan(two):
            lines.append(f"{_SHORT[group]}: {per_cent(two)} and {per_cent(three)}")
    if not lines:
        return ""
    return (
        f"**By chance.** Where \u03b5 has no effect, means of {RUNS} runs are in both orders of Theorem 9 with "
        "probability 1/4, and in that of Theorem 10, too, with 1/8. Resampled from ours, they are in two and in all "
        f"three orders: {'; '.join(lines)}. One picture of {RUNS} runs says nothing on the theorems."
    )


def _ceiling_table(cells: Cells) -> str:
    """Return R_K without noise for each reading of V: one row per constant of the bonus."""
    lines = []
    for setting in sorted({name.setting for name in cells if name.group in NON_PRIVATE_CEILING}, reverse=True):
        found = [cells.get(Key(group, NO_NOISE, math.inf, setting)) for group in NON_PRIVATE_CEILING]
        shown = ["" if cell is None else f"{_with_error(cell)} {ends(R_K.estimate(cell))}" for cell in found]
        lines.append([f"{setting:g}", *shown])
    return markdown_table(["c", "V of joint actions: R_K [95 %]", "V of maxmin: R_K [95 %]"], lines, _TEXTS)


def _bound_table(cells: Cells) -> str:
    """Return how much the printed bounds say at the paper's K."""
    episodes, levels, lines = longest(cells), _levels(cells), []
    for side in FIGURE:
        name, cell = side.key, cells.get(side.key.of(PRINTED))
        # The shift grows like the square root of the users.
        shift = math.nan if cell is None else cell.facts["shift"]
        shifts = ["", ""] if cell is None else [f"{shift:.2g}", f"{shift**2 / cell.episodes:.1g}"]
        bound = printed_bound(name.mechanism, name.epsilon, episodes)
        needed = episodes_needed(name.mechanism, name.epsilon, levels, episodes)
        lines.append([side.label, f"{bound:.2g}", number(levels.worst), f"{needed:.1g}", *shifts])
    headers = [
        "cell",
        f"bound on R_K, K={episodes:,}",
        "R_K of the worst policy",
        "K from which it says something",
    ]
    return markdown_table(
        [*headers, "shift of \u03a3 after the last user", "users until it is their number"], lines, _TEXTS
    )


def _cell_table(cells: Cells) -> str:
    """Return every cell: regret, its difference to actions at random, and its proof."""
    judged, uniform, lines = at_random(cells), _levels(cells).uniform, []
    for group in GROUPS:
        for name, cell in cells.items():
            if name.group == group.name:
                late, stands = float(cell.values["late"].mean()) * cell.episodes / uniform, standing(cell.certificate)
                p = p_value(judged[name]) if name in judged else ""
                regret = [_with_error(cell), ends(R_K.estimate(cell)), p, per_cent(late)]
                delta = cell.certificate["claimed"]["delta"]
                guarantee = f"\u03b5 = {plain(stands.proved)}" + (f" at \u03b4 = {delta:g}" if delta else "")
                line = [group.words, row_label(name, cell), str(cell.count), *regret]
                lines.append([*line, per_cent(cell.facts["saturated"]), guarantee, VERDICTS[stands.verdict]])
    headers = ["reading", "cell", "runs", "R_K", "[95 %]", "p, Holm: not random's", "last tenth, of random's"]
    return markdown_table([*headers, "Q cut", "proved", "verdict"], lines, _TEXTS)


def _vote_table(cells: Cells) -> str:
    """Return one bit a user against the regret of actions at random, and half of it."""
    levels, lines = _levels(cells), []
    for name, cell in cells.items():
        if name.group == VOTES:
            one = R_K.estimate(cell)
            below = ["yes" if one.upper < level else "no" for level in (levels.uniform, levels.half)]
            proof = plain(standing(cell.certificate).proved)
            numbers = [_with_error(cell), ends(one), per_cent(one.value / levels.uniform)]
            lines.append([f"{name.epsilon:g}", proof, *numbers, *below])
    headers = ["\u03b5", "proved pure \u03b5", "R_K", "[95 %]", "of random's", "below random's", "below half of it"]
    return markdown_table(headers, lines, _TEXTS)


def at_random(cells: Cells) -> dict[Key, float]:
    """Return, for cells of MA-LDP with printed or certified noise, the p-value that R_K is not random's.

    It is of a two-sided t test, by Holm.
    """
    private = {group.name for group in GROUPS if group.private and group.name != VOTES}
    names, level = [name for name in cells if name.group in private], _levels(cells).uniform
    return dict(zip(names, holm([_not_at(cells[name], level) for name in names]), strict=True))


def _not_at(cell: Cell, level: float) -> float:
    apart, error = abs(_mean(cell) - level), standard_error(cell, R_K)
    if apart <= _SAME * level or math.isnan(error):
        return 1.0
    return float(2.0 * stdtr(cell.count - 1, -apart / error)) if error > 0.0 else 0.0


def _mean(cell: Cell) -> float:
    return float(cell.values[R_K.values].mean())


def _with_error(cell: Cell) -> str:
    """Return the mean of R_K with its standard error."""
    return f"{number(_mean(cell))} \u00b1 {number(standard_error(cell, R_K))}"


class _MALDP(Paper):
    """[TH23], with published names of its own for the data of orders."""

    def verdicts(self, found: Findings) -> list[list[str]]:
        """Return a table for a terminal: the verdict on each order by group."""
        headers, tested = (
            {ILLUSTRATION: "NOT PRIVATE", ILLUSTRATION_MAXMIN: "NOT PRIVATE, maxmin"},
            _tested(found.cells),
        )
        rows = [["", *(headers.get(group, group) for group in tested)]]
        for place, claim in enumerate(ORDERS.claims):
            results = (results[place] for results in tested.values())
            texts = (f"{_ORDERS[one.verdict]}, p {one.adjusted:.3f}" for one in results)
            rows.append([f"{claim.place}: {claim.order}", *texts])
        return rows

    def data(self, found: Findings) -> dict[str, Any]:
        """Return all numbers of the page as plain data."""
        judged, cells = at_random(found.cells), found.cells
        orders = [_order(group, one) for group, results in _tested(cells).items() for one in results]
        seen = {group: all_seen(ORDERS.claims, group, cells, RUNS) for group in (*AS_RUN, *ILLUSTRATIONS)}
        return {
            "levels": _levels(cells)._asdict(),
            "orders": orders,
            "all_seen_in_10_runs": seen,
            "cells": [{**_cell(name, cell), "p_not_random_holm": judged.get(name)} for name, cell in cells.items()],
            "guarantees": found.extra["guarantees"].to_dict(),
        }


def _tested(cells: Cells) -> dict[str, tuple[Outcome, ...]]:
    """Return the outcomes of the orders in each group that has them."""
    found = {group: outcomes(group, cells) for group in (*AS_RUN, *ILLUSTRATIONS)}
    return {group: results for group, results in found.items() if results}


def _order(group: str, one: Outcome) -> dict[str, Any]:
    return {
        "group": group,
        "theorem": one.claim.place,
        "order": one.claim.order,
        "ratio_printed": one.claim.ratio,
        "ratio": estimate_data(one.ratio),
        "difference": one.difference._asdict(),
        "p": one.p,
        "p_holm": one.adjusted,
        "verdict": _ORDERS[one.verdict],
    }


def _cell(name: Key, cell: Cell) -> dict[str, Any]:
    facts = {fact: cell.facts[fact] for fact in ("saturated", "indefinite")}
    found = {**name._asdict(), "epsilon": finite_epsilon(name), **cell_data(cell, (R_K,)), **facts}
    del found["control"]
    return {**found, "standard_error": standard_error(cell, R_K)}


PAPER = _MALDP("ma_ldp", CONFIG, RUNS, GROUPS, NAMES, key, read, (R_K,), (), (), extra, blocks, figures)
