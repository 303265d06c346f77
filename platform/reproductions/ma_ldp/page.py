"""The page on a reproduction of [TH23]: its claims on privacy and regret beside our proofs and runs, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dprl.platform.reproductions.ma_ldp.orders import all_seen, outcomes
from dprl.platform.reproductions.ma_ldp.published import ORDERS, RUNS
from dprl.platform.reproductions.ma_ldp.runs import (
    AGAIN,
    CLIPPED,
    ILLUSTRATION,
    ILLUSTRATION_MAXMIN,
    ILLUSTRATIONS,
    MAXMIN,
    NON_PRIVATE_CEILING,
    PRINTED,
    VOTES,
    Key,
    Runs,
)
from dprl.platform.reproductions.ma_ldp.tables import (
    Found,
    at_random,
    bound_table,
    bounded_table,
    ceiling_table,
    cell_table,
    order_table,
    privacy_table,
    reading,
    vote_table,
    with_error,
)
from dprl.platform.reproductions.ma_ldp.texts import regret, share

FIGURES = ("ma_ldp_figure_1.png", "ma_ldp_cells.png")
TITLE = (
    "Reproduction: MA-LDP of Trivedi and Hemachandra, 'Local Differential Privacy Preserving Mechanisms for "
    "Multi-Agent Reinforcement Learning'"
)
AS_RUN = (PRINTED, AGAIN, MAXMIN, CLIPPED)
"""Groups with the printed noise."""
_ANSWERED = {
    PRINTED: "as printed",
    AGAIN: "as printed, with other seeds",
    ILLUSTRATION: "in the illustration with V of joint actions, which is NOT PRIVATE",
    ILLUSTRATION_MAXMIN: "in the illustration with V of maxmin, which is NOT PRIVATE",
}
_PRIVACY_RESULT = """\
**Privacy**: as printed none of the four mechanisms has a finite \u03b5. After the clips Gaussian and Laplace noise
keep their claims at n = 2; Laplace's fails at n = 10, d = 5; uniform and bounded Laplace noise fail at both."""
_READINGS = """\
The network of the paper's sec. 8 with n = 2 agents, three nodes, H = 5, d = 2 and a gap of 1/6, the largest for
which its probabilities are none below 0 (D21); rewards 0.005 and 1 (D22); K = 8500. The paper names neither \u03b4
(Gaussian and uniform noise: 0.1 here), nor the failure probability (\u03b1 = 0.1), nor the constants of the bonus (c
= 1), nor B.

* **as printed, V of joint actions**: line 11's V is the best over joint actions, as in the Bellman equation of sec.
  2.1, against whose V\\* regret is measured. Printed noise and bonus; \u03a3 is shifted by what the proofs add,
  without which it is not positive definite; nothing is clipped (D7) and rewards' weights are passed on as they are
  (D6).
* **the same with other seeds**: the four cells of Figure 1 once more.
* **as printed, V of maxmin**: the same, but V is the best over the worst of the others' actions, as in line 16.
* **after the clips, rewards known**: the printed noise where it proves something: features and values are clipped on
  the device, and rewards need not be learned. V of joint actions, here and in all certified cells.
* **certified**: noise of least scale for the stated guarantee of all that a user sends. Rewards are learned from
  noisy messages, or known; with known rewards one message can serve all agents.
* **NOT PRIVATE**: no noise, with c from 1 to 0; and a ten-thousandth of the printed noise with c = 0.001 and a tenth
  of the shift. Both with both readings of V. They show what the algorithm could learn, and protect nobody.
* **one randomised bit a user** is ours (`ldp_sign_votes`): exactly \u03b5-LDP; each user's bit votes whether
  one agent's action drove the state on. It uses that all stages and states share \u03b8."""
_PRIVACY = """\
What one user sends in an episode, at \u03b5 = 1 and \u03b4 = 1e-05, H = 5. **As printed** nothing is proved for any
of the four: the user's rewards leave in clear (D6), and without clips no noise is large enough (D7). **After the
clips**, with known rewards, the same noise proves what stands here; where an interval is given, its lower end is
attained by some pair of neighbours. `attack`: lower bounds of a sampled attack on one number of one message, all of
them together at 95 % confidence, by the name of its row on `dprl audit --papers`; Laplace's violation at n = 10 has
a probability below 1e-9."""
_BOUNDED = """\
The paper: for B of order b^\u03b3, \u03b3 \u2264 1, the regret is of the order of Laplace's (Theorem 11), and
(\u03b5, 0) holds for every B (Theorem 7); for \u03b3 > 1 it is larger by H^(3\u03b3/2) \u03b5^(-\u03b3/2). Its own
variance \u03b6 is 2b\u00b2 - (B\u00b2 + 2bB) / (e^(B/b) - 1), so below Laplace's 2b\u00b2 for every B: by Theorem 8
the second row of Table 2 cannot be larger than the first. All B here are multiples of b. Ratios are of means, with
bootstrap intervals; an interval with 1 in it is no proof of equality."""
_FIGURE = """\
The paper's Figure 1 is a picture without readable values, and no table has its numbers: only what the text says of
it can be compared. It says that R_K is larger for \u03b5 = 0.1 than for 0.2 with Laplace noise, and for 0.05 than
for 0.2 with Gaussian, in means of 10 runs, and that this 'illustrates the results of Theorems 9 and 10'. Those
theorems compare upper bounds, not regrets; at this K the bounds, with 1 for the constants that they hide, are above
what any policy can lose:"""
_CAPTION = """\
*From left to right: the four cells of the paper's Figure 1; ours; **NOT PRIVATE**: what the order needs, with V of
joint actions and with V of maxmin.*"""
_TESTS = """\
Tests are one-sided, of means, by 9999 permutations; `p, Holm` is adjusted for the three of a group. `ratio`: of the
means, with a 95 % bootstrap interval; `ratio printed`: what the theorems' proofs give, for Theorem 10 with the
fourth root that Table 1 has and the proof has not; `excluded`: it lies above our interval. The standard deviation of
the printed Gaussian noise is sqrt(2 ln(2.5H/\u03b4)) / sqrt(2nd) = 1.10 times that of Laplace's at nd = 4 and \u03b4
= 0.1; from nd = 5 on Laplace's is the larger one. `reversed`: the opposite order shows, by the same test. `seen in
10 runs`: how often means of 10 runs of each cell, resampled from ours, are in the paper's order; without any effect
that is 50 %."""
_CEILING = """\
Without noise, rewards known: R_K for each reading of V and each constant c of the bonus; actions at random lose
{uniform}. **These runs are NOT PRIVATE.** Maxmin takes the worst of the others' actions, so its values are lower than
those of the Bellman equation of sec. 2.1; its regret, against the same V\\*, need not be larger."""
_NEEDED = """\
Noise is added to sums over users. The shift that makes them positive definite grows like the square root of the
users' number, what users tell in proportion to it: the last column of the first table under Figure 1 says how many
users it takes until the shift is no more than their number. The order shows more with a ten-thousandth of the noise,
a thousandth of the bonus and a tenth of the shift. **This is NOT PRIVATE**: the legend has the \u03b5 that such
noise proves. The \u03b5 of the orders here is that whose printed scale was divided."""
_VOTES = """\
Exactly \u03b5-LDP, by randomised response, with nothing else sent; the noise is that of one bit, not of the matrices
of four stages. `below`: the upper end of the interval is."""
_CELLS = """\
`R_K`: mean with its standard error, and with its 95 % bootstrap interval. `p, Holm`: two-sided t tests that R_K is
not that of actions at random, adjusted for all cells that have one. `last tenth`: the regret per user over the last
tenth of the run, in per cent of random's; an algorithm whose regret is sub-linear has less and less. `Q cut`: share
of entries of Q at their cap. `proved`: by the certificate, at the claimed \u03b4."""
_CHOSEN = """\
The order of Figure 1 did not come out of the printed formulas. Before this page, in a simpler program, three
readings of V, five values of c without noise, and noise and shifts between one and 1e-4 of the printed ones were
tried; the three factors of the illustration were kept because an order showed with them, and then run with other
seeds. Its tests say that an order shows at these factors, not that the authors used them. In that program the order
of Laplace's cells had p = 0.17 in 30 runs and p = 0.013 in 16 others; therefore there are 100 runs here. Epsilons
and ratios B/b were fixed before these runs, and so were readings, but for V of maxmin without noise and in the
illustration: it was added after those with V of joint actions were seen. The first runs had a larger R_K with
Laplace noise at \u03b5 = 0.2 than at 0.1; after that was seen, the cells of Figure 1 were run once more with other
seeds, which stand in the tables as 'the same with other seeds'. One-bit votes come from the simpler program, on the
same network."""


_AUDITED = (
    "the attacks on n = d = 2, with looser upper bounds for uniform and bounded Laplace noise, and Laplace's proof "
    "at n = 10"
)


def page(found: Found) -> str:
    """Return the page; its figures lie beside it, named as in FIGURES."""
    parts = [
        f"# {TITLE}",
        "  \n".join(found.made),
        _counted(found),
        "## What comes out\n\n" + "\n".join(f"* {line}" for line in summary(found)),
        f"## Readings and settings\n\n{_READINGS}",
        f"## Table 1: privacy\n\n{_PRIVACY}",
        privacy_table(found.guarantees),
        _command("dprl audit --papers", _AUDITED),
        f"## Table 2: bounded Laplace noise\n\n{_BOUNDED}",
        bounded_table(found),
        f"## Figure 1\n\n{_FIGURE}",
        bound_table(found),
        f"![Regret over users: as printed, one bit a user, and an illustration that is not private]({FIGURES[0]})",
        _CAPTION,
        _TESTS,
        order_table(AS_RUN, found),
        chance(found),
        f"## What MA-LDP could learn: NOT PRIVATE\n\n{_CEILING.format(uniform=regret(found.levels.uniform))}",
        ceiling_table(found),
        f"## What the order needs: NOT PRIVATE\n\n{_NEEDED}",
        order_table(ILLUSTRATIONS, found),
        f"## One randomised bit a user\n\n{_VOTES}",
        vote_table(found),
        _command("dprl certify ma_ldp_mechanisms", "every certificate, without running"),
        f"## All cells\n\n{_CELLS}",
        f"![R_K of every cell with its interval]({FIGURES[1]})",
        cell_table(found),
        _command("dprl report ma_ldp_mechanisms", "the same cells from the finished sweep, as any sweep is reported"),
        f"## Chosen after seeing results\n\n{_CHOSEN}",
        _left_open(found.runs),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _counted(found: Found) -> str:
    counts = sorted({cell.count for cell in found.runs.values()})
    episodes = max(cell.episodes for cell in found.runs.values())
    return (
        f"{' to '.join(map(str, counts))} runs of {episodes:,} users for each cell. The best policy has R_K = 0, "
        f"actions at random {regret(found.levels.uniform)}, the worst policy {regret(found.levels.worst)}: exactly, by "
        "`optimal_start_value`, `uniform_value` and `worst` of `NetworkMDP().build()`. All numbers of this page with "
        "all digits: `.venv/bin/dprl reproduce ma-ldp --json`."
    )


def summary(found: Found) -> list[str]:
    """Return the answers, a line each, as the numbers of these runs have them."""
    judged = at_random(found)
    apart = [key for key, p in judged.items() if p < 0.05]
    lines = [_PRIVACY_RESULT]
    if judged:
        lowest = min(float(found.runs[key].regret.mean()) for key in judged)
        lines.append(
            f"**Regret**: {len(judged) - len(apart)} of {len(judged)} cells of MA-LDP with printed or certified noise "
            f"are not told apart from actions at random, {regret(found.levels.uniform)}; the lowest mean is "
            f"{regret(lowest)}."
        )
    for group, name in _ANSWERED.items():
        results = outcomes(group, found.runs)
        if results:
            showing, opposite = sum(one.shows for one in results), sum(one.reversed for one in results)
            told = f", {opposite} the other way round" if opposite else ""
            lines.append(f"**Order of Figure 1** {name}: {showing} of {len(results)} inequalities show{told}.")
    free = {key: found.runs[key] for key in found.runs if key.group in NON_PRIVATE_CEILING}
    if free:
        key, cell = min(free.items(), key=lambda pair: float(pair[1].regret.mean()))
        lines.append(f"**Without noise**, NOT PRIVATE: R_K = {with_error(cell)} at best, {reading(key)}.")
    best = [key for key in found.runs if key.group == VOTES]
    if best:
        told = ", ".join(f"{regret(float(found.runs[key].regret.mean()))} at \u03b5 = {key.epsilon:g}" for key in best)
        lines.append(f"**One bit a user**, with \u03b5 proved: R_K = {told}.")
    return lines


def chance(found: Found) -> str:
    """Return how likely the paper's picture is where nothing is learned."""
    both = [order for order in ORDERS if order.theorem == "Theorem 9"]
    lines = []
    for group in AS_RUN:
        two, three = all_seen(group, found.runs, both), all_seen(group, found.runs)
        if not math.isnan(two):
            lines.append(f"{_words(group)}: {share(two)} and {share(three)}")
    if not lines:
        return ""
    return (
        f"**By chance.** Where \u03b5 has no effect, means of {RUNS} runs are in both orders of Theorem 9 with "
        "probability 1/4, and in that of Theorem 10, too, with 1/8. Resampled from ours, they are in two and in all "
        "three orders: "
        f"{'; '.join(lines)}. One picture of 10 runs says nothing on the theorems."
    )


def _command(words: str, what: str) -> str:
    return f"Also by `.venv/bin/{words}`: {what}."


def _words(group: str) -> str:
    return {PRINTED: "as printed", AGAIN: "with other seeds", MAXMIN: "with maxmin", CLIPPED: "after the clips"}[group]


def _left_open(runs: Mapping[Key, Runs]) -> str:
    """Return what no certificate of a private cell covers."""
    noisy = [cell for key, cell in runs.items() if cell.certificate["trust_model"] != "none"]
    open_channels = dict.fromkeys(name for cell in noisy for name in cell.certificate["excluded_channels"])
    return f"## What certificates leave open\n\n{'; '.join(open_channels) or 'nothing known'}."
