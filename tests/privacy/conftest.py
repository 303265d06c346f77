"""Count families, contributions and privatizers of a tabular learner, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dprl.privacy import (
    TRUST_MODELS,
    CentralPrivacy,
    Contribution,
    CountFamilies,
    CountFamily,
    LocalPrivacy,
    NoPrivacy,
    PrivacyConfig,
    Privatizer,
    Streams,
)

CONFIGS: dict[str, PrivacyConfig] = {"none": NoPrivacy(), "jdp": CentralPrivacy(1.0), "ldp": LocalPrivacy(1.0)}
HORIZON, N_USERS = 4, 21


def _families(horizon: int, n_states: int = 3, n_actions: int = 2) -> CountFamilies:
    pairs = n_states * n_actions
    return CountFamilies(
        horizon,
        (
            CountFamily("transitions", pairs * n_states, 2),
            CountFamily("visits", pairs, 0),
            CountFamily("rewards", pairs, 1),
        ),
    )


def _contribution(families: CountFamilies, rng: np.random.Generator) -> Contribution:
    shape = (families.n_steps, len(families.families))
    widths = [family.width for family in families.families]
    return Contribution(rng.integers(0, widths, size=shape), rng.random(shape))


@pytest.fixture
def tabular_families() -> Callable[..., CountFamilies]:
    """Return a maker of the three families of a tabular learner."""
    return _families


@pytest.fixture
def random_contribution() -> Callable[[CountFamilies, np.random.Generator], Contribution]:
    """Return a maker of random users."""
    return _contribution


def _privatizer(model: str) -> Privatizer:
    return CONFIGS[model].build(_families(HORIZON), N_USERS, Streams(0, "contract"))


@pytest.fixture(params=sorted(TRUST_MODELS))
def privatizer(request: pytest.FixtureRequest) -> Privatizer:
    """Return a privatizer of each trust model: 4 steps, 3 families, 21 users."""
    return _privatizer(request.param)


@pytest.fixture
def privatizer_of() -> Callable[[str], Privatizer]:
    """Return a maker of fresh privatizers, with the noise of `privatizer`, by trust model."""
    return _privatizer


@pytest.fixture
def users_of() -> Callable[[Privatizer, int], list[Contribution]]:
    """Return a maker of the contributions of n users, always the same."""

    def users(privatizer: Privatizer, n: int) -> list[Contribution]:
        rng = np.random.default_rng(5)
        return [_contribution(privatizer.families, rng) for _ in range(n)]

    return users
