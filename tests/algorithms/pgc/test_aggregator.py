"""The aggregator: eq. (22), the order of messages, and refusal of all but private messages."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.pgc import Aggregator, Schedule, StepRule
from dprl.algorithms.pgc.aggregator import AggregatorConfig
from dprl.privacy import GradientClient, GradientPrivatizer, LocalGradientPrivacy, PrivateMessages, Streams
from dprl.privacy.queries.gradient_calibration import GradientLayout

DIMENSION, FIRST = 5, np.linspace(-1.0, 1.0, 5)


def privatizer(n: int) -> GradientPrivatizer:
    return LocalGradientPrivacy(8.0, clip=2.0).build(GradientLayout(DIMENSION), n, Streams(3, "aggregator"))


def sent(agents: GradientPrivatizer, k: int, sender: GradientClient) -> PrivateMessages:
    gradients = np.random.default_rng(agents.charged).normal(size=(k, DIMENSION))
    return sender.send(agents.lease(k), gradients)


def parameters_by_hand(estimates: np.ndarray, schedule: Schedule, rule: StepRule) -> np.ndarray:
    """Eq. (22) in plain NumPy, with the step of the rule."""
    theta = FIRST.copy()
    for n in range(1, len(estimates) + 1):
        if n % schedule.buffer_size:
            continue
        step = rule.learning_rate / (1.0 + n / rule.halving if rule.halving else 1.0)
        theta = theta - step * estimates[n - schedule.buffer_size : n].mean(axis=0)
    return theta


RULES = {"printed": StepRule(0.5), "halving": StepRule(0.5, halving=7.0)}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("buffer_size", [1, 4])
@pytest.mark.parametrize("order", ["in order", "shuffled"])
def test_updates_are_equation_22_whatever_the_order_of_arrival(rule: StepRule, buffer_size: int, order: str) -> None:
    schedule = Schedule(50, buffer_size)
    agents = privatizer(40)
    sender = GradientClient(agents.client_spec)
    batches = [(np.arange(first, first + 5), sent(agents, 5, sender)) for first in range(1, 41, 5)]
    aggregator = Aggregator(AggregatorConfig(schedule, rule), FIRST, agents.accept)
    arriving = batches if order == "in order" else [batches[i] for i in np.random.default_rng(0).permutation(8)]
    for slots, messages in arriving:
        aggregator.receive(slots, messages)
    assert (aggregator.applied, aggregator.updates) == (40, 40 // buffer_size)
    estimates = np.concatenate([messages.values for _, messages in batches])
    np.testing.assert_allclose(aggregator.parameters, parameters_by_hand(estimates, schedule, rule), rtol=1e-12)


def test_a_message_waits_for_its_turn() -> None:
    agents = privatizer(4)
    sender = GradientClient(agents.client_spec)
    first, second = sent(agents, 1, sender), sent(agents, 1, sender)
    aggregator = Aggregator(AggregatorConfig(Schedule(8, 1), StepRule(0.5)), FIRST, agents.accept)
    aggregator.receive(np.array([2]), second)
    assert aggregator.applied == 0
    assert aggregator.parameters.tolist() == FIRST.tolist()
    aggregator.receive(np.array([1]), first)
    assert aggregator.applied == 2


def test_agents_get_the_version_that_the_schedule_says() -> None:
    schedule, agents = Schedule(3, 2), privatizer(20)
    sender = GradientClient(agents.client_spec)
    aggregator = Aggregator(AggregatorConfig(schedule, StepRule(0.5)), FIRST, agents.accept)
    versions = [FIRST]
    for slot in range(1, 13):
        assert aggregator.startable(slot - 1) >= 1
        lease = agents.lease(1)
        batch = aggregator.batch(lease, np.array([slot]))
        expected = versions[max(0, slot - 1 - 3) // 2]
        assert batch.parameters[batch.version[0]].tolist() == expected.tolist()
        aggregator.receive(np.array([slot]), sender.send(lease, np.ones((1, DIMENSION))))
        if aggregator.updates == len(versions):
            versions.append(aggregator.parameters)
    assert aggregator.startable(20) == 3 + (12 // 2 + 1) * 2 - 20


def test_only_sealed_messages_get_in() -> None:
    agents = privatizer(4)
    aggregator = Aggregator(AggregatorConfig(Schedule(0, 1), StepRule(0.5)), FIRST, agents.accept)
    with pytest.raises(TypeError, match="messages must be PrivateMessages, got ndarray"):
        aggregator.receive(np.array([1]), np.zeros((1, DIMENSION)))  # type: ignore[arg-type]


def test_a_slot_is_filled_once() -> None:
    agents = privatizer(4)
    sender = GradientClient(agents.client_spec)
    aggregator = Aggregator(AggregatorConfig(Schedule(8, 1), StepRule(0.5)), FIRST, agents.accept)
    aggregator.receive(np.array([1]), sent(agents, 1, sender))
    again = sent(agents, 1, sender)
    with pytest.raises(ValueError, match="slots must be filled once"):
        aggregator.receive(np.array([1]), again)
    aggregator.receive(np.array([2]), again)
    assert aggregator.applied == 2


def test_a_state_continues() -> None:
    agents, others = privatizer(12), privatizer(12)
    whole = Aggregator(AggregatorConfig(Schedule(4, 3), StepRule(0.5)), FIRST, agents.accept)
    half = Aggregator(AggregatorConfig(Schedule(4, 3), StepRule(0.5)), FIRST, others.accept)
    one, other = GradientClient(agents.client_spec), GradientClient(others.client_spec)
    for slot in range(1, 8):
        whole.receive(np.array([slot]), sent(agents, 1, one))
        half.receive(np.array([slot]), sent(others, 1, other))
    resumed = Aggregator(AggregatorConfig(Schedule(4, 3), StepRule(0.5)), np.zeros(DIMENSION), others.accept)
    resumed.load_state_dict(half.state_dict())
    for slot in range(8, 13):
        whole.receive(np.array([slot]), sent(agents, 1, one))
        resumed.receive(np.array([slot]), sent(others, 1, other))
    assert resumed.parameters.tobytes() == whole.parameters.tobytes()
    with pytest.raises(ValueError, match="'versions' is missing or of another shape"):
        Aggregator(AggregatorConfig(Schedule(0, 3), StepRule(0.5)), FIRST, agents.accept).load_state_dict(
            half.state_dict()
        )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (StepRule(-1.0), "learning_rate must be a finite number, at least 0"),
        (StepRule(0.5, halving=float("nan")), "halving must be a finite number"),
    ],
)
def test_bad_rules_are_refused(rule: StepRule, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule.checked()
