"""A forked process cannot draw the noise of its parent for other data, in any message; seeded noise may be forked.

All entries of the registries are tested: new trust models, counters and mechanisms, too.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from dprl.privacy import (
    PRIVACY_SETTINGS,
    CountPrivacy,
    GradientPrivacy,
    LedgerError,
    NoiseConfig,
    StatisticsLayout,
    StatisticsPrivacy,
    Streams,
)
from dprl.privacy.counters import COUNTERS
from dprl.privacy.queries import counts
from dprl.privacy.queries.gradients import GradientLayout, receive, submit
from dprl.privacy.queries.linear_statistics import add_statistics, send_statistics
from tests.privacy.conftest import local_laws
from tests.privacy.sending import part_of

N_USERS, DIMENSION = 15, 6
OS, SEEDED = NoiseConfig(entropy="os"), NoiseConfig()
EXACT_OS = NoiseConfig(arithmetic="exact", entropy="os")
LAYOUT = StatisticsLayout(horizon=3, dimension=2, n_messages=2, n_agents=2, reward_dimension=2)
REFUSED = b"noise from the operating system is drawn in one process only"
Release = Callable[[int, int], bytes]


class Case(NamedTuple):
    """A privatizer of N_USERS users, and a function that releases something of `user` with numbered data."""

    privatizer: Any
    release: Release


def of_counts(settings: Any, noise: NoiseConfig, families: Any, contribution: Any) -> Case:
    privatizer = settings.build(families(3), N_USERS, Streams(0, "forks", noise))

    def release(user: int, data: int) -> bytes:
        given = contribution(privatizer.query.families, np.random.default_rng(data))
        counts.send_and_aggregate(privatizer.channel, given.index, given.value, user)
        counts.release(privatizer.channel)
        return bytes(privatizer.channel.needed.tobytes())

    return Case(privatizer, release)


def of_gradients(settings: Any, noise: NoiseConfig, *_: object) -> Case:
    privatizer = settings.build(GradientLayout(DIMENSION), N_USERS, Streams(0, "forks", noise))
    out = np.zeros(DIMENSION)

    def release(user: int, data: int) -> bytes:
        submit(privatizer.channel, np.random.default_rng(data).normal(size=DIMENSION), user)
        receive(privatizer.channel, out)
        return bytes(out.tobytes())

    return Case(privatizer, release)


def of_senders(settings: Any, noise: NoiseConfig, *_: object) -> Case:
    privatizer = settings.build(GradientLayout(DIMENSION), N_USERS, Streams(0, "forks", noise))
    sender, lease = privatizer.new_client(), privatizer.lease(N_USERS)

    def release(user: int, data: int) -> bytes:
        given = np.random.default_rng(data).normal(size=(1, DIMENSION))
        return bytes(sender.send(part_of(lease, user - 1, user), given).values.tobytes())

    return Case(privatizer, release)


def of_statistics(settings: Any, noise: NoiseConfig, *_: object) -> Case:
    privatizer = settings.build(LAYOUT, N_USERS, Streams(0, "forks", noise))

    def release(user: int, data: int) -> bytes:
        rng = np.random.default_rng(data)
        sums = np.zeros((2, 3, 2, 2)), np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
        send_statistics(privatizer.channel, rng.random((2, 3, 2)), rng.random((2, 3)), rng.random((2, 3, 2)), user)
        add_statistics(privatizer.channel, *sums)
        return b"".join(array.tobytes() for array in sums)

    return Case(privatizer, release)


def laws() -> dict[str, tuple[Callable[..., Case], Any, NoiseConfig]]:
    """Every kind of operating-system noise, by a descriptive name."""
    shuffled = CountPrivacy("shuffle", 1.0, 1e-6, mechanism="discrete_laplace", smallest_block=1)
    found: dict[str, tuple[Callable[..., Case], Any, NoiseConfig]] = {
        "counts jdp exact": (of_counts, CountPrivacy("jdp", 1.0), EXACT_OS),
        "counts ldp exact": (of_counts, CountPrivacy("ldp", 1.0), EXACT_OS),
        "counts shuffle": (of_counts, shuffled, OS),
        "gradients jdp": (of_gradients, GradientPrivacy("jdp", 1.0), OS),
        "gradients jdp exact": (of_gradients, GradientPrivacy("jdp", 1.0), EXACT_OS),
    }
    for name in COUNTERS:
        sums = StatisticsPrivacy("jdp", 1.0, 1e-6, "gram_gaussian", counter=name)
        found[f"statistics jdp {name}"] = (of_statistics, sums, OS)
        found[f"counts jdp {name}"] = (of_counts, CountPrivacy("jdp", 1.0, 1e-6, counter=name), OS)
    makers: dict[str, Any] = {"counts": of_counts, "gradients": of_gradients, "statistics": of_statistics}
    for query, name, settings in local_laws(2.0, 1):
        noise = EXACT_OS if name.startswith("discrete") else OS
        found[f"{query} ldp {name}"] = (makers[query], settings, noise)
        if query == "gradients":
            found[f"senders {name}"] = (of_senders, settings, noise)
    return found


LAWS = laws()
NOISELESS: dict[str, tuple[Callable[..., Case], Any]] = {
    "counts": (of_counts, CountPrivacy("none")),
    "gradients": (of_gradients, GradientPrivacy("none")),
    "statistics": (of_statistics, StatisticsPrivacy("none")),
}


def said_in_a_fork(attempts: dict[str, Callable[[], bytes]]) -> dict[str, bytes]:
    """The result of each attempt in one forked process, or the message of its LedgerError."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with os.fdopen(writing, "wb") as stream:
                pickle.dump({name: released_or_refused(attempt) for name, attempt in attempts.items()}, stream)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    assert os.waitpid(child, 0)[1] == 0
    found: dict[str, bytes] = pickle.loads(said)
    return found


def released_or_refused(attempt: Callable[[], bytes]) -> bytes:
    try:
        return b"released " + attempt()
    except LedgerError as error:
        return str(error).encode()


@pytest.fixture
def make(tabular_families: Any, random_contribution: Any) -> Callable[..., Case]:
    def made(build: Callable[..., Case], settings: Any, noise: NoiseConfig) -> Case:
        return build(settings, noise, tabular_families, random_contribution)

    return made


def charge_all(case: Case) -> None:
    """Charge everybody before the fork, so that the noise itself must refuse, not the ledger."""
    if case.privatizer.ledger.users_charged == 0:
        case.privatizer.charge(1, N_USERS)


def test_every_trust_model_of_every_query_is_here() -> None:
    used = [settings for _, settings, _ in LAWS.values()] + [settings for _, settings in NOISELESS.values()]
    here = {(settings.data, settings.model) for settings in used}
    assert here == {(name, model) for name, settings in PRIVACY_SETTINGS.items() for model in settings.KEYS}


@pytest.fixture
def cases(make: Callable[..., Case]) -> dict[str, Case]:
    """Return a case of every law; a fork takes a tenth of a second, so one serves all of them."""
    return {law: make(*LAWS[law]) for law in LAWS}


def test_a_forked_process_draws_nothing_for_other_data(cases: dict[str, Case]) -> None:
    for case in cases.values():
        charge_all(case)
    # Before every user: some counters have drawn the noise of later prefixes by then.
    for user in range(1, N_USERS + 1):
        said = said_in_a_fork({law: partial(case.release, user, 1) for law, case in cases.items()})
        for law, case in cases.items():
            assert said[law].startswith(REFUSED), (law, said[law][:80])
            assert case.release(user, 2)


def test_a_forked_process_charges_nobody(cases: dict[str, Case]) -> None:
    """Otherwise parent and child would release the same users' messages with different noise and charge once."""
    charged = {law: case for law, case in cases.items() if not law.startswith("senders")}
    said = said_in_a_fork({law: partial(charge_one, case) for law, case in charged.items()})
    for law, case in charged.items():
        assert said[law].startswith(REFUSED), (law, said[law][:80])
        charge_all(case)
        assert case.release(1, 1)


def charge_one(case: Case) -> bytes:
    case.privatizer.charge(1, 1)
    return b"charged"


def test_a_forked_process_leases_nothing_and_has_no_key(make: Callable[..., Case]) -> None:
    settings = GradientPrivacy("ldp", 2.0)
    privatizer, key = make(of_gradients, settings, OS).privatizer, Streams(0, "forks", OS).key("user_noise")
    said = said_in_a_fork({"lease": lambda: bytes(len(privatizer.lease(1))), "key": key[1:].tobytes})
    assert said["lease"].startswith(REFUSED), said["lease"][:80]
    assert len(privatizer.lease(1)) == 1
    assert said["key"] == b"released " + bytes(4 * key.itemsize)
    assert key[1:].all()


def test_the_parent_and_a_new_privatizer_in_the_child_go_on(cases: dict[str, Case], make: Callable[..., Case]) -> None:
    for case in cases.values():
        charge_all(case)

    def anew(law: str) -> bytes:
        fresh = make(*LAWS[law])
        charge_all(fresh)
        fresh.release(1, 1)
        return b"again"

    said = said_in_a_fork({law: partial(anew, law) for law in cases})
    for law, case in cases.items():
        assert said[law] == b"released again", law
        case.release(1, 1)
        if not law.startswith("senders"):
            case.privatizer.certificate("x")


def test_seeded_noise_is_the_same_in_a_forked_process(make: Callable[..., Case]) -> None:
    seeded = {law: make(build, settings, SEEDED) for law, (build, settings, noise) in LAWS.items() if noise == OS}
    for case in seeded.values():
        charge_all(case)
    said = said_in_a_fork({law: partial(case.release, 1, 1) for law, case in seeded.items()})
    for law, case in seeded.items():
        assert said[law] == b"released " + case.release(1, 1), law


def test_what_has_no_noise_may_be_forked(make: Callable[..., Case]) -> None:
    noiseless = {query: make(*NOISELESS[query], OS) for query in NOISELESS}
    for case in noiseless.values():
        charge_all(case)
    said = said_in_a_fork({query: partial(case.release, 1, 1) for query, case in noiseless.items()})
    for query in noiseless:
        assert said[query].startswith(b"released "), query


@pytest.mark.parametrize("law", LAWS)
def test_nothing_that_holds_a_key_can_be_copied(law: str, make: Callable[..., Case]) -> None:
    case = make(*LAWS[law])
    for held in (case.privatizer, *([case.privatizer.new_client()] if law.startswith("gradients") else [])):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(LedgerError, match="cannot be copied or pickled"):
                copied(held)
    for copied in (copy.deepcopy, pickle.dumps):  # a shallow copy of a channel shares the counts of who has sent
        with pytest.raises(TypeError, match="noise cannot be copied or pickled"):
            copied(case.privatizer.channel)
    assert "array" not in repr(case.privatizer.channel)
