"""No noise is reused: in two messages of a run, at any position, or in runs with other names or seeds.

Two messages with the same noise, shifted or not, reveal the difference of two users' data. Continuous noise
is compared number by number at all positions: two equal numbers of 53 bits have probability below 1e-8 here. Noise
on a grid, coins and directions repeat numbers by chance: no window of 64 neighbours may equal, up to scale and sign,
that of another message. For independent windows a correlation of 0.9 has probability below 1e-20.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from dprl.privacy import CountPrivacy, NoiseConfig, StatisticsLayout, StatisticsPrivacy, Streams, UserRecord
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.queries.linear_statistics import add_statistics, send_statistics
from tests.privacy.conftest import EXACT, FAST, SAMPLED, local_laws
from tests.privacy.sending import message_of, sent

N_USERS, HORIZON, DIMENSION, WINDOW = 5, 6, 300, 64
LAYOUT = StatisticsLayout(horizon=4, dimension=8, n_messages=2, n_agents=2, reward_dimension=8)
Messages = list[np.ndarray]


def of_counts(settings: CountPrivacy, streams: Streams, families: Any) -> Messages:
    privatizer = settings.build(families(HORIZON, n_states=5, n_actions=3), N_USERS, streams)
    shape = (HORIZON, len(privatizer.query.families.families))
    nobody = UserRecord(np.zeros(shape, dtype=np.int64), np.zeros(shape))
    return [message_of(privatizer, nobody, user) for user in range(1, N_USERS + 1)]


def of_cells(settings: CountPrivacy, streams: Streams, families: Any) -> Messages:
    """The cells that each of many users names: parts of one row of them."""
    privatizer = settings.build(families(HORIZON, n_states=2, n_actions=1), N_USERS * 400, streams)
    shape, n_cells = (HORIZON, len(privatizer.query.families.families)), privatizer.query.encoding.released.block
    nobody = UserRecord(np.zeros(shape, dtype=np.int64), np.zeros(shape))
    found = []
    for user in range(1, N_USERS * 400 + 1):
        message = message_of(privatizer, nobody, user)
        found.append(message[message.size % n_cells :].reshape(-1, n_cells).argmax(axis=1).astype(np.float64))
    return list(np.concatenate(found).reshape(N_USERS, -1))


def of_coins(settings: CountPrivacy, streams: Streams, families: Any) -> Messages:
    """The coins that turn rewards into bits."""
    privatizer = settings.build(families(HORIZON * 6, n_states=2, n_actions=2), N_USERS, streams)
    shape = (HORIZON * 6, len(privatizer.query.families.families))
    found = []
    for user in range(1, N_USERS + 1):
        message_of(privatizer, UserRecord(np.zeros(shape, dtype=np.int64), np.full(shape, 0.5)), user)
        found.append(privatizer.channel.coins.copy())
    return found


def of_gradients(settings: Any, streams: Streams, _: object) -> Messages:
    privatizer = settings.build(GradientLayout(DIMENSION), 2 * N_USERS, streams)
    lease = privatizer.lease(2 * N_USERS)
    sent = privatizer.new_client().send(lease, np.zeros((len(lease), DIMENSION)))
    return list(privatizer.accept(sent))


def of_statistics(settings: StatisticsPrivacy, streams: Streams, _: object) -> Messages:
    privatizer = settings.build(LAYOUT, N_USERS, streams)
    privatizer.charge(1, N_USERS)
    m, h, d = LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension
    corner = np.triu_indices(d)
    found = []
    for user in range(1, N_USERS + 1):
        matrices, vectors = np.zeros((m, h, d, d)), np.zeros((m, h, d))
        given = np.zeros((m, h, d)), np.zeros((m, h)), np.zeros((LAYOUT.n_agents, h, LAYOUT.reward_dimension))
        send_statistics(privatizer.channel, *given, user)
        add_statistics(privatizer.channel, matrices, vectors, np.zeros_like(given[2]))
        # The last stage has nothing to send.
        found.append(np.concatenate([matrices[:, :-1, *corner].ravel(), vectors[:, :-1].ravel()]))
    return found


def cases() -> dict[str, tuple[Callable[..., Messages], Any, NoiseConfig]]:
    """Every law of the user's side, by a descriptive name."""
    coins = CountPrivacy("ldp", 1.0, mechanism=SAMPLED, families="one_hot")
    found: dict[str, tuple[Callable[..., Messages], Any, NoiseConfig]] = {
        "coins": (of_coins, coins, FAST),
        "coins, exact": (of_coins, coins, EXACT),
        "counts, exact": (of_counts, CountPrivacy("ldp", 1.0), EXACT),
    }
    makers: dict[str, Any] = {"counts": of_counts, "gradients": of_gradients, "statistics": of_statistics}
    for query, name, settings in local_laws(4.0, 2):
        make = of_cells if "direct" in name else makers[query]
        found[f"{query} {name}"] = (make, settings, EXACT if name.startswith("discrete") else FAST)
    return found


CASES = cases()


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def messages(case: str, tabular_families: Any) -> Callable[[int, str], Messages]:
    """Return the messages of users without data, that is pure noise, by seed and name of the run."""
    make, settings, noise = CASES[case]
    return lambda seed, name: make(settings, Streams(seed, name, noise), tabular_families)


def shared(one: np.ndarray, other: np.ndarray, on_grid: bool) -> bool:
    """Whether some noise of two messages is the same."""
    distinct = np.unique(one).size == one.size and np.unique(other).size == other.size
    if distinct and not on_grid and np.intersect1d(np.abs(one), np.abs(other)).size:
        return True
    first, second = (windows(message.astype(np.float64).tobytes()) for message in (one, other))
    if not (first.size and second.size):
        return False
    correlations = first @ second.T
    return bool(max(correlations.max(), -correlations.min()) > 0.9)


@lru_cache(maxsize=32)  # every message is compared with all others
def windows(message: bytes) -> np.ndarray:
    """Return all windows, centred and of norm 1."""
    each = sliding_window_view(np.frombuffer(message), WINDOW)
    found = each - each.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    kept = norms[:, 0] > 0.0
    return np.asarray(found[kept] / norms[kept], dtype=np.float32)


def test_no_two_messages_share_noise_at_any_position(case: str, messages: Callable[[int, str], Messages]) -> None:
    found = messages(7, "one")
    assert all(message.size >= WINDOW for message in found)
    on_grid = CASES[case][2] == EXACT
    assert [(i, j) for j in range(len(found)) for i in range(j) if shared(found[i], found[j], on_grid)] == []


def test_runs_of_another_seed_or_name_share_no_noise(case: str, messages: Callable[[int, str], Messages]) -> None:
    ours, on_grid = messages(7, "one"), CASES[case][2] == EXACT
    for others in (messages(8, "one"), messages(7, "two")):
        assert not any(shared(one, other, on_grid) for one in ours for other in others)


def test_released_noise_differs_between_cells_and_runs(tabular_families: Any) -> None:
    """On the server's side, every number of a first release has its own noise."""
    numbers = []
    for seed, name in ((7, "one"), (8, "one"), (7, "two")):
        privatizer = CountPrivacy("jdp", 1.0).build(tabular_families(HORIZON), 3, Streams(seed, name))
        shape = (HORIZON, len(privatizer.query.families.families))
        nobody = UserRecord(np.zeros(shape, dtype=np.int64), np.zeros(shape))
        numbers.append(sent(privatizer, nobody, 1).values)
    assert np.unique(numbers).size == np.size(numbers)
