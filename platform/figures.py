"""The figures of a cell and of a sweep, in colours that the colour-blind can tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dprl.platform.artifacts import write_atomically
from dprl.platform.experiment import Experiment
from dprl.platform.records import CONFIDENCE, SATURATION_NOTE, always_saturated, curve

# Okabe and Ito's palette, black last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_BAND = f"{CONFIDENCE:.0%} t band over seeds"
_DPI = 130
_PANELS_PER_ROW = 3
_MOST_TICKS = 8


def regret_figure(
    records: pd.DataFrame, experiment: Experiment, certificate: Mapping[str, Any], path: Path
) -> None:
    """Draw regret per episode (log x) and cumulative regret of one cell, with the band over its seeds, into a PNG."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curve(left, curve(records, "regret_per_episode"))
    left.set_xscale("log")
    left.set_ylabel("regret per episode (reward)")
    _draw_curve(right, curve(records))
    right.set_ylabel("cumulative regret (reward)")
    for axes in (left, right):
        axes.set_xlabel("episode")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    seeds = records["seed"].nunique()
    left.legend(title=f"{seeds} seeds" if seeds > 1 else "1 seed, no band", frameon=False, loc="best")
    if always_saturated(records):
        right.text(0.03, 0.95, SATURATION_NOTE, transform=right.transAxes, va="top", color=COLOURS[1])
    figure.suptitle(f"{_setting(experiment)}\n{privacy_text(certificate)}", fontsize=11)
    _save(figure, path)


def privacy_text(certificate: Mapping[str, Any]) -> str:
    """Return the trust model and what is proved for it; a claim that fails is named as such, never as the result."""
    model, proved = certificate["trust_model"], float(certificate["proved"]["pure_epsilon"])
    if certificate["verdict"] == "unbounded":
        return "no privacy (\u03b5 = \u221e)" if model == "none" else f"{model}: a release without noise (\u03b5 = \u221e)"
    delta = certificate["claimed"]["delta"]
    if certificate["verdict"] == "holds" and delta:
        return f"{model}, proved \u03b5 = {certificate['claimed']['epsilon']:g} at \u03b4 = {delta:g}"
    text = f"{model}, proved \u03b5 = {proved:.4g}"
    if certificate["verdict"] == "holds":
        return text
    return f"{text} (the claim of {certificate['claimed']['epsilon']:g} fails)"


def _setting(experiment: Experiment) -> str:
    settings = [f"{key[4:]}={value}" for key, value in experiment.parameters().items() if key.startswith("env.")]
    return f"{experiment.algorithm.name} on {experiment.env.name} ({', '.join(settings[1:])})"


def _draw_curve(axes: Axes, points: pd.DataFrame) -> None:
    axes.plot(points["episode"], points["mean"], color=COLOURS[0], label="mean over seeds")
    if not points["lower"].isna().all():
        axes.fill_between(
            points["episode"], points["lower"], points["upper"], color=COLOURS[0], alpha=0.25, lw=0, label=_BAND
        )


def frontier_figure(summary: pd.DataFrame, path: Path) -> None:
    """Draw utility against proved epsilon of a sweep into a PNG.

    summary: rows of `records.summary_row`. One panel per environment and number of episodes, one line per algorithm
    and trust model (and whatever else varies); cells without privacy are dashed horizontal bands.
    """
    varying = [key for key in _settings(summary) if summary[key].nunique(dropna=True) > 1]
    panel_keys = [key for key in varying if key.startswith("env.") or key == "episodes"]
    line_keys = [key for key in varying if key not in panel_keys and key not in ("privacy.epsilon", "privacy.delta")]
    # A key that only one trust model has adds nothing to its name.
    panels = list(_groups(summary, panel_keys))
    rows = math.ceil(len(panels) / _PANELS_PER_ROW)
    columns = min(len(panels), _PANELS_PER_ROW)
    figure = Figure(figsize=(1.2 + 4.6 * columns, 0.9 + 3.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    styles = {name: i for i, (name, _) in enumerate(_groups(summary, line_keys or ["privacy.model"]))}
    for axes, (title, cells) in zip(grid.flat, panels, strict=False):
        _draw_panel(axes, cells, line_keys or ["privacy.model"], styles)
        axes.set_title(title, fontsize=10)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    labels: dict[str, Any] = {}
    for axes in grid.flat:
        labels |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=min(4, max(1, len(labels))), frameon=False)
    figure.suptitle(f"Utility against proved privacy, {_BAND}", fontsize=11)
    _save(figure, path)


def _settings(summary: pd.DataFrame) -> list[str]:
    return [key for key in summary.columns if "." in key or key == "episodes"]


def _groups(summary: pd.DataFrame, keys: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows that agree on `keys`, each group under a readable name; all rows under their environment for no keys."""
    if not keys:
        names = sorted(set(summary["env.name"]))
        return [(", ".join(names), summary)]
    found = summary.groupby(list(keys), dropna=False, sort=False)
    return [(_group_name(keys, values), rows) for values, rows in found]


def _group_name(keys: Sequence[str], values: tuple[Any, ...]) -> str:
    words = []
    for key, value in zip(keys, values, strict=True):
        if isinstance(value, float) and math.isnan(value):
            continue
        last = key.rpartition(".")[2]
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        words.append(shown if last in ("name", "model") else f"{last}={shown}")
    return " ".join(words)


def _draw_panel(axes: Axes, cells: pd.DataFrame, line_keys: Sequence[str], styles: Mapping[str, int]) -> None:
    finite = cells[np.isfinite(cells["proved_epsilon"])]
    for name, line in _groups(cells, line_keys):
        colour, marker = COLOURS[styles[name] % len(COLOURS)], _MARKERS[styles[name] % len(_MARKERS)]
        bounded = line[np.isfinite(line["proved_epsilon"])].sort_values("proved_epsilon")
        for _, row in line[line["privacy.model"] == "none"].iterrows():
            axes.axhline(row["regret_per_episode"], color=colour, ls="--", label=f"{name} (no privacy)")
            if math.isfinite(row["regret_per_episode_lower"]):
                axes.axhspan(
                    row["regret_per_episode_lower"], row["regret_per_episode_upper"], color=colour, alpha=0.15, lw=0
                )
        if len(bounded):
            mean = bounded["regret_per_episode"]
            spread = np.abs(bounded[["regret_per_episode_lower", "regret_per_episode_upper"]].sub(mean, axis=0).to_numpy().T)
            axes.errorbar(
                bounded["proved_epsilon"], mean, np.nan_to_num(spread), color=colour, marker=marker, capsize=3, label=name
            )
    axes.set_xscale("log")
    _epsilon_ticks(axes, sorted(set(finite["proved_epsilon"])))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("proved \u03b5 (pure; smaller is more private)")
    axes.set_ylabel("regret per episode,\nmean over all episodes (reward)")
    axes.grid(alpha=0.3)


def _epsilon_ticks(axes: Axes, epsilons: Sequence[float]) -> None:
    """Label the epsilons that occur, not the decades between them; a single one still gets an axis around it."""
    if not epsilons:
        axes.set_xticks([])
        return
    axes.set_xlim(epsilons[0] / 1.6, epsilons[-1] * 1.6)
    if len(epsilons) <= _MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(list(epsilons)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def _save(figure: Figure, path: Path) -> None:
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=_DPI))
