"""Tables specific to the page on [TH23]: proofs of its noise, all regrets, and printed bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import scipy

from dprl.platform.reports.documents.markdown import markdown_table
from dprl.platform.reports.inference.pairs import holm
from dprl.platform.reproductions import claims, ma_ldp, tables
from dprl.platform.reproductions import ma_ldp_proofs as proofs
from dprl.platform.reproductions.engine import Findings, Paper
from dprl.platform.reproductions.ma_ldp_figures import figures, row_label
from dprl.platform.reproductions.resampling import ratio
from dprl.platform.results.summary import standing

_BOUNDED_EPSILON = 0.1
_SAME = 1e-9
"""Relative tolerance: sums of exact values differ by rounding."""
_TEXTS = ("mechanism", "claimed", "order of regret", "reading", "theorem", "order", "cell", "verdict", "B", "attack")
_ORDERS = {"holds": "shows", "fails": "reversed", "open": "does not show"}
_SHORT = {
    ma_ldp.PRINTED: "as printed",
    ma_ldp.AGAIN: "with other seeds",
    ma_ldp.MAXMIN: "with maxmin",
    ma_ldp.CLIPPED: "after the clips",
}
_ANSWERED = {
    ma_ldp.PRINTED: "as printed",
    ma_ldp.AGAIN: "as printed, with other seeds",
    ma_ldp.ILLUSTRATION: "in the illustration with V of joint actions, which is NOT PRIVATE",
    ma_ldp.ILLUSTRATION_MAXMIN: "in the illustration with V of maxmin, which is NOT PRIVATE",
}
_GROUP_WORDS = {group.name: group.words for group in ma_ldp.GROUPS}


def extra(*_: object) -> dict[str, Any]:
    """Return the guarantees of the printed noise."""
    return {"guarantees": proofs.Guarantees.found()}


def _levels(cells: claims.Cells) -> ma_ldp.Levels:
    return ma_ldp.Levels.of(tables.longest(cells))


def outcomes(group: str, cells: claims.Cells) -> tuple[claims.Outcome, ...]:
    """Return the outcome of each of the paper's orders in a group; none if cells are missing."""
    return claims.decide(ma_ldp.ORDERS, group, cells, ma_ldp.RUNS).outcomes


def blocks(found: Findings) -> dict[str, str]:
    """Return the text of each placeholder of the template."""
    cells, levels, guarantees = found.cells, _levels(found.cells), found.extra["guarantees"]
    return {
        "counted": f"{tables.run_counts(cells)} runs of {tables.longest(cells):,} users for each cell.",
        "uniform": tables.number(levels.uniform),
        "worst": tables.number(levels.worst),
        "summary": "\n".join(f"* {line}" for line in summary(cells)),
        "privacy_table": proofs.privacy_table(guarantees),
        "bounded_table": _bounded_table(cells),
        "bound_table": _bound_table(cells),
        "orders": _order_table(ma_ldp.AS_RUN, cells),
        "chance": _chance(cells),
        "ceiling_table": _ceiling_table(cells),
        "illustrated_orders": _order_table(ma_ldp.ILLUSTRATIONS, cells),
        "vote_table": _vote_table(cells),
        "cell_table": _cell_table(cells),
        "left_open": tables.left_open(list(cells.values())),
    }


def summary(cells: claims.Cells) -> list[str]:
    """Return the answers, one line each, from the numbers of these runs."""
    judged, lines = at_random(cells), []
    if judged:
        alike, lowest = sum(p >= 0.05 for p in judged.values()), min(_mean(cells[name]) for name in judged)
        lines.append(
            f"**Regret**: {alike} of {len(judged)} cells of MA-LDP with printed or certified noise show no significant "
            f"difference from actions at random, {tables.number(_levels(cells).uniform)}; the lowest mean is "
            f"{tables.number(lowest)}."
        )
    for group, words in _ANSWERED.items():
        found = outcomes(group, cells)
        if found:
            showing, opposite = (sum(one.verdict == verdict for one in found) for verdict in ("holds", "fails"))
            told = f", {opposite} the other way round" if opposite else ""
            lines.append(f"**Order of Figure 1** {words}: {showing} of {len(found)} inequalities show{told}.")
    free = [name for name in cells if name.group in ma_ldp.NON_PRIVATE_CEILING]
    if free:
        best = min(free, key=lambda name: _mean(cells[name]))
        value = "maxmin" if best.group == ma_ldp.WITHOUT_MAXMIN else "joint actions"
        told = f"R_K = {_with_error(cells[best])} at best, V of {value}, c = {best.setting:g}"
        lines.append(f"**Without noise**, NOT PRIVATE: {told}.")
    votes = [
        f"{tables.number(_mean(cells[name]))} at \u03b5 = {name.epsilon:g}"
        for name in cells
        if name.group == ma_ldp.VOTES
    ]
    return [*lines, f"**One bit a user**, with \u03b5 proved: R_K = {', '.join(votes)}."] if votes else lines


def _bounded_table(cells: claims.Cells) -> str:
    """Return Table 2 for B of the order of b: regrets beside Laplace's, and the guarantee under a bound."""
    lines = []
    for group in (ma_ldp.PRINTED, ma_ldp.CLIPPED):
        laplace, clipped = cells.get(claims.Key(group, ma_ldp.LAPLACE, _BOUNDED_EPSILON)), group == ma_ldp.CLIPPED
        names = [name for name in cells if name.group == group and name.mechanism == ma_ldp.BOUNDED]
        for name in sorted(names, key=lambda one: one.setting):
            claim = proofs.proved(ma_ldp.BOUNDED, ma_ldp.AGENTS, ma_ldp.FEATURES, name.epsilon, name.setting)
            values = cells[name].values[ma_ldp.R_K.values]
            of_laplace = (
                tables.MISSING
                if laplace is None
                else tables.interval(ratio(values, laplace.values[ma_ldp.R_K.values]), 2)
            )
            numbers = [
                tables.per_cent(proofs.variance_share(name.setting)),
                tables.interval(ma_ldp.R_K.estimate(cells[name])),
                of_laplace,
            ]
            after = proofs.between(claim.least_delta, claim.delta) if clipped else "= 1"
            verdict = "**fails**" if claim.least_delta > 0.0 else "holds"
            lines.append([_GROUP_WORDS[group], f"{name.setting:g} b", *numbers, f"\u03b4 {after}", verdict])
        if laplace is not None:
            numbers = ["100.0 %", tables.interval(ma_ldp.R_K.estimate(laplace)), "1.00"]
            last = ["\u03b4 = 0", "holds"] if clipped else ["\u03b4 = 1", "**fails**"]
            lines.append([_GROUP_WORDS[group], f"{tables.INFINITE} (Laplace)", *numbers, *last])
    headers = ["reading", "B", "variance, of Laplace's", "R_K [95 %]", "of Laplace's R_K [95 %]"]
    return markdown_table([*headers, f"proved at the claimed \u03b5 = {_BOUNDED_EPSILON:g}", "verdict"], lines, _TEXTS)


def _order_table(groups: Sequence[str], cells: claims.Cells) -> str:
    """Return the tests of the paper's inequalities in those groups of cells."""
    lines = []
    for group in groups:
        for one in outcomes(group, cells):
            claim, shown = one.claim, _ORDERS[one.verdict]
            sides = [cells[side.key.of(group)] for side in (claim.larger, claim.smaller) if side is not None]
            printed = f"{claim.ratio:.2f}" + (" (excluded)" if one.excluded else "")
            p_values = [tables.p_value(one.p), tables.p_value(one.adjusted)]
            verdict = shown if one.verdict == "holds" else f"**{shown}**"
            line = [
                _GROUP_WORDS[group],
                claim.place,
                claim.order,
                *map(_with_error, sides),
                tables.interval(one.ratio, 2),
            ]
            lines.append([*line, printed, *p_values, tables.per_cent(one.difference.seen), verdict])
    headers = ["reading", "theorem", "order", "R_K of the larger", "of the smaller", "ratio [95 %]", "ratio printed"]
    return markdown_table([*headers, "p", "p, Holm", f"seen in {ma_ldp.RUNS} runs", "verdict"], lines, _TEXTS)


def _chance(cells: claims.Cells) -> str:
    """Return the probability of the paper's picture if nothing is learned."""
    both, lines = [claim for claim in ma_ldp.ORDERS.claims if claim.place == "Theorem 9"], []
    for group in ma_ldp.AS_RUN:
        two, three = (claims.all_seen(orders, group, cells, ma_ldp.RUNS) for orders in (both, ma_ldp.ORDERS.claims))
        if not math.isnan(two):
            lines.append(f"{_SHORT[group]}: {tables.per_cent(two)} and {tables.per_cent(three)}")
    if not lines:
        return ""
    return (
        f"**By chance.** Where \u03b5 has no effect, means of {ma_ldp.RUNS} runs are in both orders of Theorem 9 with "
        "probability 1/4, and in that of Theorem 10, too, with 1/8. Resampled from ours, they are in two and in all "
        f"three orders: {'; '.join(lines)}. One picture of {ma_ldp.RUNS} runs says nothing on the theorems."
    )


def _ceiling_table(cells: claims.Cells) -> str:
    """Return R_K without noise for each reading of V: one row per constant of the bonus."""
    lines = []
    for setting in sorted({name.setting for name in cells if name.group in ma_ldp.NON_PRIVATE_CEILING}, reverse=True):
        found = [
            cells.get(claims.Key(group, ma_ldp.NO_NOISE, math.inf, setting)) for group in ma_ldp.NON_PRIVATE_CEILING
        ]
        shown = [
            "" if cell is None else f"{_with_error(cell)} {tables.ends(ma_ldp.R_K.estimate(cell))}" for cell in found
        ]
        lines.append([f"{setting:g}", *shown])
    return markdown_table(["c", "V of joint actions: R_K [95 %]", "V of maxmin: R_K [95 %]"], lines, _TEXTS)


def _bound_table(cells: claims.Cells) -> str:
    """Return the printed bounds at the paper's K, beside the regret of the worst policy."""
    episodes, levels, lines = tables.longest(cells), _levels(cells), []
    for side in ma_ldp.FIGURE:
        name, cell = side.key, cells.get(side.key.of(ma_ldp.PRINTED))
        # The shift grows like the square root of the users.
        shift = math.nan if cell is None else cell.facts["shift"]
        shifts = ["", ""] if cell is None else [f"{shift:.2g}", f"{shift**2 / cell.episodes:.1g}"]
        bound = ma_ldp.printed_bound(name.mechanism, name.epsilon, episodes)
        needed = proofs.episodes_needed(name.mechanism, name.epsilon, levels, episodes)
        lines.append([side.label, f"{bound:.2g}", tables.number(levels.worst), f"{needed:.1g}", *shifts])
    headers = [
        "cell",
        f"bound on R_K, K={episodes:,}",
        "R_K of the worst policy",
        "K from which it says something",
    ]
    return markdown_table(
        [*headers, "shift of \u03a3 after the last user", "users until it is their number"], lines, _TEXTS
    )


def _cell_table(cells: claims.Cells) -> str:
    """Return every cell: regret, its difference from random actions, and its proof."""
    judged, uniform, lines = at_random(cells), _levels(cells).uniform, []
    for group in ma_ldp.GROUPS:
        for name, cell in cells.items():
            if name.group == group.name:
                late, stands = float(cell.values["late"].mean()) * cell.episodes / uniform, standing(cell.certificate)
                p = tables.p_value(judged[name]) if name in judged else ""
                regret = [_with_error(cell), tables.ends(ma_ldp.R_K.estimate(cell)), p, tables.per_cent(late)]
                delta = cell.certificate["claimed"]["delta"]
                guarantee = f"\u03b5 = {tables.plain(stands.proved)}" + (f" at \u03b4 = {delta:g}" if delta else "")
                line = [group.words, row_label(name, cell), str(cell.count), *regret]
                lines.append(
                    [*line, tables.per_cent(cell.facts["saturated"]), guarantee, proofs.VERDICTS[stands.verdict]]
                )
    headers = ["reading", "cell", "runs", "R_K", "[95 %]", "p, Holm: not random's", "last tenth, of random's"]
    return markdown_table([*headers, "Q cut", "proved", "verdict"], lines, _TEXTS)


def _vote_table(cells: claims.Cells) -> str:
    """Return one bit per user against the regret of random actions, and half of it."""
    levels, lines = _levels(cells), []
    for name, cell in cells.items():
        if name.group == ma_ldp.VOTES:
            one = ma_ldp.R_K.estimate(cell)
            below = ["yes" if one.upper < level else "no" for level in (levels.uniform, levels.half)]
            proof = tables.plain(standing(cell.certificate).proved)
            numbers = [_with_error(cell), tables.ends(one), tables.per_cent(one.value / levels.uniform)]
            lines.append([f"{name.epsilon:g}", proof, *numbers, *below])
    headers = ["\u03b5", "proved pure \u03b5", "R_K", "[95 %]", "of random's", "below random's", "below half of it"]
    return markdown_table(headers, lines, _TEXTS)


def at_random(cells: claims.Cells) -> dict[claims.Key, float]:
    """Return p-values for R_K of cells of MA-LDP with printed or certified noise against that of random actions.

    They are of two-sided t tests, adjusted by Holm.
    """
    private = {group.name for group in ma_ldp.GROUPS if group.private and group.name != ma_ldp.VOTES}
    names, level = [name for name in cells if name.group in private], _levels(cells).uniform
    return dict(zip(names, holm([_not_at(cells[name], level) for name in names]), strict=True))


def _not_at(cell: claims.Cell, level: float) -> float:
    apart, error = abs(_mean(cell) - level), claims.standard_error(cell, ma_ldp.R_K)
    if apart <= _SAME * level or math.isnan(error):
        return 1.0
    return float(2.0 * scipy.special.stdtr(cell.count - 1, -apart / error)) if error > 0.0 else 0.0


def _mean(cell: claims.Cell) -> float:
    return float(cell.values[ma_ldp.R_K.values].mean())


def _with_error(cell: claims.Cell) -> str:
    """Return the mean of R_K with its standard error."""
    return f"{tables.number(_mean(cell))} \u00b1 {tables.number(claims.standard_error(cell, ma_ldp.R_K))}"


class _MALDP(Paper):
    """[TH23], with other published names for the data of orders."""

    def verdicts(self, found: Findings) -> list[list[str]]:
        """Return a table for a terminal: the verdict on each order by group."""
        headers, tested = (
            {ma_ldp.ILLUSTRATION: "NOT PRIVATE", ma_ldp.ILLUSTRATION_MAXMIN: "NOT PRIVATE, maxmin"},
            _tested(found.cells),
        )
        rows = [["", *(headers.get(group, group) for group in tested)]]
        for place, claim in enumerate(ma_ldp.ORDERS.claims):
            results = (results[place] for results in tested.values())
            texts = (f"{_ORDERS[one.verdict]}, p {one.adjusted:.3f}" for one in results)
            rows.append([f"{claim.place}: {claim.order}", *texts])
        return rows

    def data(self, found: Findings) -> dict[str, Any]:
        """Return all numbers of the page as plain data."""
        judged, cells = at_random(found.cells), found.cells
        orders = [_order(group, one) for group, results in _tested(cells).items() for one in results]
        seen = {
            group: claims.all_seen(ma_ldp.ORDERS.claims, group, cells, ma_ldp.RUNS)
            for group in (*ma_ldp.AS_RUN, *ma_ldp.ILLUSTRATIONS)
        }
        return {
            "levels": _levels(cells)._asdict(),
            "orders": orders,
            "all_seen_in_10_runs": seen,
            "cells": [{**_cell(name, cell), "p_not_random_holm": judged.get(name)} for name, cell in cells.items()],
            "guarantees": found.extra["guarantees"].to_dict(),
        }


def _tested(cells: claims.Cells) -> dict[str, tuple[claims.Outcome, ...]]:
    """Return the outcomes of the orders in each group that has them."""
    found = {group: outcomes(group, cells) for group in (*ma_ldp.AS_RUN, *ma_ldp.ILLUSTRATIONS)}
    return {group: results for group, results in found.items() if results}


def _order(group: str, one: claims.Outcome) -> dict[str, Any]:
    return {
        "group": group,
        "theorem": one.claim.place,
        "order": one.claim.order,
        "ratio_printed": one.claim.ratio,
        "ratio": claims.estimate_data(one.ratio),
        "difference": one.difference._asdict(),
        "p": one.p,
        "p_holm": one.adjusted,
        "verdict": _ORDERS[one.verdict],
    }


def _cell(name: claims.Key, cell: claims.Cell) -> dict[str, Any]:
    facts = {fact: cell.facts[fact] for fact in ("saturated", "indefinite")}
    found = {**name._asdict(), "epsilon": claims.finite_epsilon(name), **claims.cell_data(cell, (ma_ldp.R_K,)), **facts}
    del found["control"]
    return {**found, "standard_error": claims.standard_error(cell, ma_ldp.R_K)}


PAPER = _MALDP(
    "ma_ldp",
    ma_ldp.CONFIG,
    ma_ldp.RUNS,
    ma_ldp.GROUPS,
    ma_ldp.NAMES,
    ma_ldp.key,
    ma_ldp.read,
    (ma_ldp.R_K,),
    (),
    (),
    extra,
    blocks,
    figures,
)
