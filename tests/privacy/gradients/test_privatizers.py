"""Gradients of agents: estimates in one process and from clients, messages, refusals, and certificates."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import (
    Client,
    GradientPrivacy,
    GradientPrivatizer,
    LedgerError,
    NoiseConfig,
    PrivateMessages,
    Streams,
    SubmissionRange,
)
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.queries.gradients import GradientLayout, receive, submit
from dprl.privacy.threat_models import GRADIENT_ADJACENCY
from tests.channels import Message, differing_channels
from tests.privacy.clipped_vectors import clipped
from tests.privacy.sending import part_of, randomized

# Gradients of agents: estimates in one process and from clients, refusals, and certificates.

D, N = 12, 30
FAST, EXACT = NoiseConfig(), NoiseConfig(arithmetic="exact")
OS = NoiseConfig(entropy="os")
CONFIGS: dict[str, GradientPrivacy] = {
    "none": GradientPrivacy("none"),
    "clipped_laplace": GradientPrivacy("ldp", 1.0, submissions=3),
    "projected_random_sign": GradientPrivacy("ldp", 6.0, mechanism="projected_random_sign", submissions=2),
    "privunit": GradientPrivacy("ldp", 2.0, mechanism="privunit"),
}
RNG = np.random.default_rng(0)
GRADIENTS = RNG.normal(size=(N, D)) * np.logspace(-6, 6, N)[:, None]


def built(name: str, noise: NoiseConfig = FAST, seed: int = 0, **settings: Any) -> GradientPrivatizer:
    return CONFIGS[name].build(GradientLayout(D), N, Streams(seed, "gradients", noise), **settings)


def sent_in_loop(privatizer: GradientPrivatizer, first: int = 1, last: int = N) -> np.ndarray:
    out = np.empty((last - first + 1, D))
    for i, n in enumerate(range(first, last + 1)):
        submit(privatizer.channel, GRADIENTS[n - 1], n)
        receive(privatizer.channel, out[i])
    return out


def sent_by(sender: Client, lease: SubmissionRange) -> PrivateMessages:
    numbers = lease.submissions - 1
    return sender.send(lease, GRADIENTS[numbers])


@pytest.fixture(params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("name", "noise"),
    [*((name, FAST) for name in CONFIGS), ("clipped_laplace", EXACT), ("projected_random_sign", EXACT)],
)
def test_the_loop_and_senders_in_any_order_make_the_same_of_a_seed(name: str, noise: NoiseConfig) -> None:
    loop, remote = built(name, noise), built(name, noise)
    loop.charge(1, 7)
    loop.charge(8, N)
    expected = sent_in_loop(loop)
    lease = pickle.loads(pickle.dumps(remote.lease(N)))
    new_client = pickle.loads(pickle.dumps(remote.new_client))
    senders = [new_client() for _ in range(3)]
    parts = [(senders[i % 3], part_of(lease, 5 * i, 5 * i + 5)) for i in range(6)]
    estimates = np.empty((N, D))
    for sender, part in reversed(parts):
        messages = pickle.loads(pickle.dumps(sent_by(sender, part)))
        estimates[messages.submissions - 1] = remote.accept(messages)
    assert np.array_equal(estimates, expected)
    assert loop.certificate("x").to_dict() == remote.certificate("x").to_dict()


def test_a_message_is_the_mechanism_s_own(name: str) -> None:
    privatizer = built(name)
    messages = sent_by(privatizer.new_client(), privatizer.lease(N))
    mechanism = privatizer.query.law
    key = privatizer.channel.noise.noise.key
    for n in range(1, N + 1):
        alone = randomized(mechanism, GRADIENTS[n - 1], key, n)
        assert np.array_equal(messages.values[n - 1, : mechanism.message_length], alone)


def test_keys_from_the_operating_system_are_each_sender_s_own(name: str) -> None:
    if name == "none":
        pytest.skip("there is no noise")
    privatizer = built(name, OS)
    new_client, lease = privatizer.new_client, privatizer.lease(N)
    assert len(pickle.dumps(new_client)) == len(pickle.dumps(privatizer.new_client))
    drawn = {sent_by(new_client(), lease).values.tobytes() for _ in range(4)}
    assert len(drawn) == 4
    assert privatizer.certificate("x").verdict == "holds"
    assert not any("random seed" in channel for channel in privatizer.certificate("x").to_dict()["excluded_channels"])
    with pytest.raises(LedgerError, match="its noise must stay secret"):
        privatizer.state_dict()


def test_there_are_no_more_submissions_than_agents_may_send(name: str) -> None:
    privatizer = built(name)
    assert privatizer.capacity >= N > privatizer.capacity - privatizer.n_users
    privatizer.lease(privatizer.capacity - 1)
    with pytest.raises(LedgerError, match="build for more submissions"):
        privatizer.lease(2)
    lease = privatizer.lease(1)
    assert lease.agents.tolist() == [privatizer.n_users]
    assert (privatizer.charged, privatizer.ledger.users_charged) == (privatizer.capacity, privatizer.n_users)


def test_agents_take_turns() -> None:
    privatizer = CONFIGS["clipped_laplace"].build(GradientLayout(D), 12, Streams(0, "turns"))
    assert (privatizer.n_users, privatizer.submissions) == (4, 3)
    assert privatizer.lease(10).agents.tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert (privatizer.charged, privatizer.ledger.users_charged) == (10, 4)


def test_what_senders_and_servers_refuse() -> None:
    privatizer, other = built("clipped_laplace"), built("clipped_laplace")
    sender, lease = privatizer.new_client(), privatizer.lease(5)
    with pytest.raises(ValueError, match=r"a gradient must have shape \(12,\), got \(13,\)"):
        sender.send(lease, np.zeros((5, D + 1)))
    with pytest.raises(ValueError, match="records must be 5, one for each submission, got 4"):
        sender.send(lease, np.zeros((4, D)))
    messages = sent_by(sender, lease)
    for part in (lease, part_of(lease, 4, 5)):
        with pytest.raises(LedgerError, match="was sent already"):
            sent_by(sender, part)
    with pytest.raises(LedgerError, match="sent by clients of the privatizer that charged it"):
        sent_by(other.new_client(), lease)
    with pytest.raises(LedgerError, match="accepted by the privatizer that leased them"):
        other.accept(messages)
    privatizer.accept(messages)
    with pytest.raises(LedgerError, match="submission 1 was received already"):
        privatizer.accept(messages)
    with pytest.raises(LedgerError, match="submission 5 was received already"):
        privatizer.accept(sent_by(privatizer.new_client(), part_of(lease, 4, 5)))
    with pytest.raises(LedgerError, match="from the compiled loop or from clients"):
        privatizer.charge(6, 7)
    other.charge(1, 2)
    with pytest.raises(LedgerError, match="from the compiled loop or from clients"):
        other.lease(1)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        privatizer.lease(0)


def test_what_is_issued_cannot_be_made_or_changed() -> None:
    privatizer = built("clipped_laplace")
    lease = privatizer.lease(3)
    messages = sent_by(privatizer.new_client(), lease)
    for made in (messages, pickle.loads(pickle.dumps(messages)), copy.deepcopy(messages)):
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            made.values.flags.writeable = True
        assert repr(made) == "PrivateMessages(3 messages of 12 numbers)"


def test_a_run_of_senders_continues_and_passes_over_what_was_lost() -> None:
    first, second = built("privunit"), built("privunit")
    lease = first.lease(10)
    first.accept(sent_by(first.new_client(), part_of(lease, 2, 7)))
    second.load_state_dict(first.state_dict())
    late = sent_by(first.new_client(), part_of(lease, 0, 2))
    with pytest.raises(LedgerError, match="accepted by the privatizer that leased them"):
        second.accept(late)
    assert second.lease(2).first == 11
    assert second.certificate("x").users == 12


def test_a_batch_is_refused_wherever_it_overlaps_one_that_was_accepted() -> None:
    privatizer = built("privunit")
    lease = privatizer.lease(6)
    batches = [(2, 4), (0, 3), (3, 6), (0, 6), (1, 3)]
    sent = [sent_by(privatizer.new_client(), part_of(lease, *batch)) for batch in batches]
    privatizer.accept(sent[0])
    for again, messages in zip((3, 4, 3, 3), sent[1:], strict=True):
        with pytest.raises(LedgerError, match=f"submission {again} was received already"):
            privatizer.accept(messages)


def test_a_journal_outlives_a_run_and_its_numbers_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "charges.journal"
    first = built("clipped_laplace", journal=(journal := ChargeJournal(path)))
    first.charge(1, 13)
    sent_in_loop(first, 1, 4)
    with pytest.raises(LedgerError, match="a run with a journal has no state"):
        first.state_dict()
    journal.close()
    second = built("clipped_laplace", journal=ChargeJournal(path))
    assert second.charged == 13
    for submission in (1, 5, 13):
        with pytest.raises(LedgerError, match="after the ledger has charged them"):
            submit(second.channel, GRADIENTS[0], submission)
    second.charge(14, 20)
    sent_in_loop(second, 14, 20)
    certificate = second.certificate("x")
    assert (second.charged, certificate.users, certificate.verdict, certificate.attempts) == (20, 10, "holds", 1)


def test_messages_of_an_earlier_process_are_not_accepted(tmp_path: Path) -> None:
    path = tmp_path / "charges.journal"
    first = built("clipped_laplace", journal=(journal := ChargeJournal(path)))
    first.lease(13)
    journal.close()
    second = built("clipped_laplace", journal=ChargeJournal(path))
    sent = sent_by(second.new_client(), second.lease(2))
    for number in (1, 12, 13):
        with pytest.raises(LedgerError, match="a message is of a submission that is leased"):
            second.accept(PrivateMessages(number, sent.values[:1], sent.issuer))
    second.accept(sent)


def test_a_journal_is_named_before_the_first_charge(tmp_path: Path) -> None:
    privatizer = built("clipped_laplace")
    privatizer.charge(1, 1)
    with pytest.raises(LedgerError, match="name the journal before that"):
        privatizer.persist(ChargeJournal(tmp_path / "charges.journal"))


def test_somebody_else_s_charges_are_seen_before_the_first_one(tmp_path: Path) -> None:
    path = tmp_path / "charges.journal"
    journal = ChargeJournal(path)
    late = built("clipped_laplace", journal=ChargeJournal(path))
    built("clipped_laplace", journal=journal).lease(6)
    with pytest.raises(LedgerError, match="in use by another run"):
        late.lease(1)
    journal.close()
    assert late.charged == 0
    assert late.lease(2).submissions.tolist() == [7, 8]
    assert late.certificate("x").users == 8


def test_the_certificate_tells_whom_and_what() -> None:
    settings = GradientPrivacy("ldp", 1.0, submissions=4, release_scores="none")
    layout = GradientLayout(D, 1, ("order of arrival: messages come when episodes end",))
    privatizer = settings.build(layout, N, Streams(0, "x"))
    privatizer.charge(1, 10)
    written = privatizer.certificate("pgc_a3c").to_dict()
    assert written["unit"] == "one agent, who sends at most 4 messages"
    assert written["adjacency"] == GRADIENT_ADJACENCY == privatizer.design.requested.adjacency  # type: ignore[union-attr]
    assert (written["users"], written["submissions"]) == (8, 4)
    assert (written["proved"]["pure_epsilon"], written["proved"]["tightness"]) == (1.0, "exact")
    assert [noise["release"] for noise in written["noise"]] == ["gradient"]
    assert "order of arrival: messages come when episodes end" in written["excluded_channels"]
    assert not any("raw scores" in channel for channel in written["excluded_channels"])
    assert [noise["arithmetic"] for noise in written["noise"]] == ["float64-idealised"]
    assert any("floating-point noise" in channel for channel in written["excluded_channels"])
    read = built("clipped_laplace").planned_certificate("x").to_dict()
    assert read["excluded_channels"][0].startswith("raw scores")
    assert "epsilon is infinite for whoever sees them" in read["excluded_channels"][0]
    for written_down in (written, read):
        for channel in (
            "messages of the same agent in another run or trial",
            "what others see of the agent's own actions",
        ):
            assert channel in written_down["excluded_channels"]
    nothing = built("none").planned_certificate("x")
    assert (nothing.verdict, nothing.proved_epsilon, nothing.design.claimed) == ("unbounded", math.inf, None)


def test_nothing_is_certified_that_was_accepted_without_a_charge() -> None:
    privatizer = built("privunit")
    privatizer.lease(2)
    privatizer._received.add(1, 5)
    with pytest.raises(LedgerError, match="more was sent than was charged"):
        privatizer.certificate("x")


# Agents' messages: noise of the right scale, bits with the right probability, and nothing else about the agents.


@pytest.mark.parametrize("noise", [FAST, EXACT])
def test_noise_of_the_whole_has_the_scale_of_its_epsilon_and_no_other(noise: NoiseConfig) -> None:
    # Kolmogorov-Smirnov on 48 000 numbers at a fixed seed; false-alarm rate of the acceptance 1e-3.
    n = 4000
    privatizer = GradientPrivacy("ldp", 2.0, clip=0.5, submissions=5).build(
        GradientLayout(D), n, Streams(0, "scale", noise)
    )
    gradient = np.linspace(-1.0, 2.0, D)
    messages = privatizer.new_client().send(privatizer.lease(n), np.tile(gradient, (n, 1)))
    x = (privatizer.accept(messages) - clipped(gradient, 0.25, False)).ravel()
    scale = 0.5 * 5 / 2.0
    assert stats.kstest(x, stats.laplace(scale=scale).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(x, stats.laplace(scale=scale * factor).cdf).pvalue < 1e-50


@pytest.mark.parametrize(
    ("mechanism", "noise"),
    [
        ("clipped_laplace", FAST),
        ("clipped_laplace", EXACT),
        ("projected_random_sign", FAST),
        ("projected_random_sign", EXACT),
        ("privunit", FAST),
    ],
)
def test_all_that_leaves_an_agent_but_for_registered_noise_is_the_same(mechanism: str, noise: NoiseConfig) -> None:
    worlds = (np.full((30, D), 1e-3), np.repeat([[math.nan] * D, [math.inf] * D, [1e300] * D], 10, axis=0))

    def record(world: int) -> Sequence[Message]:
        settings = GradientPrivacy("ldp", 2.0, mechanism=mechanism)
        privatizer = settings.build(GradientLayout(D), 30, Streams(3, "channels", noise))
        messages = privatizer.new_client().send(privatizer.lease(30), worlds[world])
        estimates = privatizer.accept(messages)
        shown = f"{messages!r} {privatizer.channel!r} {privatizer.certificate('x').to_dict()}"
        return [
            Message.of("message", messages.values),
            Message.of("submissions", messages.submissions),
            Message.of("estimate", estimates),
            Message("texts", shown.encode()),
            Message("finite", str(np.isfinite(estimates).all()).encode()),
        ]

    assert differing_channels(record, {"message", "estimate"}) == ()
    # The two messages do differ where they may.
    assert "message" in differing_channels(record)


@pytest.mark.parametrize("noise", [FAST, NoiseConfig(arithmetic="exact", entropy="os")])
def test_bits_and_what_is_sent_in_clear_are_of_different_keys(noise: NoiseConfig) -> None:
    settings = GradientPrivacy("ldp", 2.0, mechanism="projected_random_sign")
    channel = settings.build(GradientLayout(D), 9, Streams(3, "keys", noise)).channel
    keys = channel.noise.noise.key, channel.noise.open_key
    assert len({int(word) for key in keys for word in key[1:]}) == 8
