"""Robustness of policies: scores in environments that were seen in training and in others, not in [OT20].

One number describes an environment: the gravity of CartPole, or the mass of both links of Acrobot.
Paper: [OT20] sec. 4.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from dprl.algorithms.base import Float64Array
from dprl.envs import CartPole, Control, ControlTask, Env
from dprl.platform.configs.experiment import Experiment, Scalar
from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.policies.control import ControlPolicy
from dprl.platform.policies.loading import load_policy
from dprl.platform.reproductions import claims, tables
from dprl.platform.results.layout import SweepCell
from dprl.privacy import Streams

CONFIG = "pgc_a3c_robustness"
NOISE, UNTRAINED = "noise only", "untrained"
"""Controls: agents that send gradients of zero, and the initial parameters."""
_EPISODES = {"CartPole": 100, "Acrobot": 50}
"""Episodes of each policy in each environment."""
_SEED = 7
"""Seed of the first states, the same for all policies."""
_WORDS = {"holds": "**higher**", "fails": "**lower**", "open": "open"}

Rows = NDArray[np.float32]
_Actor = Callable[[Rows], NDArray[Any]]


class _Family(NamedTuple):
    """Environments with one number, in `unit`. made: returns a number's task and n copies of its environment."""

    unit: str
    values: tuple[float, ...]
    made: Callable[[float, int], tuple[ControlTask, VectorEnv[Any, Any, Any]]]


def _carts(gravity: float, n: int) -> tuple[ControlTask, VectorEnv[Any, Any, Any]]:
    task = Control("CartPole-v1", horizon=200).build()
    vector = task.vector(n)
    vector.gravity = gravity  # type: ignore[attr-defined]
    return task, vector


def _acrobots(mass: float, n: int) -> tuple[ControlTask, VectorEnv[Any, Any, Any]]:
    task = Control("dprl/AcrobotMasses-v0", horizon=500, kwargs=f"masses=(({mass}, {mass}),)").build()
    return task, task.vector(n)


FAMILIES: Mapping[str, _Family] = {
    "CartPole": _Family("gravity, m/s\u00b2", (1.8, 5.0, 9.7, 9.75, 9.8, 9.9, 14.0, 17.8, 25.0), _carts),
    "Acrobot": _Family("mass of both links, kg", (0.35, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0), _acrobots),
}


def _trained(env: Env) -> str:
    """Return the numbers of a training environment as text for pages."""
    if isinstance(env, CartPole):
        return _list(env.gravities)
    return _list(both[0] for both in env.arguments["masses"])  # type: ignore[attr-defined]


def _list(values: Any) -> str:  # noqa: ANN401 - any iterable of numbers
    return ", ".join(f"{value:g}" for value in values)


def scored(cells: Sequence[SweepCell]) -> dict[claims.Key, claims.PaperCell]:
    """Return scores of finished cells' last policies and of controls in all environments of their families.

    Key.control is the list of training environments, or the name of a control.
    """
    found: dict[claims.Key, claims.PaperCell] = {}
    for cell in cells:
        experiment, flat = cell.experiment, cell.experiment.parameters()
        group = "CartPole" if experiment.env.builds is CartPole else "Acrobot"
        control = NOISE if flat.get("algorithm.reports") == "noise" else _trained(experiment.env.build())
        results = cell.folder.results()
        seeds = results.records["seed"].unique().tolist()
        policies = [load_policy(cell.folder.path, seed) for seed in seeds]
        ends = np.array([experiment.episodes])
        scores = partial(_cell, group, ends, results.certificate)
        found[_key(group, flat, control)] = scores([_actor(policy) for policy in policies])
        untrained = claims.Key(group, "none", math.inf, control=UNTRAINED)
        if untrained not in found:
            first = [_first(policy, experiment, seed) for policy, seed in zip(policies, seeds, strict=True)]
            found[untrained] = scores([_actor(policy) for policy in first])
    return found


def _key(group: str, flat: Mapping[str, Scalar], control: str) -> claims.Key:
    if flat["privacy.model"] == "none":
        return claims.Key(group, "none", math.inf, control=control)
    return claims.Key(group, str(flat["privacy.mechanism"]), float(flat["privacy.epsilon"]), control=control)


def _actor(policy: object) -> _Actor:
    """Return the function from many observations to a policy's most probable actions."""
    if isinstance(policy, ControlPolicy):
        return partial(policy.network.act, policy.parameters, rng=None)
    if isinstance(policy, ActorCriticPolicy):
        return policy  # type: ignore[return-value]
    raise TypeError(f"policy must be that of a control task, got {type(policy).__name__}")


def _first(policy: object, experiment: Experiment, seed: int) -> object:
    """Return the policy with initial parameters, drawn like those of a run."""
    if isinstance(policy, ControlPolicy):
        return dataclasses.replace(policy, parameters=policy.network.first(np.random.default_rng(seed)))
    first = experiment.algorithm.initial_parameters(Streams(seed, UNTRAINED))  # type: ignore[attr-defined]
    return dataclasses.replace(policy, parameters=first)  # type: ignore[type-var]


def _cell(
    group: str, ends: NDArray[np.int64], certificate: Mapping[str, Any], actors: Sequence[_Actor]
) -> claims.PaperCell:
    family = FAMILIES[group]
    scores = {f"{value:g}": _scores(family, value, actors, _EPISODES[group]) for value in family.values}
    return claims.PaperCell(scores, ends, np.mean([*scores.values()], axis=0)[:, np.newaxis], certificate)


def _scores(family: _Family, value: float, actors: Sequence[_Actor], episodes: int) -> Float64Array:
    """Return the mean score of each policy in one environment, float64[n]; all policies play at once."""
    task, vector = family.made(value, len(actors) * episodes)

    def act(seen: Rows) -> NDArray[Any]:
        each = seen.reshape(len(actors), episodes, -1)
        return np.concatenate([actor(rows) for actor, rows in zip(actors, each, strict=True)])

    found: Float64Array = task.play(vector, act, _SEED).scores.reshape(len(actors), episodes).mean(axis=1)
    return found


def compared(group: str, cells: claims.Cells) -> Sequence[claims.Outcome]:
    """Return tests that training on several environments beats one, in each environment unseen by both."""
    inequalities = []
    for key in cells:
        several = [float(value) for value in key.control.split(", ")] if "," in key.control else []
        alone = [one for one in cells if one[:3] == key[:3] and one.control.replace(".", "").isdigit()]
        if key.group == group and several:
            (nominal,) = alone
            unseen = [value for value in FAMILIES[group].values if value not in (*several, float(nominal.control))]
            sides = claims.Side(key.control, key), claims.Side(nominal.control, nominal)
            inequalities += [claims.Inequality(_measure(value), *sides) for value in unseen]
    runs = min(cell.count for cell in cells.values())
    return claims.decide(claims.Sentence("", "", tuple(inequalities), "permutations"), group, cells, runs)


def _measure(value: float) -> claims.Measure:
    return claims.Measure(f"{value:g}", f"{value:g}", decimals=1)


def blocks(cells: claims.Cells, made: Sequence[str]) -> dict[str, str]:
    """Return the text of this section's placeholders."""
    runs = f"{tables.run_counts(cells)} runs of {tables.longest(cells):,} users"
    found = {"robustness_made": "  \n".join(made), "robustness_runs": runs}
    for group in FAMILIES:
        outcomes = compared(group, cells)
        verdicts = [one.verdict for one in outcomes]
        found[f"{group}_scores"] = _score_table(group, cells)
        found[f"{group}_comparisons"] = tables.table(_comparison_rows(group, outcomes))
        found[f"{group}_verdict"] = (
            f"In {len(verdicts)} comparisons in unseen environments, training on several scored higher than training "
            f"on one in {verdicts.count('holds')} and lower in {verdicts.count('fails')}; "
            f"{verdicts.count('open')} are open."
        )
    return found


def _score_table(group: str, cells: claims.Cells) -> str:
    values = FAMILIES[group].values
    rows = []
    for key, cell in cells.items():
        if key.group == group:
            row = {"trained on": key.control, "proved \u03b5": _privacy(key, cell)}
            for value in values:
                told = tables.measured(_measure(value), cell)
                row[f"{value:g}"] = f"**{told}**" if f"{value:g}" in key.control.split(", ") else told
            rows.append(row)
    rows.sort(key=lambda row: (row["trained on"] in (NOISE, UNTRAINED), row["proved \u03b5"] == "none"))
    return tables.table(rows)


def _privacy(key: claims.Key, cell: claims.PaperCell) -> str:
    """Return the proved epsilon, and delta if it is positive."""
    if math.isinf(key.epsilon):
        return "no users" if key.control == UNTRAINED else "none"
    return tables.proved_text(cell)


def _comparison_rows(group: str, outcomes: Sequence[claims.Outcome]) -> Iterator[dict[str, str]]:
    for claim, verdict, found, _, _, higher, lower in outcomes:
        yield {
            FAMILIES[group].unit: claim.measure.name,
            "trained on": claim.order,
            "\u03b5": "none" if math.isinf(claim.larger.key.epsilon) else f"{claim.larger.key.epsilon:g}",
            "difference [95 %]": tables.interval(found.estimate, 1),
            "p higher": tables.p_value(higher),
            "p lower": tables.p_value(lower),
            "verdict": _WORDS[verdict],
        }


def data(cells: claims.Cells) -> list[dict[str, Any]]:
    """Return the scores as plain data."""
    return [
        {
            "family": key.group,
            "mechanism": key.mechanism,
            "epsilon": claims.finite_epsilon(key),
            "trained_on": key.control,
            "runs": cell.count,
            "scores": {name: claims.estimate_data(_measure(float(name)).estimate(cell)) for name in cell.values},
        }
        for key, cell in cells.items()
    ]
