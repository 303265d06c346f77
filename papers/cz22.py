"""Table 1 of [CZ22] beside ours: rates of regret of private algorithms on RiverSwim, at the paper's noise.

The paper has no experiments. Its bounds hold up to logarithms and for the worst MDP: a smaller exponent is within them.
Paper: [CZ22] Table 1, Corollaries 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms.base import REGRET, Float64Array
from dprl.papers.compare import NONE, Section, chosen
from dprl.platform.configs.experiment import Scalar
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.inference import Estimate, effect, estimate
from dprl.platform.results.summary import by_seed, halved_at

TITLE = "Private-UCB-VI and Private-UCB-PO of Chowdhury and Zhou: stated rates beside ours"
CONFIG, QUICK = "cz22", ("seeds=3",)
NOTES = """\
RiverSwim with S = 3, H = 4, constants of the proofs, noise of `calibration: printed`. All plan after every 1 % more
episodes: a variant, the printed algorithms plan after every episode. Exponents are slopes of least squares on logs, in
K over the last decade of a run; the cost of privacy is R less the mean R without it. They have Student's 95 % intervals
over seeds, ratios Welch's. Not visible: the regret per episode had not halved by K / 10, so that the exponent would be
that of the first policy. On a single MDP regret ends up logarithmic in K, below a bound for the worst MDP of each K: so
these runs test the bounds and not whether they are tight.
"""

EXPONENTS = {"jdp": (0.5, 0.0), "ldp": (0.5, 0.5)}
"""Upper bounds on those of K, by trust model: of regret R, and of the cost of privacy, R less the mean R without it.

They follow from sqrt(K) + 1 / epsilon for jdp, sqrt(K) + sqrt(K) / epsilon for ldp.
"""
ORDERS = [
    ("jdp", "private_ucb_po", "private_ucb_vi"),
    ("jdp", "pucb", "private_ucb_vi"),
    ("ldp", "private_ucb_po", "private_ucb_vi"),
    ("ldp", "ldp_obi", "private_ucb_vi"),
]
"""Private-UCB-VI has sqrt(SAH^3T) where the others have sqrt(S^2AH^3T); the terms with epsilon are the same."""

NOT_VISIBLE = "not visible at this size"
DECADE = np.linspace(-1.0, 0.0, 11)
POINTS = [f"R(K 10^{exponent:.1f})" for exponent in DECADE]
"""Columns with the regret at points of the last decade."""


def sections(runs: pd.DataFrame) -> list[Section]:
    """Return the tables of the page."""
    return tables(runs, ORDERS)


def tables(runs: pd.DataFrame, stated: Sequence[tuple[str, str, str]]) -> list[Section]:
    """Return the exponents of K and of 1 / epsilon, the stated orders, and the claimed and proved epsilons."""
    names = ["model", "K", "claimed", "proved", "verdict"]
    proofs = runs.loc[runs["model"] != "none", names].drop_duplicates(ignore_index=True)
    return [*rates(runs), orders(runs, stated), Section("Epsilon claimed and proved", proofs)]


def key(flat: Mapping[str, Scalar]) -> dict[str, Any]:
    """Return the key of a cell: algorithm, trust model and claimed epsilon, infinite without privacy."""
    epsilon = math.inf if flat["privacy.model"] == "none" else float(flat["privacy.epsilon"])
    return {"algorithm": flat["algorithm.name"], "model": flat["privacy.model"], "epsilon": epsilon}


def read(results: CellResults) -> dict[str, Any]:
    """Return the regret of each seed at 11 episodes of the last decade, and whether a decade earlier it had bent.

    visible: whether the regret per episode had halved by K / 10; else most of the regret is that of the first policy.
    """
    ends, regrets = by_seed(results.records, REGRET.name)
    at = np.log(ends[-1]) + DECADE * math.log(10.0)
    curves = [np.exp(np.interp(at, np.log(ends), np.log(regret))) for regret in regrets.T]
    visible = bool(np.all(halved_at(results.records) <= ends[-1] / 10.0))
    points = dict(zip(POINTS, np.transpose(curves), strict=True))
    return {"K": int(ends[-1]), "visible": visible, **points}


def slope(curves: Float64Array, at: Float64Array) -> Estimate | str:
    """Return the mean over seeds of the least-squares slopes of log curves float64[seeds, n] at float64[n]."""
    if not curves.size:
        return NONE
    return estimate(np.polyfit(at, np.log(curves).T, 1)[0]) if (curves > 0.0).all() else "not always above 0"


def rates(runs: pd.DataFrame) -> list[Section]:
    """Return the tables of exponents of K and of 1 / epsilon."""
    in_k, in_epsilon = [], []
    private = runs[runs["model"] != "none"]
    for algorithm, model in private[["algorithm", "model"]].drop_duplicates().to_numpy().tolist():
        group, about = chosen(runs, algorithm=algorithm, model=model), {"algorithm": algorithm, "model": model}
        without = chosen(runs, algorithm=algorithm, model="none", K=group["K"].iloc[0])[POINTS].to_numpy()
        at_the_end = {}
        for epsilon in sorted(group["epsilon"].unique().tolist()):
            cell = chosen(group, epsilon=epsilon)
            regret, row = cell[POINTS].to_numpy(), {**about, "epsilon": epsilon, "K": cell["K"].iloc[0]}
            costs = regret - without.mean(axis=0) if len(without) else np.empty(0)
            for name, curves, stated in zip(("R", "cost"), (regret, costs), EXPONENTS[model], strict=True):
                ours = slope(curves, DECADE * math.log(10.0)) if cell["visible"].all() else NOT_VISIBLE
                row |= {f"{name}: at most": stated, f"{name}: ours": ours}
            in_k.append(row)
            if cell["visible"].all():
                at_the_end[epsilon] = (costs if len(without) else regret)[:, -1]
        curves, at = np.transpose([*at_the_end.values()]), -np.log([*at_the_end])
        of, used = "cost" if len(without) else "R", ", ".join(f"{epsilon:g}" for epsilon in at_the_end)
        ours = slope(curves, at) if len(at) > 1 else NOT_VISIBLE
        in_epsilon.append({**about, "of": of, "at most": 1.0, "ours": ours, "epsilons used": used})
    return [
        Section("Exponents of K over the last decade of a run", pd.DataFrame(in_k)),
        Section("Exponents of 1 / epsilon at the end of a run", pd.DataFrame(in_epsilon)),
    ]


def orders(runs: pd.DataFrame, stated: Sequence[tuple[str, str, str]]) -> Section:
    """Return a paper's order of algorithms by regret, as (model, larger, smaller), at each epsilon that both have."""
    rows = []
    for model, larger, smaller in stated:
        for epsilon in sorted(chosen(runs, model=model)["epsilon"].unique().tolist()):
            one, other = (chosen(runs, model=model, algorithm=name, epsilon=epsilon) for name in (larger, smaller))
            if one.empty or other.empty:
                continue
            found = effect(one[POINTS[-1]].to_numpy(), other[POINTS[-1]].to_numpy(), "log")
            verdict = "shows" if found.lower > 1.0 else "reversed" if found.upper < 1.0 else "no difference seen"
            about = {"model": model, "epsilon": epsilon, "order by the bounds": f"{larger} > {smaller}"}
            ratio = Estimate(found.value, found.lower, found.upper, "log")
            seen = one["visible"].all() and other["visible"].all()
            rows.append({**about, "ratio, ours": ratio, "verdict": verdict if seen else NOT_VISIBLE})
    return Section("Order of the algorithms", pd.DataFrame(rows))
