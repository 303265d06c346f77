"""Every setting of every trust model changes the query: none is accepted and then ignored."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from dprl.privacy import PRIVACY_SETTINGS, CountPrivacy, GradientLayout, NoiseConfig, StatisticsLayout
from tests.privacy.conftest import _families

DATA = {
    "counts": _families(4),
    "gradients": GradientLayout(5, window=4, draws=True),
    "statistics": StatisticsLayout(4, 3, 2, 2, 2),
}
N_USERS, GROWTH = 40, 0.5
Changes = dict[str, tuple[dict[str, Any], Any]]


def changes(base: dict[str, Any], **values: Any) -> Changes:
    """Of each setting, others that fit it and another value."""
    return {name: (base, value) for name, value in values.items()}


PURE, BUDGET = {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}
PRINTED, SHUFFLED = {**PURE, "calibration": "printed"}, {**BUDGET, "smallest_block": 10}
SIGNS = {**PURE, "mechanism": "projected_random_sign"}
GAUSSIAN = {**BUDGET, "mechanism": "clipped_gaussian"}
POISSON = {**GAUSSIAN, "sampling": "poisson", "population": 100}
BOUNDED = {**PRINTED, "delta": 1e-6, "mechanism": "gram_bounded_laplace"}
COUNTS = {"epsilon": 2.0, "delta": 1e-6, "precision": "printed", "families": "separate"}
GRAM = {"epsilon": 2.0, "rewards": "public", "reward_share": 0.3, "reward_clip": 2.0, "stage_scales": False}
VECTOR = {"epsilon": 2.0, "mechanism": "privunit", "clip": 3.0}
CHANGES: dict[tuple[str, str], Changes] = {
    ("counts", "none"): {},
    ("counts", "jdp"): {
        **changes(PURE, **COUNTS, mechanism="discrete_laplace", calibration="printed", releases="every_user"),
        **changes(BUDGET, counter="kary_tree"),
    },
    ("counts", "shuffle"): changes(SHUFFLED, epsilon=2.0, delta=1e-5, mechanism="discrete_laplace", smallest_block=20),
    ("counts", "ldp"): changes(PURE, **COUNTS, mechanism="discrete_laplace", calibration="printed"),
    ("gradients", "none"): changes({}, clip_norm="l2", clip=3.0, release_scores="none"),
    ("gradients", "jdp"): {
        **changes(BUDGET, epsilon=2.0, delta=1e-5, mechanism="clipped_gaussian", clip=3.0, release_scores="none"),
        **changes({**PURE, "clip": 3.0}, submissions=2),
        **changes(GAUSSIAN, counter="binary_tree"),
        **changes(POISSON, population=200),
    },
    ("gradients", "ldp"): {
        **changes(SIGNS, **VECTOR, submissions=2, release_scores="none"),
        **changes({**SIGNS, "delta": 1e-6}, delta=1e-5),
    },
    ("statistics", "none"): changes({}, rewards="public", clipping="device"),
    ("statistics", "jdp"): {
        **changes(BUDGET, **GRAM, delta=1e-5, mechanism="gram_laplace", counter="kary_tree", releases="every_user"),
    },
    ("statistics", "ldp"): {
        **changes(BUDGET, **GRAM, mechanism="gram_laplace", calibration="printed"),
        **changes({**BUDGET, "mechanism": "gram_gaussian"}, delta=1e-5),
        **changes(PRINTED, clipping="device", noise_scale=0.1),
        **changes(BOUNDED, bound_ratio=2.0),
    },
}
NO_CHOICE = {
    ("gradients", "jdp"): {"sampling"},
}
"""Settings that admit one value only, or only one together with another setting."""


def placed(query: str, model: str, settings: dict[str, Any]) -> object:
    """The query, with the noise on either side."""
    return PRIVACY_SETTINGS[query](model, **settings).design(DATA[query], N_USERS, NoiseConfig(), GROWTH).query


def test_every_setting_has_a_case() -> None:
    own = {(query, model): {*kind.keys(model)} for query, kind in PRIVACY_SETTINGS.items() for model in kind.KEYS}
    assert own == {key: set(found) | NO_CHOICE.get(key, set()) for key, found in CHANGES.items()}


@pytest.mark.parametrize(("query", "model", "name"), [(*key, name) for key, found in CHANGES.items() for name in found])
def test_a_changed_setting_changes_the_query(query: str, model: str, name: str) -> None:
    settings, value = CHANGES[query, model][name]
    assert placed(query, model, {**settings, name: value}) != placed(query, model, settings)


@pytest.mark.parametrize(
    ("name", "limit", "beyond", "rule"),
    [
        ("epsilon", 1e-9, 0.9e-9, "lie between 1e-9 and 1e9"),
        ("epsilon", 1e9, 1.1e9, "lie between 1e-9 and 1e9"),
        ("delta", 1e-15, 0.9e-15, r"be 0 .* or lie in \[1e-15, 1\)"),
    ],
)
def test_the_limits_of_a_budget_are_part_of_it(name: str, limit: float, beyond: float, rule: str) -> None:
    settings: Any = partial(CountPrivacy, "jdp")
    assert getattr(settings(**{**PURE, name: limit}).requested, name) == limit
    with pytest.raises(ValueError, match=f"^{name} must {rule}, got "):
        settings(**{**PURE, name: beyond})


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, True])
def test_a_share_is_between_nothing_and_everything(share: float) -> None:
    with pytest.raises(ValueError, match=r"^reward_share must lie in \(0, 1\), got "):
        placed("statistics", "jdp", {**PURE, "reward_share": share})
