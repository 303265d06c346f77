"""The aggregator: eq. (22), the schedule of parameters, the order of messages, and scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dprl.algorithms.pgc import Aggregator
from dprl.algorithms.pgc.aggregator import AggregatorState, CollectionRules, aggregate, last_startable, version_of
from dprl.algorithms.pgc.collector import call_plan
from dprl.algorithms.pgc.scores import FINAL, METRICS, WINDOW, ScoreTracker, record
from dprl.privacy import Client, GradientPrivacy, GradientPrivatizer, PrivateMessages, Streams
from dprl.privacy.queries.gradients import GradientLayout

# The aggregator: eq. (22), the order of messages, and refusal of all but private messages.

DIMENSION, FIRST = 5, np.linspace(-1.0, 1.0, 5)


def privatizer(n: int) -> GradientPrivatizer:
    return GradientPrivacy("ldp", 8.0, clip=2.0).build(GradientLayout(DIMENSION), n, Streams(3, "aggregator"))


def sent(agents: GradientPrivatizer, k: int, sender: Client) -> PrivateMessages:
    gradients = np.random.default_rng(agents.charged).normal(size=(k, DIMENSION))
    return sender.send(agents.lease(k), gradients)


def parameters_by_hand(estimates: np.ndarray, rule: CollectionRules) -> np.ndarray:
    """Eq. (22) in plain NumPy, with the step of the rule."""
    theta = FIRST.copy()
    for n in range(1, len(estimates) + 1):
        if n % rule.buffer_size:
            continue
        step = rule.learning_rate / (1.0 + n / rule.halving if rule.halving else 1.0)
        theta = theta - step * estimates[n - rule.buffer_size : n].mean(axis=0)
    return theta


HALVING = {"printed": 0.0, "halving": 7.0}


@pytest.mark.parametrize("halving", HALVING.values(), ids=HALVING)
@pytest.mark.parametrize("buffer_size", [1, 4])
@pytest.mark.parametrize("order", ["in order", "shuffled"])
def test_updates_are_equation_22_whatever_the_order_of_arrival(halving: float, buffer_size: int, order: str) -> None:
    rule = CollectionRules(50, buffer_size, 0.5, halving)
    agents = privatizer(40)
    sender = agents.new_client()
    batches = [(np.arange(first, first + 5), sent(agents, 5, sender)) for first in range(1, 41, 5)]
    aggregator = Aggregator(rule, FIRST, agents.accept)
    arriving = batches if order == "in order" else [batches[i] for i in np.random.default_rng(0).permutation(8)]
    for slots, messages in arriving:
        aggregator.receive(slots, (messages, None))
    assert (aggregator.applied, aggregator.updates) == (40, 40 // buffer_size)
    estimates = np.concatenate([messages.values for _, messages in batches])
    np.testing.assert_allclose(aggregator.parameters, parameters_by_hand(estimates, rule), rtol=1e-12)


def test_a_message_waits_for_its_turn() -> None:
    agents = privatizer(4)
    sender = agents.new_client()
    first, second = sent(agents, 1, sender), sent(agents, 1, sender)
    aggregator = Aggregator(CollectionRules(8, 1, 0.5), FIRST, agents.accept)
    aggregator.receive(np.array([2]), (second, None))
    assert aggregator.applied == 0
    assert aggregator.parameters.tolist() == FIRST.tolist()
    aggregator.receive(np.array([1]), (first, None))
    assert aggregator.applied == 2


def test_agents_get_the_version_that_the_schedule_says() -> None:
    agents = privatizer(20)
    sender = agents.new_client()
    aggregator = Aggregator(CollectionRules(3, 2, 0.5), FIRST, agents.accept)
    versions = [FIRST]
    for slot in range(1, 13):
        assert last_startable(aggregator.rules, aggregator.applied) >= slot
        lease = agents.lease(1)
        batch = aggregator.batch(lease, np.array([slot]))
        expected = versions[max(0, slot - 1 - 3) // 2]
        assert batch.parameters[batch.version[0]].tolist() == expected.tolist()
        aggregator.receive(np.array([slot]), (sender.send(lease, np.ones((1, DIMENSION))), None))
        if aggregator.updates == len(versions):
            versions.append(aggregator.parameters)
    assert last_startable(aggregator.rules, aggregator.applied) == 3 + (12 // 2 + 1) * 2


def test_only_sealed_messages_get_in() -> None:
    agents = privatizer(4)
    aggregator = Aggregator(CollectionRules(0, 1, 0.5), FIRST, agents.accept)
    with pytest.raises(TypeError, match="messages must be PrivateMessages, got ndarray"):
        aggregator.receive(np.array([1]), (np.zeros((1, DIMENSION)), None))  # type: ignore[arg-type]


def test_a_slot_is_filled_once() -> None:
    agents = privatizer(4)
    sender = agents.new_client()
    aggregator = Aggregator(CollectionRules(8, 1, 0.5), FIRST, agents.accept)
    aggregator.receive(np.array([1]), (sent(agents, 1, sender), None))
    again = sent(agents, 1, sender)
    with pytest.raises(ValueError, match="slots must be filled once"):
        aggregator.receive(np.array([1]), (again, None))
    aggregator.receive(np.array([2]), (again, None))
    assert aggregator.applied == 2


def test_a_state_continues() -> None:
    agents, others = privatizer(12), privatizer(12)
    whole = Aggregator(CollectionRules(4, 3, 0.5), FIRST, agents.accept)
    half = Aggregator(CollectionRules(4, 3, 0.5), FIRST, others.accept)
    one, other = agents.new_client(), others.new_client()
    for slot in range(1, 8):
        whole.receive(np.array([slot]), (sent(agents, 1, one), None))
        half.receive(np.array([slot]), (sent(others, 1, other), None))
    resumed = Aggregator(CollectionRules(4, 3, 0.5), np.zeros(DIMENSION), others.accept)
    resumed.load_state_dict(half.state_dict())
    for slot in range(8, 13):
        whole.receive(np.array([slot]), (sent(agents, 1, one), None))
        resumed.receive(np.array([slot]), (sent(others, 1, other), None))
    assert resumed.parameters.tobytes() == whole.parameters.tobytes()
    with pytest.raises(ValueError, match="'versions' is missing or of another shape"):
        Aggregator(CollectionRules(0, 3, 0.5), FIRST, agents.accept).load_state_dict(half.state_dict())


@given(st.lists(st.integers(1, 4), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_scores_come_out_in_order_as_soon_as_they_can(lengths: list[int], order: object) -> None:
    agents, out = privatizer(sum(lengths)), list[float]()
    sender = agents.new_client()
    rules = CollectionRules(50, 1, 0.5)
    aggregator = Aggregator(rules, FIRST, agents.accept, lambda scores: out.extend(scores.tolist()))
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    arriving = [np.arange(end - length + 1, end + 1) for end, length in zip(ends, lengths, strict=True)]
    order.shuffle(arriving)  # type: ignore[attr-defined]
    there: set[int] = set()
    for slots in arriving:
        aggregator.receive(slots, (sent(agents, len(slots), sender), slots.astype(np.float64)))
        there |= set(slots.tolist())
        n = next(n for n in range(ends[-1] + 1) if n + 1 not in there)
        assert out == list(range(1, n + 1))
        assert aggregator.applied == n


# The deterministic schedule: the parameters from which an agent starts, and the agents that may start.


@pytest.mark.parametrize("buffer_size", [1, 3, 10, 100])
@pytest.mark.parametrize("staleness", [0, 1, 8, 25])
def test_agents_start_from_what_the_staleness_says_and_as_soon_as_it_is_there(staleness: int, buffer_size: int) -> None:
    """And every version that can still be asked for is kept."""
    schedule = CollectionRules(staleness, buffer_size, 0.5)
    versions = {slot: version_of(schedule, slot) for slot in range(1, 900)}
    assert all(version == max(0, slot - 1 - staleness) // buffer_size for slot, version in versions.items())
    kept = len(AggregatorState.first(schedule, np.zeros(1)).versions)
    for applied in range(300):
        updates, last = applied // buffer_size, last_startable(schedule, applied)
        assert last == max(slot for slot, version in versions.items() if version <= updates)
        assert updates - min(versions[slot] for slot in range(applied + 1, last + 1)) < kept
        assert last - applied <= staleness + buffer_size


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (CollectionRules(-1, 1, 0.5), "staleness must be a whole number from 0 to 10000, got -1"),
        (CollectionRules(0, 0, 0.5), "buffer_size must be a whole number from 1 to 100000, got 0"),
        (CollectionRules(0, True, 0.5), "buffer_size must be a whole number"),
        (CollectionRules(0, 1, -1.0), "learning_rate must be a finite number, at least 0"),
        (CollectionRules(0, 1, 0.5, halving=float("nan")), "halving must be a finite number"),
    ],
)
def test_bad_numbers_are_refused(schedule: CollectionRules, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule.checked()


@pytest.mark.parametrize("staleness", [-1, 10_001])
def test_a_staleness_out_of_range_has_no_plan_of_calls(staleness: int) -> None:
    with pytest.raises(ValueError, match=f"staleness must be a whole number from 0 to 10000, got {staleness}"):
        call_plan(2, 2, 1, None, staleness)


# Average scores and the first success, against their definitions.


def kept(scores: np.ndarray, target: float = 195.0) -> ScoreTracker:
    tracker = ScoreTracker.empty(target)
    for score in scores:
        record(tracker, float(score))
    return tracker


def first_success(scores: np.ndarray, target: float) -> float:
    """Eqs. (25) and (26), word by word: mu_n is the mean of scores n .. n+9."""
    for n in range(1, len(scores) - WINDOW + 2):
        if scores[n - 1 : n - 1 + WINDOW].mean() >= target:
            return float(n)
    return math.inf


@pytest.mark.parametrize("seed", range(20))
def test_metrics_are_their_definitions(seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.integers(1, 201, size=generator.integers(1, 3 * FINAL)).astype(float)
    target = float(generator.choice([120.0, 130.0, 199.0]))
    found = kept(scores, target).metrics(len(scores))
    first = first_success(scores, target)
    assert found["score_last10"] == pytest.approx(scores[-WINDOW:].mean())
    assert found["final_score"] == pytest.approx(scores[-FINAL:].mean())
    assert found["first_success"] == first
    assert found["success"] == (first < math.inf)
    ratio = np.arange(1, len(scores) + 1) >= first
    assert found["area"] == pytest.approx(ratio.mean())


def test_the_first_success_is_never_moved() -> None:
    scores = np.concatenate([np.full(5, 10.0), np.full(10, 200.0), np.zeros(50), np.full(20, 200.0)])
    assert kept(scores).metrics(len(scores))["first_success"] == 6.0


def test_before_the_first_submission_nothing_is_known() -> None:
    found = ScoreTracker.empty(195.0).metrics(10)
    assert math.isnan(found["final_score"])
    assert found["first_success"] == math.inf


def test_every_metric_but_the_blocks_mean_is_reported() -> None:
    assert {metric.name for metric in METRICS} == {"score", *ScoreTracker.empty(195.0).metrics(1)}


# Optimizers of noisy means, against torch's.


@pytest.mark.parametrize("name", ["adam", "momentum", "sgd"])
def test_optimizers_are_those_of_torch(name: str) -> None:
    memory: dict[str, tuple[float, float]] = {"adam": (0.9, 0.999), "momentum": (0.9, 0.0), "sgd": (0.0, 0.0)}
    gradients, first = np.random.default_rng(0).standard_normal((12, 3)), np.ones(3)
    state = AggregatorState.first(CollectionRules(0, 2, 0.1, 0.0, False, *memory[name]), first)
    theirs = torch.nn.Parameter(torch.tensor(first))
    made: torch.optim.Optimizer = torch.optim.Adam([theirs], lr=0.1)
    if name != "adam":
        made = torch.optim.SGD([theirs], lr=0.1, momentum=memory[name][0], dampening=memory[name][0])
    for i, gradient in enumerate(gradients):
        aggregate(state, gradient)
        if i % 2:
            theirs.grad = torch.tensor(gradients[i - 1 : i + 1].mean(axis=0))
            if i == 1 and name == "momentum":  # torch takes the whole first gradient
                theirs.grad *= 0.1
            made.step()
    assert state.parameters == pytest.approx(theirs.detach().numpy(), rel=1e-9)
