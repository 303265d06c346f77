"""The figures of a cell: its headline over episodes, other metrics of its policies, and an episode."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dprl.algorithms import Metric
from dprl.algorithms.base import REGRET, headline
from dprl.envs import CartPole, CartPoleGravityEnv
from dprl.envs.cartpole_dynamics import ANGLE_LIMIT, POSITION_LIMIT
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import counted
from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.reports.figures.building import ValueScale, cuts_intervals
from dprl.platform.reports.figures.charts import Axis, Chart, Line, LineName, Panel
from dprl.platform.reports.figures.colours import BLUE, GREEN, ORANGE, PINK, VERMILION, Look, Shades, colours_of
from dprl.platform.reports.figures.marks import draw_panel
from dprl.platform.reports.figures.styles import drawing, render, style_of
from dprl.platform.reports.inference.intervals import CONFIDENCE, FEWEST_SEEDS
from dprl.platform.reports.records import SATURATION_NOTE, curve, full_label, is_result, learned_nothing
from dprl.platform.reports.verdicts import privacy_text
from dprl.platform.results.summary import per_episode

_WIDTH, _HEIGHT, _LEGEND_LINE = 5.0, 3.9, 0.22
"""Size of a panel with its axis titles, and height of a line of its legend, in inches."""
_LEFT, _RIGHT, _ABOVE, _BELOW = 1.05, 0.26, 0.6, 0.6
"""Margins around the axes of a panel, in inches; half of the widest tick text, such as 12.5M, fits at the right."""
_EPISODE_SIZE = 6.6, 5.2
"""Size of the figure of an episode, in inches."""
_LIMIT = {"color": VERMILION.line, "ls": (0, (5, 2)), "lw": 1.0}
_MARGIN = 1.15
"""Ratio of the axes' ends to the limits of a lost episode."""
_LETTERS_PER_INCH = 10.5
"""Letters of a title that fit in an inch."""
_LOOKS: tuple[tuple[Shades, Look], ...] = (
    (BLUE, Look("-", "", 1.2)),
    (VERMILION, Look((0, (5, 2)), "", 0.8)),
    (PINK, Look((0, (8, 2, 2, 2)), "", 0.8)),
    (GREEN, Look((0, (1, 1)), "", 0.8)),
    (ORANGE, Look((0, (1, 3)), "", 0.8)),
)
"""Colours and dashes of the metrics of a panel; dashes distinguish them in black and white."""


def cell_figures(
    records: pd.DataFrame, experiment: Experiment, certificate: Mapping[str, Any], policies: Mapping[str, np.ndarray]
) -> dict[str, bytes]:
    """Return the figures of a finished cell as PNGs, keyed by file name; that of the headline has the cell's name.

    policies: arrays of each seed's policy, by name; the first seed's is played if an episode can be drawn.
    """
    main = headline(experiment.metrics)
    name = main.name if main is not None else "metrics"
    found = {f"{name}.png": cell_figure(records, experiment, certificate)} if experiment.metrics else {}
    first = policies["policy"][0]
    # Parameters that have diverged define no policy that could be shown.
    if experiment.env.builds is CartPole and np.isfinite(first).all():
        found["episode.png"] = episode_figure(first, experiment)
    return found


def cell_figure(records: pd.DataFrame, experiment: Experiment, certificate: Mapping[str, Any]) -> bytes:
    """Draw a cell's regret per episode (log x), cumulative regret and bounds (log x), with bands over seeds.

    Each is drawn only if the algorithm reports it. An algorithm with another headline has that and its results drawn,
    one with neither has its metrics drawn. Returns a PNG.
    """
    panels = _charts(records, experiment)
    style = replace(style_of("page"), width=_WIDTH * len(panels), text=11.0, ticks=10.0, small=10.0)
    seeds = records["seed"].nunique()
    band = f", {CONFIDENCE:.0%} t band over seeds" if seeds >= FEWEST_SEEDS else ", no band"
    legends = [[_wrapped(line.name.algorithm, _WIDTH - 0.6) for line in chart.lines] for chart in panels]
    below = _BELOW + _LEGEND_LINE * max(1 + "\n".join(names).count("\n") + 1 for names in legends)
    with drawing():
        figure = Figure(figsize=(style.width, _ABOVE + _HEIGHT + below), dpi=style.dpi)
        width, height = figure.get_size_inches()
        for i, (chart, names) in enumerate(zip(panels, legends, strict=True)):
            across = (i * _WIDTH + _LEFT) / width, (_WIDTH - _LEFT - _RIGHT) / width
            axes = figure.add_axes((across[0], below / height, across[1], _HEIGHT / height))
            draw_panel(axes, chart, chart.panels[0], style)
            axes.set_xlabel(chart.x.title, fontsize=style.text, color=style.frame("ink"))
            axes.set_ylabel(_wrapped(chart.y.title, _HEIGHT), fontsize=style.text, color=style.frame("ink"))
            look: dict[str, Any] = {"frameon": False, "fontsize": style.small, "title_fontsize": style.small}
            look |= {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "handlelength": 3.0}
            cut = ", cut off at the end of the axis" if cuts_intervals(chart.grid, chart.y) else ""
            axes.legend(axes.get_lines(), names, title=f"{counted(seeds, 'seed')}{band}{cut}", **look)
        if REGRET in experiment.metrics and learned_nothing(records):
            axes = figure.axes[1]
            axes.text(0.03, 0.95, SATURATION_NOTE, transform=axes.transAxes, va="top", color=VERMILION.text)
        about = (_setting(experiment), privacy_text(certificate))
        figure.suptitle("\n".join(_wrapped(line, width) for line in about), fontsize=style.text, y=1.0 - 0.08 / height)
    return render(figure, "png")


def _charts(records: pd.DataFrame, experiment: Experiment) -> list[Chart]:
    """Return one-panel charts of regret per episode, cumulative regret, and each group of other metrics."""
    metrics, unit, found = experiment.metrics, experiment.algorithm.unit, list[Chart]()
    if REGRET in metrics:
        name = experiment.algorithm.name
        look = ((colours_of([name])[name], Look("-", "", 1.0)),)
        rate = {"mean over seeds": curve(records, per_episode(REGRET))}
        total = {"mean over seeds": curve(records)}
        titles = "regret per episode, mean over the block (reward)", "cumulative regret (reward)"
        linear = ValueScale("linear", -math.inf, False)
        found = [
            _chart(_lines(rate, look, REGRET.range()), titles[0], linear, (unit, True), REGRET.range()),
            _chart(_lines(total, look, REGRET.range()), titles[1], linear, (unit, False), REGRET.range()),
        ]
    # A metric that is 0 throughout, such as the reward error with public rewards, would be an empty panel.
    groups = _groups([metric for metric in metrics if metric.headline or records[metric.name].any()])
    for group in groups or ([] if found else [list(metrics)]):
        # Regret falls early, so its panels have a logarithmic x axis, and the panels beside them too.
        found.append(_values(records, group, (unit, REGRET in metrics)))
    return found


def _groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """Return groups of metrics with a panel beside regret: headlines that are means, and last values, by unit."""
    main = headline(metrics)
    means = [metric for metric in metrics if metric is main and metric.over == "mean"]
    values = [metric for metric in metrics if metric.over == "last" and metric.across == "mean"]
    groups: dict[str, list[Metric]] = {}
    for metric in (*means, *(value for value in values if value.unit == "reward" or is_result(value))):
        groups.setdefault(metric.unit, []).append(metric)
    return list(groups.values())


def _values(records: pd.DataFrame, metrics: Sequence[Metric], x: tuple[str, bool]) -> Chart:
    """Return the chart of metrics with one unit."""
    units, main = {metric.unit for metric in metrics}, headline(metrics)
    unit = units.pop() if len(units) == 1 else ""
    points = {_legend_text(metric): curve(records, metric.name) for metric in metrics}
    means = [each["mean"].to_numpy() for each in points.values()]
    scale = ValueScale.of(metrics[0], means) if unit else ValueScale("linear", -math.inf, False)
    title = ""
    if unit:
        labels = [metric.label for metric in metrics]
        what = main.label if main is not None else " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))
        title = f"{what} after the {x[0]} ({unit}{', log' if scale.scale == 'log' else ''})"
    elif all(metric.most == 1.0 for metric in metrics):
        title = "share"
    ranges = [metric.range() for metric in metrics]
    range_ = max(scale.floor, min(low for low, _ in ranges)), max(high for _, high in ranges)
    lines = _lines({label: each.clip(lower=scale.floor) for label, each in points.items()}, _LOOKS, range_)
    return _chart(lines, title, scale, x, range_)


def _lines(
    points: Mapping[str, pd.DataFrame], looks: Sequence[tuple[Shades, Look]], bounds: tuple[float, float]
) -> list[Line]:
    found = []
    for i, (label, each) in enumerate(points.items()):
        shades, look = looks[i % len(looks)]
        x, mean, lower, upper = (each[name].to_numpy() for name in ("episode", "mean", "lower", "upper"))
        ends = np.minimum(lower.clip(*bounds), mean), np.maximum(upper.clip(*bounds), mean)
        found.append(Line(LineName(label, "", (), free=False, given=True), shades, look, x, mean, *ends))
    return found


def _chart(
    lines: Sequence[Line], title: str, scale: ValueScale, x: tuple[str, bool], range_: tuple[float, float]
) -> Chart:
    """Return a chart of one panel. x: title of its axis, and whether it is logarithmic."""
    first, last = (float(lines[0].x[i]) for i in (0, -1))
    across = Axis(x[0], x[0], x[1], (first if x[1] else 0.0, last), counts=True)
    grid = ((Panel("", tuple(lines)),),)
    return Chart("", "", "", "curves", grid, across, scale.axis(title, grid, range_))


def _setting(experiment: Experiment) -> str:
    flat = experiment.parameters().items()
    settings = [
        f"{key[4:]}={f'{value:.4g}' if isinstance(value, float) else value}"
        for key, value in flat
        if key.startswith("env.")
    ]
    return f"{_name(experiment)} on {experiment.env.name} ({', '.join(settings[1:])})"


def _name(experiment: Experiment) -> str:
    """Return the algorithm of a cell by its label, after that of the cell."""
    algorithm = experiment.algorithm_label or experiment.algorithm.name
    return f"{experiment.label}: {algorithm}" if experiment.label else algorithm


def _legend_text(metric: Metric) -> str:
    """Return the label of a line, with the definition of a metric of the run that is no headline."""
    if metric.headline:
        return f"{metric.label}, mean over the block"
    if metric.of == "run" and metric.definition:
        return f"{metric.label}: {metric.definition}"
    return full_label(metric)


def _wrapped(text: str, inches: float) -> str:
    return textwrap.fill(text, int(_LETTERS_PER_INCH * inches), break_on_hyphens=False)


class _Episode(NamedTuple):
    """An episode of a cart and its pole.

    gravity: in m/s^2. states: float64 [T + 1, 4], position (m), velocity, angle (rad) and angular velocity. actions:
    int64 [T]. fallen: whether it ended early.
    """

    gravity: float
    states: np.ndarray
    actions: np.ndarray
    fallen: bool


def play(policy: ActorCriticPolicy, seed: int) -> _Episode:
    """Return the episode whose start and gravity are drawn from `seed`."""
    env = CartPoleGravityEnv(**policy.env_settings)
    state, _ = env.reset(seed=seed)
    states, actions, terminated, ended = [state], [], False, False
    while not ended:
        action = int(policy(state))
        state, _, terminated, truncated, _ = env.step(action)
        states.append(state)
        actions.append(action)
        ended = terminated or truncated
    return _Episode(env.gravity, np.array(states, dtype=np.float64), np.array(actions), terminated)


def episode_figure(parameters: np.ndarray, experiment: Experiment) -> bytes:
    """Draw position, angle and actions over the steps of an episode of the policy of the first seed; return a PNG.

    parameters: of the policy, see ActorCriticPolicy; it takes the most likely action, without exploration.
    """
    policy = ActorCriticPolicy(parameters, experiment.env)  # type: ignore[arg-type]  # checked by callers
    episode = play(policy, experiment.seed)
    figure = Figure(figsize=_EPISODE_SIZE, layout="constrained")
    position, angle, action = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1))
    _draw_state(position, episode.states[:, 0], POSITION_LIMIT, "cart (m)")
    _draw_state(angle, np.degrees(episode.states[:, 2]), math.degrees(ANGLE_LIMIT), "pole (degrees)")
    action.step(np.arange(len(episode.actions)), episode.actions, where="post", color=BLUE.line, lw=0.8)
    action.set_yticks([0, 1], ["left", "right"])
    action.set_ylim(-0.3, 1.3)
    action.set_ylabel("push")
    action.set_xlabel("step")
    steps = counted(len(episode.actions), "step")
    ended = f"lost after {steps}" if episode.fallen else f"still up after {steps}"
    about = f"An episode of the policy of seed {experiment.seed}, gravity {episode.gravity:.4g} m/s\u00b2: {ended}"
    setting = f"{_name(experiment)} on {experiment.env.name}, without exploration"
    figure.suptitle(f"{about}\n{setting}", fontsize=10)
    return render(figure, "png")


def _draw_state(axes: Axes, values: np.ndarray, limit: float, label: str) -> None:
    """Draw a number over the steps, between the limits of a lost episode."""
    axes.plot(values, color=BLUE.line)
    for end in (-limit, limit):
        axes.axhline(end, **_LIMIT)  # type: ignore[arg-type]  # a dash pattern is a tuple
    reach = max(limit * _MARGIN, float(np.abs(values).max()) * _MARGIN)
    axes.set_ylim(-reach, reach)
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
