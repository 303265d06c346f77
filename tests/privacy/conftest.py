"""Count families, contributions and privatizers of a tabular learner, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    CountFamilies,
    CountFamily,
    CountPrivacy,
    CountPrivatizer,
    GradientPrivacy,
    NoiseConfig,
    StatisticsPrivacy,
    Streams,
    UserRecord,
)
from dprl.privacy.designs.base import AUTO
from dprl.privacy.designs.counts import report_names
from dprl.privacy.designs.linear_statistics import CERTIFIED

FAST, EXACT = NoiseConfig(), NoiseConfig(arithmetic="exact")
SAMPLED = "sampled_optimized_unary_encoding"
PAPER: dict[str, Any] = {"families": "separate"}
TREE: dict[str, Any] = {**PAPER, "counter": "binary_tree"}
KINDS: dict[str, tuple[CountPrivacy, NoiseConfig]] = {
    "none": (CountPrivacy("none"), FAST),
    "jdp": (CountPrivacy("jdp", 1.0, **TREE), FAST),
    "jdp, k-ary tree, one-hot": (CountPrivacy("jdp", 1.0, counter="kary_tree", families="one_hot"), FAST),
    "jdp, Gaussian tree": (CountPrivacy("jdp", 1.0, delta=1e-6, mechanism="gaussian", **TREE), FAST),
    "jdp, buffered": (CountPrivacy("jdp", 1.0, delta=1e-6, counter="buffered_toeplitz", **PAPER), FAST),
    "jdp, exact": (CountPrivacy("jdp", 1.0, **TREE), EXACT),
    "jdp, exact Gaussian": (CountPrivacy("jdp", 1.0, delta=1e-6, counter="auto", mechanism="gaussian", **PAPER), EXACT),
    "shuffle": (CountPrivacy("shuffle", 1.0, 1e-6, smallest_block=1), FAST),
    "jdp, short": (CountPrivacy("jdp", 1.0, delta=1e-6), FAST),
    "ldp, short": (CountPrivacy("ldp", 1.0), FAST),
    "ldp": (CountPrivacy("ldp", 1.0, **PAPER), FAST),
    "ldp, direct": (CountPrivacy("ldp", 1.0, families="one_hot", mechanism="sampled_direct_encoding"), FAST),
    "ldp, Gaussian, separate": (CountPrivacy("ldp", 1.0, delta=1e-6, mechanism="gaussian", **PAPER), FAST),
    "ldp, exact": (CountPrivacy("ldp", 1.0, **PAPER), EXACT),
    "ldp, sampled": (CountPrivacy("ldp", 1.0, mechanism=SAMPLED, families="one_hot"), EXACT),
}
"""Arguments of privatizers, by a descriptive name."""
HORIZON, N_USERS = 4, 21


def local_laws(epsilon: float, submissions: int) -> Iterator[tuple[str, str, Any]]:
    """Yield the query, name and settings of every law of the user's side; the arguments are those of gradients."""
    for name in sorted(set(report_names()) - {AUTO}):
        delta = 1e-6 if any(word in name for word in ("gaussian", "bounded", "truncated")) else 0.0
        yield "counts", name, CountPrivacy("ldp", 1.0, delta, mechanism=name, families="one_hot")
    for name in sorted(set(GradientPrivacy.names("ldp")["mechanism"]) - {AUTO}):
        yield "gradients", name, GradientPrivacy("ldp", epsilon, mechanism=name, submissions=submissions)
    for name in CERTIFIED:
        yield "statistics", name, StatisticsPrivacy("ldp", 1.0, 0.0 if name == "gram_laplace" else 1e-5, name)
    printed: dict[str, Any] = {"clipping": "device", "rewards": "public", "calibration": "printed"}
    for name in ("gram_uniform", "gram_bounded_laplace"):
        yield "statistics", name, StatisticsPrivacy("ldp", 1.0, 1e-5, name, **printed)


def _families(horizon: int, n_states: int = 3, n_actions: int = 2) -> CountFamilies:
    pairs = n_states * n_actions
    return CountFamilies(
        horizon,
        (
            CountFamily("transitions", pairs * n_states),
            CountFamily("visits", pairs, marginal_of="transitions"),
            CountFamily("rewards", pairs, marginal_of="transitions", indicator=False),
        ),
        paper="[CZ22]",
    )


def _contribution(families: CountFamilies, rng: np.random.Generator) -> UserRecord:
    shape = (families.n_steps, len(families.families))
    widths = np.array([family.width for family in families.families])
    value = np.ones(shape)
    value[:, 2] = rng.random(families.n_steps)
    # The coarser families' cells follow from the finest one's, as in a trajectory.
    return UserRecord(rng.integers(0, widths[0], size=(families.n_steps, 1)) % widths, value)


@pytest.fixture
def tabular_families() -> Callable[..., CountFamilies]:
    """Return a function that makes the three families of a tabular learner."""
    return _families


@pytest.fixture
def random_contribution() -> Callable[[CountFamilies, np.random.Generator], UserRecord]:
    """Return a function that makes random users."""
    return _contribution


def _privatizer(kind: str, seed: int = 0) -> CountPrivatizer:
    settings, noise = KINDS[kind]
    return settings.build(_families(HORIZON), N_USERS, Streams(seed, "contract", noise))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the name of each kind of privatizer."""
    return str(request.param)


@pytest.fixture
def privatizer(kind: str) -> CountPrivatizer:
    """Return a privatizer of each kind: 4 steps, 3 families, 21 users."""
    return _privatizer(kind)


@pytest.fixture
def privatizer_of() -> Callable[..., CountPrivatizer]:
    """Return a function that makes new privatizers by kind and seed, with the same noise each time."""
    return _privatizer


@pytest.fixture
def users_of() -> Callable[[CountPrivatizer, int], list[UserRecord]]:
    """Return a function that makes the contributions of n users, the same each time."""

    def users(privatizer: CountPrivatizer, n: int) -> list[UserRecord]:
        rng = np.random.default_rng(5)
        return [_contribution(privatizer.query.families, rng) for _ in range(n)]

    return users
