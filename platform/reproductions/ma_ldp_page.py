"""Tables specific to the page on [TH23]: proofs of its noise, all regrets, and printed bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import scipy

from dprl.platform.reports.inference.pairs import holm
from dprl.platform.reproductions import claims, ma_ldp, tables
from dprl.platform.reproductions import ma_ldp_proofs as proofs
from dprl.platform.reproductions.engine import PageData, Paper
from dprl.platform.reproductions.ma_ldp_figures import figures, row_label
from dprl.platform.reproductions.resampling import ratio
from dprl.platform.results.summary import standing

_BOUNDED_EPSILON = 0.1
_SAME = 1e-9
"""Relative tolerance: sums of exact values differ by rounding."""
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
_TESTED = {
    **{group: group for group in ma_ldp.AS_RUN},
    ma_ldp.ILLUSTRATION: "NOT PRIVATE",
    ma_ldp.ILLUSTRATION_MAXMIN: "NOT PRIVATE, maxmin",
}
"""Groups with all cells of Figure 1, and their names on a terminal."""
_GROUP_WORDS = {group.name: group.words for group in ma_ldp.GROUPS}


class _MALDP(Paper):
    """[TH23], with other published names for the data of orders."""

    name, config, runs = "ma_ldp", ma_ldp.CONFIG, ma_ldp.RUNS
    groups, names, units = ma_ldp.GROUPS, ma_ldp.NAMES, ("runs", "users")

    key, read, figures = staticmethod(ma_ldp.key), staticmethod(ma_ldp.read), staticmethod(figures)

    def extra(self, *_: object) -> dict[str, Any]:
        """Return the attacks on the printed noise."""
        return {"attacks": proofs.attacked()}

    def blocks(self, found: PageData) -> dict[str, str]:
        """Return the text of the placeholders that only this page has."""
        cells, levels = found.cells, _levels(found.cells)
        return {
            **super().blocks(found),
            "uniform": tables.number(levels.uniform),
            "worst": tables.number(levels.worst),
            "summary": "\n".join(f"* {line}" for line in summary(cells)),
            "privacy_table": proofs.privacy_table(found.extra["attacks"]),
            "bounded_table": tables.table(_bounded_rows(cells)),
            "bound_table": tables.table(_bound_rows(cells)),
            "orders": tables.table(_order_rows(ma_ldp.AS_RUN, cells)),
            "chance": _chance(cells),
            "ceiling_table": tables.table(_ceiling_rows(cells)),
            "illustrated_orders": tables.table(_order_rows(ma_ldp.ILLUSTRATIONS, cells)),
            "cell_table": tables.table(_cell_rows(cells)),
        }

    def verdicts(self, found: PageData) -> list[list[str]]:
        """Return a table for a terminal: the verdict on each order by group."""
        tested = [outcomes(group, found.cells) for group in _TESTED]
        rows = [["", *_TESTED.values()]]
        for claim, *results in zip(ma_ldp.ORDERS.claims, *tested, strict=True):
            texts = (f"{_ORDERS[one.verdict]}, p {one.adjusted:.3f}" for one in results)
            rows.append([f"{claim.place}: {claim.order}", *texts])
        return rows

    def data(self, found: PageData) -> dict[str, Any]:
        """Return all numbers of the page as plain data."""
        judged, cells = at_random(found.cells), found.cells
        seen = {group: claims.all_seen(ma_ldp.ORDERS.claims, group, cells, self.runs) for group in _TESTED}
        return {
            "levels": _levels(cells)._asdict(),
            "orders": [_order(group, one) for group in _TESTED for one in outcomes(group, cells)],
            "all_seen_in_10_runs": seen,
            "cells": [{**_cell(name, cell), "p_not_random_holm": judged.get(name)} for name, cell in cells.items()],
            "guarantees": proofs.guarantee_data(found.extra["attacks"]),
        }


PAPER = _MALDP()


def _levels(cells: claims.Cells) -> ma_ldp.Levels:
    return ma_ldp.Levels.of(tables.longest(cells))


def outcomes(group: str, cells: claims.Cells) -> tuple[claims.Outcome, ...]:
    """Return the outcome of each of the paper's orders in a group."""
    return claims.decide(ma_ldp.ORDERS, group, cells, ma_ldp.RUNS)


def summary(cells: claims.Cells) -> list[str]:
    """Return the answers, one line each, from the numbers of these runs."""
    judged = at_random(cells)
    alike, lowest = sum(p >= 0.05 for p in judged.values()), min(_mean(cells[name]) for name in judged)
    level, least = tables.number(_levels(cells).uniform), tables.number(lowest)
    noisy = f"{alike} of {len(judged)} cells of MA-LDP with printed or certified noise"
    told = f"show no significant difference from actions at random, {level}; the lowest mean is {least}."
    lines = [f"**Regret**: {noisy} {told}"]
    for group, words in _ANSWERED.items():
        verdicts = [one.verdict for one in outcomes(group, cells)]
        showing, opposite = verdicts.count("holds"), verdicts.count("fails")
        told = f", {opposite} the other way round" if opposite else ""
        lines.append(f"**Order of Figure 1** {words}: {showing} of {len(verdicts)} inequalities show{told}.")
    best = min((name for name in cells if name.group in ma_ldp.NON_PRIVATE_CEILING), key=lambda one: _mean(cells[one]))
    value = "maxmin" if best.group == ma_ldp.WITHOUT_MAXMIN else "joint actions"
    free = f"R_K = {_with_error(cells[best])} at best, V of {value}, c = {best.setting:g}"
    return [*lines, f"**Without noise**, NOT PRIVATE: {free}."]


def _of(group: str, cells: claims.Cells) -> list[claims.Key]:
    return [name for name in cells if name.group == group]


def _bounded_rows(cells: claims.Cells) -> Iterator[dict[str, str]]:
    """Yield Table 2 for B of the order of b: regrets beside Laplace's, and the guarantee under a bound."""
    for group in (ma_ldp.PRINTED, ma_ldp.CLIPPED):
        laplace, clipped = claims.Key(group, ma_ldp.LAPLACE, _BOUNDED_EPSILON), group == ma_ldp.CLIPPED
        bounded = [name for name in _of(group, cells) if name.mechanism == ma_ldp.BOUNDED]
        for name in (*sorted(bounded, key=lambda one: one.setting), laplace):
            free = name == laplace
            claim = proofs.proved(name.mechanism, ma_ldp.AGENTS, ma_ldp.FEATURES, name.epsilon, name.setting)
            after = "= 0" if free else proofs.between(claim.proof.attained_delta, claim.proof.delta)
            regrets = (cells[each].values[ma_ldp.R_K.values] for each in (name, laplace))
            yield {
                "reading": _GROUP_WORDS[group],
                "B": f"{tables.INFINITE} (Laplace)" if free else f"{name.setting:g} b",
                "variance, of Laplace's": tables.per_cent(1.0 if free else proofs.variance_share(name.setting)),
                "R_K [95 %]": tables.measured(ma_ldp.R_K, cells[name]),
                "of Laplace's R_K [95 %]": "1.00" if free else tables.interval(ratio(*regrets), 2),
                f"proved at the claimed \u03b5 = {_BOUNDED_EPSILON:g}": f"\u03b4 {after if clipped else '= 1'}",
                "verdict": proofs.VERDICTS[claim.white_box if clipped else "fails"],
            }


def _order_rows(groups: Sequence[str], cells: claims.Cells) -> Iterator[dict[str, str]]:
    """Yield the tests of the paper's inequalities in those groups of cells."""
    for group in groups:
        for one in outcomes(group, cells):
            claim, shown = one.claim, _ORDERS[one.verdict]
            larger, smaller = (cells[key.of(group)] for key in claim.keys)
            yield {
                "reading": _GROUP_WORDS[group],
                "theorem": claim.place,
                "order": claim.order,
                "R_K of the larger": _with_error(larger),
                "of the smaller": _with_error(smaller),
                "ratio [95 %]": tables.interval(one.ratio, 2),
                "ratio printed": f"{claim.ratio:.2f}" + (" (excluded)" if one.excluded else ""),
                "p": tables.p_value(one.p),
                "p, Holm": tables.p_value(one.adjusted),
                f"seen in {ma_ldp.RUNS} runs": tables.per_cent(one.difference.seen),
                "verdict": shown if one.verdict == "holds" else f"**{shown}**",
            }


def _chance(cells: claims.Cells) -> str:
    """Return the probability of the paper's picture if nothing is learned."""
    every = ma_ldp.ORDERS.claims
    both, lines = [claim for claim in every if claim.place == "Theorem 9"], []
    for group, words in _SHORT.items():
        two, three = (claims.all_seen(orders, group, cells, ma_ldp.RUNS) for orders in (both, every))
        lines.append(f"{words}: {tables.per_cent(two)} and {tables.per_cent(three)}")
    return (
        f"**By chance.** Where \u03b5 has no effect, means of {ma_ldp.RUNS} runs are in both orders of Theorem 9 with "
        "probability 1/4, and in that of Theorem 10, too, with 1/8. Resampled from ours, they are in two and in all "
        f"three orders: {'; '.join(lines)}. One picture of {ma_ldp.RUNS} runs says nothing on the theorems."
    )


def _ceiling_rows(cells: claims.Cells) -> Iterable[dict[str, str]]:
    """Return R_K without noise for each reading of V: one row per constant of the bonus."""
    rows: dict[float, dict[str, str]] = {}
    for group, value in zip(ma_ldp.NON_PRIVATE_CEILING, ("joint actions", "maxmin"), strict=True):
        for name in sorted(_of(group, cells), key=lambda one: -one.setting):
            row = rows.setdefault(name.setting, {"c": f"{name.setting:g}"})
            row[f"V of {value}: R_K [95 %]"] = f"{_with_error(cells[name])} {_ends(cells[name])}"
    return rows.values()


def _bound_rows(cells: claims.Cells) -> Iterator[dict[str, str]]:
    """Yield the printed bounds at the paper's K, beside the regret of the worst policy."""
    episodes, levels = tables.longest(cells), _levels(cells)
    for label, name in ma_ldp.FIGURE:
        cell = cells[name.of(ma_ldp.PRINTED)]
        shift = cell.facts["shift"]
        needed = proofs.episodes_needed(name.mechanism, name.epsilon, levels, episodes)
        yield {
            "cell": label,
            f"bound on R_K, K={episodes:,}": f"{ma_ldp.printed_bound(name.mechanism, name.epsilon, episodes):.2g}",
            "R_K of the worst policy": tables.number(levels.worst),
            "K from which it says something": f"{needed:.1g}",
            "shift of \u03a3 after the last user": f"{shift:.2g}",
            # The shift grows like the square root of the users.
            "users until it is their number": f"{shift**2 / cell.episodes:.1g}",
        }


def _cell_rows(cells: claims.Cells) -> Iterator[dict[str, str]]:
    """Yield every cell: regret, its difference from random actions, and its proof."""
    judged, uniform = at_random(cells), _levels(cells).uniform
    for group in ma_ldp.GROUPS:
        for name in _of(group.name, cells):
            cell = cells[name]
            late, stands = float(cell.values["late"].mean()) * cell.episodes / uniform, standing(cell.certificate)
            delta = cell.certificate["claimed"]["delta"]
            yield {
                "reading": group.words,
                "cell": row_label(name, cell),
                "runs": str(cell.count),
                "R_K": _with_error(cell),
                "[95 %]": _ends(cell),
                "p, Holm: not random's": tables.p_value(judged[name]) if name in judged else "",
                "last tenth, of random's": tables.per_cent(late),
                "Q cut": tables.per_cent(cell.facts["saturated"]),
                "proved": f"\u03b5 = {tables.plain(stands.proved)}" + (f" at \u03b4 = {delta:g}" if delta else ""),
                "verdict": proofs.VERDICTS[stands.verdict],
            }


def at_random(cells: claims.Cells) -> dict[claims.Key, float]:
    """Return p-values for R_K of cells of MA-LDP with printed or certified noise against that of random actions.

    They are of two-sided t tests, adjusted by Holm.
    """
    private = {group.name for group in ma_ldp.GROUPS if group.private}
    names, level = [name for name in cells if name.group in private], _levels(cells).uniform
    return dict(zip(names, holm([_not_at(cells[name], level) for name in names]), strict=True))


def _not_at(cell: claims.PaperCell, level: float) -> float:
    apart, error = abs(_mean(cell) - level), claims.standard_error(cell, ma_ldp.R_K)
    if apart <= _SAME * level or math.isnan(error):
        return 1.0
    return float(2.0 * scipy.special.stdtr(cell.count - 1, -apart / error)) if error > 0.0 else 0.0


def _mean(cell: claims.PaperCell) -> float:
    return float(cell.values[ma_ldp.R_K.values].mean())


def _with_error(cell: claims.PaperCell) -> str:
    """Return the mean of R_K with its standard error."""
    return f"{tables.number(_mean(cell))} \u00b1 {tables.number(claims.standard_error(cell, ma_ldp.R_K))}"


def _ends(cell: claims.PaperCell) -> str:
    """Return the interval of R_K."""
    return tables.ends(ma_ldp.R_K.estimate(cell))


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


def _cell(name: claims.Key, cell: claims.PaperCell) -> dict[str, Any]:
    facts = {fact: cell.facts[fact] for fact in ("saturated", "indefinite")}
    found = {**name._asdict(), "epsilon": claims.finite_epsilon(name), **claims.cell_data(cell, (ma_ldp.R_K,)), **facts}
    del found["control"]
    return {**found, "standard_error": claims.standard_error(cell, ma_ldp.R_K)}
