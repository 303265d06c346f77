"""The page on a reproduction of [OT20]: its tables beside ours, what holds, controls and privacy, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dprl.algorithms.base import Float64Array
from dprl.platform.reports.cell_texts import table
from dprl.platform.reports.verdicts import standing
from dprl.platform.reproductions.pgc_a3c.best import BestCell
from dprl.platform.reproductions.pgc_a3c.published import (
    BUFFERS,
    EPSILONS,
    LAPLACE_BUFFERING,
    PROJECTED_BUFFERING,
    TRIALS,
)
from dprl.platform.reproductions.pgc_a3c.results import TABLES, Entry, inside
from dprl.platform.reproductions.pgc_a3c.sentences import EARLY, SENTENCES, Finding, Verdict, decide
from dprl.platform.reproductions.pgc_a3c.trials import ELEMENTWISE, MECHANISMS, NOISE, READINGS, Key, Trials
from dprl.platform.reproductions.resampling import (
    Comparison,
    Estimate,
    compared,
    estimate,
    mean,
    median,
    share,
)

FIGURES = ("pgc_a3c_figure_2.png", "pgc_a3c_figure_3.png")
FIGURE_READINGS = ("R1", "R2")
INFINITE = "\u221e"
TITLE = "Reproduction: PGC-A3C of Ono and Takahashi, 'Locally Private Distributed Reinforcement Learning'"
_CAVEAT = """\
**How the readings were chosen.** The paper leaves much open, and its printed formulas do not give its tables. Some
hundred combinations of what it leaves open were tried, most of them for the row without privacy only; R1 and R2 were
kept after their results were seen, and then run with other seeds. That a number matches therefore says 'this reading
is compatible with the table', not 'this is what the authors ran'."""
_COLUMNS = """\
`published` is empty where the paper has no number or the text at hand has lost it. `ours`: all trials, with a 95 %
interval (bootstrap; for shares Clopper and Pearson). `first 20`: our first 20 trials alone, as many as the paper has.
`20 trials`: the central 95 % of what 20 trials say, resampled from all of ours; `inside`: whether the published number
lies in that. A median is infinite where half of the trials have no first success."""
_WITHOUT_PRIVACY = """\
**Rows without privacy.** The paper does not say how it clips gradients at \u03b5 = \u221e. 'Each coordinate clipped'
limits every coordinate to \u00b1C/2 for |B| = 1, with Laplace's C, and to \u00b11 for |B| = 100, with that of PRS. With
such a clip the Laplace mechanism would not be \u03b5-LDP. 'Laplace's L1 clip' is the Laplace mechanism as it stands,
without its noise."""
_DECIDED = f"""\
A sentence is a conjunction of comparisons, each a difference of two cells with its 95 % bootstrap interval. It
**holds** if all intervals lie above 0, **fails** if one lies below 0, and is **open** otherwise. Intervals are not
widened for being many. 'Early stage' is read as the first {EARLY:,} submissions; AUCs are compared as areas, not
relative ones. That all trials succeed holds if all of ours do, and fails if fewer than 2.5 % of runs of 20 would.
`seen`: how often 20 trials of each cell show a difference above 0, or all succeed. Figure 2 was run for R1 and R2."""
_CONTROLS = """\
**Noise only.** The same runs, but every agent reports a gradient of zero: what remains is the walk that the noise
makes. A first success needs ten good episodes in a row, once; a walk finds them, too. What the gradients add is the
difference."""
_RANDOM_SEARCH = """\
**Random search** on the scores, which the paper takes to be public: parameters are drawn from N(0, 1), agents try them
until they cannot average 195 over ten any more, then others are drawn. It uses no gradient, and no privacy budget."""
_SCORES = """\
**Scores over the run.** A first success is not what is left in the end: here are mean scores of all submissions, and of
the last 5,000, over trials. The target is 195, the maximum 200."""
_BEST = """\
Ours, not the paper's: other mechanisms and step sizes at the same guarantee. They were tuned on the simulator's scores
of other seeds, which real users would not give away. Sorted by \u03b5, then by the median; **bold** is the smallest
median at its \u03b5, chosen after seeing the rows of this table."""
_WORDS: dict[Verdict, str] = {"holds": "**holds**", "fails": "**fails**", "open": "open", "not run": ""}
_DECIMALS = {1: 1, 2: 2, 3: 3}
"""Of the numbers that the paper prints, by table."""
_NAMES = ("reading", "mechanism", "settings", "sentence", "comparison", "place", "verdict", "inside", "search")


@dataclass(frozen=True)
class Search:
    """The random searches: first successes float64[runs] without exploration, and with that of the agents."""

    greedy: Float64Array
    exploring: Float64Array


@dataclass(frozen=True)
class Material:
    """All that the page says.

    trials: by cell. search: the control. best: cells of the sweep with our own settings. made: lines on what was run.
    """

    trials: Mapping[Key, Trials]
    search: Search
    best: Sequence[BestCell]
    made: Sequence[str]

    @property
    def readings(self) -> list[str]:
        """The readings that have trials."""
        found = {key.reading for key in self.trials}
        return [reading.name for reading in READINGS if reading.name in found]

    @cached_property
    def findings(self) -> list[dict[str, Finding]]:
        """What became of each sentence of the paper, by reading."""
        return [{name: decide(sentence, name, self.trials) for name in self.readings} for sentence in SENTENCES]


def page(material: Material) -> str:
    """Return the page; its figures lie beside it, named as in FIGURES."""
    parts = [
        f"# {TITLE}",
        "  \n".join(material.made),
        *_about(material),
        *_tables(material),
        *_sentences(material),
        *_figures(),
        *_controls(material),
        *_privacy(material),
        *_best(material),
    ]
    return "\n\n".join(parts) + "\n"


def _about(material: Material) -> list[str]:
    counts = sorted({cell.count for cell in material.trials.values()})
    submissions = max(cell.submissions for cell in material.trials.values())
    listed = "\n".join(f"* **{one.name}**: {one.words}" for one in READINGS if one.name in material.readings)
    common = (
        "In all of them actions are greedy but for exploration, gradients are sums over an episode's steps, advantages "
        "and targets are constants, and an agent starts from the parameters after the message 9 before its own."
    )
    few = "" if counts[0] > TRIALS else _few(counts[0])
    told = f"{' to '.join(map(str, counts))} trials of {submissions:,} submissions for each cell.{few}"
    return [told, f"## Readings\n\n{listed}\n\n{common}", _CAVEAT]


def _few(count: int) -> str:
    return f" With {count} trials the column `20 trials` is resampled from no more than these; --full runs 100."


def _tables(material: Material) -> list[str]:
    parts = ["## Published numbers beside ours", _COLUMNS, _WITHOUT_PRIVACY]
    for one in TABLES:
        parts.append(f"### Table {one.number}: {one.title}")
        for reading in material.readings:
            entries = one.entries(reading, material.trials)
            hits, asked = inside(entries)
            lines = [_entry_texts(entry, one.number) for entry in entries]
            headers = ["mechanism", "\u03b5", "published", "ours [95 %]", "first 20", "20 trials", "inside"]
            if one.number == 3:
                headers.append("area, not relative [95 %]")
            told = f"**{reading}**: {hits} of {asked} published numbers inside."
            parts += [told, table(headers, lines, _NAMES)]
    return parts


def _entry_texts(entry: Entry, number: int) -> list[str]:
    """Return a row of a table."""
    text = _submissions if number == 1 else _share
    said = "" if entry.published is None else f"{entry.published:.{_DECIMALS[number]}f}"
    low, high = entry.spread
    found = [
        _row_name(entry.key),
        _epsilon(entry.key.epsilon),
        said,
        _interval(entry.ours, number),
        text(entry.first),
        "" if math.isnan(low) else f"{text(low)} to {text(high)}",
        {None: "", True: "yes", False: "**no**"}[entry.inside],
    ]
    return [*found, _interval(entry.area, number)] if entry.area is not None else found


def _sentences(material: Material) -> list[str]:
    verdicts = []
    comparisons: dict[str, dict[str, Comparison]] = {}
    for sentence, by_reading in zip(SENTENCES, material.findings, strict=True):
        quote = sentence.quote
        verdicts.append([quote.text, quote.place, *(_WORDS[finding.verdict] for finding in by_reading.values())])
        for reading, finding in by_reading.items():
            for label, comparison in finding.comparisons.items():
                comparisons.setdefault(label, {})[reading] = comparison
    details = [
        [label, *(_comparison(label, found.get(reading)) for reading in material.readings)]
        for label, found in comparisons.items()
    ]
    return [
        "## Which sentences hold",
        _DECIDED,
        table(["sentence", "place", *material.readings], verdicts, ("sentence", "place", *material.readings)),
        "<details><summary>Every comparison</summary>",
        table(["comparison", *material.readings], details, _NAMES),
        "</details>",
    ]


def _comparison(label: str, found: Comparison | None) -> str:
    """Return a difference, its interval and how often 20 trials show it."""
    if found is None:
        return ""
    number = 1 if label.startswith("median") else 4 if label.startswith("mean score") else 3
    return f"{_interval(Estimate(found.difference, found.lower, found.upper), number)}, seen {found.seen:.2f}"


def _figures() -> list[str]:
    caption_2 = (
        f"*Figure 2 of the paper, from our trials. It says of it: '{LAPLACE_BUFFERING.text}'; "
        f"'{PROJECTED_BUFFERING.text}' than without.*"
    )
    caption_3 = (
        "*Figure 3 of the paper, from our trials, with the noise-only controls. It says of it: 'With larger "
        "\u03b5, both algorithms achieve a high success ratio consuming fewer updates', and 'PRS makes more successes "
        "in the early stage'. Table 3 compares the areas under these curves.*"
    )
    return [
        "## Figures",
        f"![Mean scores over submissions, with and without buffering]({FIGURES[0]})",
        caption_2,
        f"![Success ratio over submissions, for each epsilon]({FIGURES[1]})",
        caption_3,
    ]


def _controls(material: Material) -> list[str]:
    headers = ["reading", "mechanism", "\u03b5", "success", "noise only", "area", "noise only", "area gained [95 %]"]
    lines = []
    for reading in material.readings:
        for mechanism, buffer_size in BUFFERS.items():
            for epsilon in EPSILONS:
                key = Key(reading, mechanism, epsilon, buffer_size)
                real, control = (material.trials.get(each) for each in (key, key._replace(reports=NOISE)))
                if real is not None and control is not None:
                    lines.append([reading, MECHANISMS[mechanism], _epsilon(epsilon), *_gain(real, control)])
    parts = ["## Controls", _CONTROLS, table(headers, lines, _NAMES)]
    if "literal" in material.readings:
        parts.append("The literal reading has the noise-only controls of R2: without gradients they are the same runs.")
    return [*parts, _RANDOM_SEARCH, _search_table(material.search), _SCORES, _score_table(material)]


def _gain(real: Trials, control: Trials) -> list[str]:
    """Return what a cell has, what its control has, and the difference of the areas."""
    found = [_share(float(mean(cell.succeeded))) for cell in (real, control)]
    found += [_share(float(mean(cell.area))) for cell in (real, control)]
    difference, lower, upper, _ = compared(real.area, control.area, mean, TRIALS)
    return [*found, _interval(Estimate(difference, lower, upper), 3)]


def _search_table(search: Search) -> str:
    lines = []
    for name, found in (("greedy", search.greedy), ("with the agents' exploration", search.exploring)):
        ratio = share(_finite(found))
        lines.append([name, str(len(found)), _interval(estimate(found, median), 1), _interval(ratio, 2)])
    return table(["search", "runs", "median first success [95 %]", "success [95 %]"], lines, _NAMES)


def _score_table(material: Material) -> str:
    lines = []
    for key, cell in material.trials.items():
        if key.reports != NOISE:
            numbers = [_interval(estimate(values, mean), 4) for values in (cell.mean_score, cell.final_score)]
            name = [key.reading, MECHANISMS[key.mechanism], _epsilon(key.epsilon), str(key.buffer_size)]
            lines.append([*name, *numbers])
    order = [reading.name for reading in READINGS]
    lines.sort(key=lambda line: order.index(line[0]))
    return table(["reading", "mechanism", "\u03b5", "buffer", "all [95 %]", "last 5,000 [95 %]"], lines, _NAMES)


def _privacy(material: Material) -> list[str]:
    """Return what the noise that ran proves; cells that prove the same are one row."""
    found: dict[tuple[str, ...], int] = {}
    for key, cell in material.trials.items():
        stands = standing(cell.certificate)
        row = (MECHANISMS[key.mechanism], _epsilon(key.epsilon), _epsilon(stands.proved), stands.verdict)
        found[row] = found.get(row, 0) + 1
    left_open = dict.fromkeys(
        name
        for key, cell in material.trials.items()
        if math.isfinite(key.epsilon)
        for name in cell.certificate["excluded_channels"]
    )
    worlds = dict.fromkeys(
        f"{noise['arithmetic']}, {noise['entropy']}"
        for cell in material.trials.values()
        for noise in cell.certificate["noise"]
        if noise.get("mechanism") != "raw"
    )
    lines = [[*row, str(count)] for row, count in found.items()]
    headers = ["mechanism", "claimed \u03b5", "proved pure \u03b5", "verdict", "cells"]
    return [
        "## Privacy",
        "Of every submission, against the aggregator and everybody who sees the message; every agent submits once.",
        table(headers, lines, _NAMES),
        f"Noise as drawn here: {'; '.join(worlds) or 'none'}. Not covered: {'; '.join(left_open) or 'nothing known'}.",
    ]


def _best(material: Material) -> list[str]:
    if not material.best:
        return []
    lines, seen = [], set()
    for cell in material.best:
        found = _interval(estimate(cell.trials.first_success, median), 1)
        first = cell.epsilon not in seen
        seen.add(cell.epsilon)
        lines.append(
            [
                _epsilon(cell.epsilon),
                cell.proved,
                cell.mechanism,
                cell.settings,
                f"**{found}**" if first else found,
                _interval(share(cell.trials.succeeded), 2),
                _interval(estimate(cell.trials.area, mean), 3),
                _interval(estimate(cell.trials.mean_score, mean), 4),
                str(cell.trials.count),
            ]
        )
    headers = ["\u03b5", "proved", "mechanism", "settings", "median first success [95 %]"]
    headers += ["success [95 %]", "area [95 %]", "mean score [95 %]", "trials"]
    return ["## Best mechanism per \u03b5 at the same guarantee, ours", _BEST, table(headers, lines, _NAMES)]


def _row_name(key: Key) -> str:
    """Return the mechanism of a row of a table; rows without privacy name their buffer and, as such, their clip."""
    return MECHANISMS[key.mechanism] + (f", buffer {key.buffer_size}" if key.mechanism == ELEMENTWISE else "")


def _interval(found: Estimate, number: int) -> str:
    """Return a number with its interval, as the table of that number shows it: 1 submissions, 4 scores, else shares."""
    text = {1: _submissions, 4: _score}.get(number, _share)
    if math.isnan(found.lower):
        return text(found.value)
    return f"{text(found.value)} [{text(found.lower)}, {text(found.upper)}]"


def _submissions(value: float) -> str:
    return _special(value) or f"{value:.0f}"


def _share(value: float) -> str:
    return _special(value) or f"{value:.3f}"


def _score(value: float) -> str:
    return _special(value) or f"{value:.1f}"


def _epsilon(value: float) -> str:
    return INFINITE if math.isinf(value) else f"{value:g}"


def _special(value: float) -> str:
    """Return the text of what is no finite number, '' for one that is."""
    if math.isnan(value):
        return "\u2014"
    return "" if math.isfinite(value) else INFINITE if value > 0 else f"-{INFINITE}"


def _finite(values: Float64Array) -> Float64Array:
    return (values < math.inf).astype(float)
