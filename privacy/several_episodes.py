"""Privacy of people who take part in several episodes of one run, for its certificate."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.accounting.composition import group_epsilon, repeat
from dprl.privacy.base import Guarantee
from dprl.privacy.ledger import ReleaseEvent, curve_of
from dprl.privacy.mechanisms.sampled import SampledGaussian
from dprl.privacy.threat_models import NOISY_SIDES, SHUFFLE
from dprl.privacy.verdicts import APPROXIMATE_DELTA, in_json

EPISODES_PER_USER = (2, 5, 10)
_GROUP, _COMPOSED, _JOINT = "group privacy", "composition", "joint sensitivity"


class _Charged(NamedTuple):
    """Arguments of `several_episodes`."""

    releases: tuple[ReleaseEvent, ...]
    times: int
    groups: tuple[tuple[int, ...], ...]


def several_episodes(
    model: str,
    relation: str,
    claimed: Guarantee | None,
    releases: tuple[ReleaseEvent, ...],
    times: int,
    groups: tuple[tuple[int, ...], ...],
) -> dict[str, Any] | None:
    """Return epsilon for each number of EPISODES_PER_USER, JSON-ready; None without noise.

    Args:
        model: the trust model. relation: of neighbours; a bound for one relation says nothing about another.
        releases: of one submission. times: submissions in all attempts. groups: disjoint ones of releases.
    """
    if not any(NOISY_SIDES[model]) or claimed is None:
        return None
    return _bounds(model, relation, _Charged(releases, times, groups), claimed.delta)


@lru_cache(maxsize=1024)  # most cells of a sweep and all seeds of a cell share them; callers must not change them
def _bounds(model: str, relation: str, charged: _Charged, delta: float) -> dict[str, Any]:
    bounds: list[dict[str, Any]] = []
    one = curve_of(*charged)
    for episodes in EPISODES_PER_USER:
        joint, how = _joint_curve(model, charged, episodes)
        for at in sorted({delta, APPROXIMATE_DELTA}):
            group = group_epsilon(one, episodes, at)
            together = None if joint is None else joint.epsilon(at)
            composed = together is not None and together < group * (1.0 - 1e-9)
            bounds.append(
                {
                    "episodes": episodes,
                    "delta": at,
                    "epsilon": in_json(min(group, group if together is None else together)),
                    "by": how if composed else _GROUP,
                    "group": in_json(group),
                    "joint": None if together is None else in_json(together),
                }
            )
    return {"relation": relation, "bounds": bounds, "joint": how}


def _joint_curve(model: str, charged: _Charged, episodes: int) -> tuple[PrivacyCurve | None, str]:
    """Return the curve of `episodes` episodes of one user by their joint distribution, and its name; None and a reason.

    *Formal guarantee.* Messages with separate noise are adaptive releases about one user, so they compose. Rows of a
    counter share nodes; together they change the noisy numbers by at most the sum of their changes, in every norm.
    """
    if model == SHUFFLE:
        return None, "none: several reports of a user may be in one block"
    client, _ = NOISY_SIDES[model]
    if client:
        return repeat(curve_of(*charged), episodes), _COMPOSED
    if any(isinstance(release.mechanism, SampledGaussian) for release in charged.releases):
        return None, "none: no bound is proved for several places of one user in the population"
    if any(release.sensitivity is None for release in charged.releases):
        return None, "none: several messages of a user may be in one sum"
    grown = tuple(
        replace(release, sensitivity=release.sensitivity.scaled(episodes))
        for release in charged.releases
        if release.sensitivity is not None
    )
    return curve_of(*charged._replace(releases=grown)), _JOINT
