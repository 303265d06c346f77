"""Methods section of a report: its intervals, budgets, tests and epsilons."""

from __future__ import annotations

from dprl.platform.reports.comparing.declared import MOST_PAIRS
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS

_INTERVALS = f"""\
Each value of a positive metric is the geometric mean over seeds. The 95% interval is Student's interval of the mean
log value, transformed back, and cut at the range of the metric. Other metrics have the ordinary mean and Student's
interval. The interval of a ratio is Welch's, on logs. Bands of curves are simultaneous (sup-t, multiplier bootstrap
of whole seeds' curves): with 3 or 4 seeds those of rough curves cover about 90% only. With fewer than {FEWEST_SEEDS}
seeds there is no interval and no test."""
_BUDGETS = """\
A cell is within the budget (\u03b5, \u03b4) if its noise certifies at most \u03b5 at some \u03b4 no larger than the
budget's. Figures show a cell at the \u03b5 that its noise certifies, never at one that it only claims."""
_TESTS = f"""\
Comparisons are declared before any result is seen. They are between two algorithms at the same privacy and noise,
two kinds of noise for one algorithm at the same privacy, or two neighbouring \u03b5 for one algorithm and kind of
noise. "Significant" means Welch's test, on logs where values are positive, with Holm's adjustment at 5% for all
declared comparisons of a group: one environment with one number of episodes. There is no adjustment over groups: on
a page of G groups the probability of any false difference is at most 5% times G. Intervals of single values are not
adjusted, not even for the choice of the best cell. "Not significant" does not mean equal. "Other noise, too" marks a
next best cell that differs in algorithm and noise; no ratio is then shown. All comparisons are in comparisons.csv. A
grid with more than {MOST_PAIRS} comparisons of algorithms or of noise at one privacy declares none of them;
--compare declares one that you name."""
_PRIVACY = """\
\u03b5 and \u03b4 are computed from the noise that ran. Central: joint differential privacy, against all other users.
Local: against the server as well. Shuffle: against the server as well, if a trusted shuffler permutes the reports.
Each cell's certificate.json names its neighbours, threat model and channels that are not covered. "No privacy" is the
same algorithm without noise. "No learning" is the regret of the first episodes, or the score of the first policy."""
METHODS = (("Intervals", _INTERVALS), ("Budgets", _BUDGETS), ("Tests", _TESTS), ("Privacy", _PRIVACY))
"""Headings and texts."""
MEDIAN = "It is a median over seeds [95% interval, from 6 seeds on]; >K: not within the K episodes of the run."
HALVED = """\
Episodes to half regret: episodes until the regret per episode is at most half of that of the first episode, and stays
at or below it; median over seeds [95% interval, from 6 seeds on]; >K: not within the K episodes of the run. Noise and
bonuses depend on K, so in a run of another length this number would differ."""
