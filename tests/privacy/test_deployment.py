"""Client and server as separate objects that exchange only lines of JSON and may be killed at any moment."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    CountFamilies,
    CountPrivacy,
    GradientLayout,
    GradientPrivacy,
    LedgerError,
    NoiseConfig,
    PrivateMessages,
    Privatizer,
    ServerPrivatizer,
    Streams,
    UserClient,
    UserRecord,
)
from tests.privacy.sending import sent

USERS, DIMENSION = 21, 3
OS, SEEDED = NoiseConfig("exact", "os"), NoiseConfig("exact")
Make = Callable[..., Privatizer[Any]]
Records = list[UserRecord]


@pytest.fixture
def planned(tabular_families: Callable[..., CountFamilies]) -> Make:
    def make(settings: Any, noise: NoiseConfig = OS, growth: float = 0.0) -> Privatizer[Any]:
        data = GradientLayout(DIMENSION, 4) if "Gradient" in type(settings).__name__ else tabular_families(4)
        found: Privatizer[Any] = settings.build(data, USERS, Streams(3, "deployed", noise), growth=growth)
        return found

    return make


@pytest.fixture
def records(planned: Make, users_of: Callable[[Any, int], Records]) -> Records:
    return users_of(planned(CountPrivacy("ldp", 1.0)), USERS)


def made(planned: Privatizer[Any], user: int, record: Any, folder: Path, server: str = "") -> PrivateMessages:
    where = folder / str(user)
    where.mkdir(parents=True, exist_ok=True)
    client = UserClient(planned, user, where)
    message = client.submit(record, server)
    client.close()
    return PrivateMessages.from_json(message.to_json())


@contextmanager
def serving(planned: Privatizer[Any], folder: Path, **more: Any) -> Iterator[ServerPrivatizer[Any]]:
    """A server process: at its end everything that is not on disk is lost."""
    server = ServerPrivatizer(planned, folder, **more)
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize(
    "settings", [CountPrivacy("jdp", 1.0), CountPrivacy("ldp", 1.0), CountPrivacy("ldp", 1.0, families="one_hot")]
)
def test_the_halves_release_the_bits_of_one_privatizer(
    settings: Any, planned: Make, records: Records, tmp_path: Path
) -> None:
    whole, two = planned(settings, SEEDED), planned(settings, SEEDED)
    with serving(two, tmp_path) as server:
        for user, record in enumerate(records, start=1):
            # Coins of rewards have other keys where only the server has noise.
            record.value[:, 2] = np.rint(record.value[:, 2])
            assert server.receive_once(made(two, user, record, tmp_path, server.run))
            np.testing.assert_array_equal(server.release().values, sent(whole, record, user).values)
        assert server.certificate("x").to_dict() == whole.certificate("x").to_dict()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_every_user_counts_once_whatever_dies(growth: float, planned: Make, records: Records, tmp_path: Path) -> None:
    """At this epsilon noise is 0, so counts show who was counted. Messages arrive twice and out of order."""
    plan = planned(CountPrivacy("ldp", 3e3, mechanism="discrete_laplace"), growth=growth)
    server_folder = tmp_path / "server"
    server_folder.mkdir()
    order = np.random.default_rng(1).permutation(USERS)
    messages = [made(plan, int(user) + 1, records[user], tmp_path) for user in order]
    for start in range(0, USERS, 5):
        with serving(plan, server_folder) as server:
            assert server.charged == start
            for position in range(max(0, start - 3), min(start + 5, USERS)):
                assert server.receive_once(messages[position]) == (position >= start)
    with serving(plan, server_folder) as server:
        assert server.certificate("x").to_dict()["attempts"] == 1
        assert server.ledger.users_charged == USERS
        visits = server.query.family(server.release(), "visits")
        users = server.release().users
        true = np.zeros(visits.shape)
        for user in order[:users]:
            true[np.arange(4), records[user].index[:, 1]] += 1.0
        np.testing.assert_array_equal(visits, true)
        assert users == (USERS if growth == 0.0 else plan.query.schedule.times[-1] if plan.query.schedule else USERS)


def fails(*_: object, **__: object) -> None:
    raise OSError("killed")


@pytest.mark.parametrize("settings", [CountPrivacy("jdp", 1.0), GradientPrivacy("jdp", 2e3)])
def test_a_server_that_adds_noise_ends_with_its_process(
    settings: Any, planned: Make, records: Records, tmp_path: Path
) -> None:
    plan, folder = planned(settings), tmp_path / "server"
    folder.mkdir()
    record = records[0] if plan.query.name == "counts" else np.zeros(DIMENSION)
    for _ in range(2):  # nobody is charged at the second start
        with serving(plan, folder) as server:
            assert server.charged == 0
    with serving(plan, folder) as server:
        server.receive_once(made(plan, 1, record, tmp_path, server.run))
        assert [file.name for file in folder.iterdir()] == ["charges"]  # no raw record
    with pytest.raises(LedgerError, match=r"got 1: the keys .* begin in another folder with new users"):
        ServerPrivatizer(plan, folder)


@pytest.mark.parametrize("settings", [CountPrivacy("jdp", 1.0), GradientPrivacy("jdp", 2e3)])
def test_a_raw_record_is_counted_by_one_server(settings: Any, planned: Make, records: Records, tmp_path: Path) -> None:
    """A client sends until it has an acknowledgement, also if its server has counted the message and died."""
    plan, folders = planned(settings), [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    record = records[0] if plan.query.name == "counts" else np.zeros(DIMENSION)
    with pytest.raises(LedgerError, match="server must be the name of the server's run"):
        made(plan, 1, record, tmp_path)
    with serving(plan, folders[0]) as server:
        message = made(plan, 1, record, tmp_path, server.run)  # the refusal has charged nothing
        assert server.receive_once(message)
    with serving(plan, folders[1]) as server:
        with pytest.raises(LedgerError, match="whose run has ended stays lost"):
            server.receive_once(message)
        assert server.charged == 0
    client = UserClient(plan, 2, tmp_path)
    assert [client.takes_part_in(name) for name in (message.issuer, client.run, "another.run")] == [True, False, False]


def test_seeded_noise_of_a_counter_is_not_drawn_again(planned: Make, records: Records, tmp_path: Path) -> None:
    plan, folder = planned(CountPrivacy("jdp", 1.0), SEEDED), tmp_path / "server"
    folder.mkdir()
    with serving(plan, folder) as server:
        server.receive_once(made(plan, 1, records[0], tmp_path, server.run))
    with pytest.raises(LedgerError, match="noise of a seed must be drawn once"):
        ServerPrivatizer(plan, folder)


@pytest.mark.parametrize("settings", [GradientPrivacy("jdp", 2e3), GradientPrivacy("ldp", 2e3, submissions=2)])
def test_gradients_reach_the_learner_once(settings: Any, planned: Make, tmp_path: Path) -> None:
    plan, folder, state = planned(settings), tmp_path / "server", {"sum": np.zeros(DIMENSION)}
    folder.mkdir()
    window, clip = plan.query.window or 1, plan.query.law.clip
    gradients = 0.45 * clip * np.eye(DIMENSION)[np.random.default_rng(2).integers(0, DIMENSION, plan.n_users)]
    with serving(plan, folder, arrays=state) as server:
        messages = [made(plan, user, row, tmp_path, server.run) for user, row in enumerate(gradients, start=1)]

    def apply(found: Any) -> None:
        state["sum"] += found[0]

    each = len(messages) if plan.server_noise else 3
    for start in range(0, len(messages), each):
        state["sum"][:] = 0.0  # of another process
        with serving(plan, folder, apply=apply, arrays=state) as server:
            for message in messages[max(0, start - 2) : start + each]:
                server.receive_once(message)
            assert server.certificate("x").to_dict()["attempts"] == 1
    full = len(messages) // window * window
    np.testing.assert_allclose(state["sum"], gradients[:full].sum(axis=0), atol=0.15 * clip)


def test_a_client_charges_first_and_sends_the_same_bytes_again(
    planned: Make, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(CountPrivacy("ldp", 1.0))
    client = UserClient(plan, 2, tmp_path)
    with pytest.raises(ValueError, match="a record has one cell per step"):
        client.submit(replace(records[0], index=records[0].index[:1]))
    assert client.left == 1
    first = client.submit(records[0])
    client.close()
    again = UserClient(plan, 2, tmp_path)
    assert again.left == 0
    assert again.waiting is not None
    assert again.waiting.to_json() == first.to_json()
    with pytest.raises(LedgerError, match="a message waits"):
        again.submit(records[1])
    for other in (1, 3):
        with pytest.raises(LedgerError, match=f"message 2 waits, got an acknowledgement of {other}"):
            again.acknowledge(PrivateMessages(other, first.values, first.issuer))
    again.acknowledge(first)
    with pytest.raises(LedgerError, match="has made all 1 submissions"):
        again.submit(records[1])
    assert [again.ledger.epsilon(0.0), again.ledger.design.capacity] == pytest.approx([1.0, 1])
    with pytest.raises(LedgerError, match="cannot be copied"):
        pickle.dumps(again)
    # Killed between charge and message: the submission stays lost.
    lost = tmp_path / "lost"
    lost.mkdir()
    dying = UserClient(plan, 3, lost)
    with monkeypatch.context() as patch:
        patch.setattr("dprl.privacy.resumable.write_bytes", fails)
        with pytest.raises(OSError, match="killed"):
            dying.submit(records[2])
    dying.close()
    late = UserClient(plan, 3, lost)
    assert (late.left, late.waiting) == (0, None)


def test_what_does_not_fit_is_refused_and_not_counted(planned: Make, records: Records, tmp_path: Path) -> None:
    plan, folder = planned(CountPrivacy("jdp", 1.0)), tmp_path / "server"
    folder.mkdir()
    with serving(plan, folder) as server:
        good = made(plan, 1, records[0], tmp_path, server.run)
        for value in (-1.0, 0.5, 5.0, 2.0**60):
            values = good.values.copy()
            values[0, 0] = value
            with pytest.raises(ValueError, match=r"must be in 0\.\.4"):
                server.receive_once(PrivateMessages(1, values, good.issuer))
        with pytest.raises(ValueError, match="finite numbers"):
            server.receive_once(PrivateMessages(1, good.values[:, :-1], good.issuer))
        with pytest.raises(ValueError, match=r"must lie in 1\.\.21"):
            server.receive_once(PrivateMessages(22, good.values, good.issuer))
        with pytest.raises(LedgerError, match="must be of this run"):
            server.receive_once(made(planned(CountPrivacy("ldp", 1.0)), 2, records[1], tmp_path))
        with pytest.raises(ValueError, match="got 2 from 1"):
            server.receive_once(PrivateMessages(1, np.tile(good.values, (2, 1)), good.issuer))
        assert server.charged == 0
        with pytest.raises(LedgerError, match="in use by another run"):
            ServerPrivatizer(plan, folder)
        server.receive_once(good)
    for text in ("", "[]", "[" * 100_000, '{"first": 1}', '{"first": 1, "issuer": "x", "values": [[NaN]]}'):
        with pytest.raises(ValueError, match="a message must be JSON"):
            PrivateMessages.from_json(text)


@pytest.mark.parametrize("gone", ["charges", "state.npz", "messages"])
def test_a_folder_that_lacks_a_part_is_refused(gone: str, planned: Make, records: Records, tmp_path: Path) -> None:
    plan, folder = planned(CountPrivacy("ldp", 1.0)), tmp_path / "server"
    folder.mkdir()
    with serving(plan, folder) as server:
        [server.receive_once(made(plan, user, records[user - 1], tmp_path)) for user in (1, 2, 3)]
    (folder / gone).unlink()
    with pytest.raises(LedgerError, match="of one moment"):
        ServerPrivatizer(plan, folder)


def test_damaged_files_are_refused(planned: Make, records: Records, tmp_path: Path) -> None:
    plan, folder = planned(CountPrivacy("ldp", 1.0)), tmp_path / "server"
    folder.mkdir()
    with serving(plan, folder) as server:
        for user in (1, 2):
            server.receive_once(made(plan, user, records[user - 1], tmp_path))
    log = folder / "messages"
    text = log.read_bytes()
    log.write_bytes(text + b"unfinished")
    with serving(plan, folder) as server:
        assert server.charged == 2
    log.write_bytes(text.replace(b"1", b"2", 1))
    with pytest.raises(LedgerError, match="is damaged in line 1"):
        ServerPrivatizer(plan, folder)
    log.write_bytes(text)
    text = (state := folder / "state.npz").read_bytes()
    for damaged in (b"", b"x" * 99, text[:-1], text[: len(text) // 2], text[:200] + b"damage" + text[206:]):
        state.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"state\.npz is damaged; restore the whole folder"):
            ServerPrivatizer(plan, folder)
    state.write_bytes(text)
    with serving(plan, folder) as server:  # refused clients release their lock on the folder
        assert server.charged == 2


def test_a_message_without_its_charge_is_refused(planned: Make, records: Records, tmp_path: Path) -> None:
    """Otherwise a user whose journal is lost would send a second message with fresh noise."""
    plan = planned(CountPrivacy("ldp", 1.0))
    made(plan, 1, records[0], tmp_path)
    charges = (tmp_path / "1" / "charges").rename(tmp_path / "charges")
    with pytest.raises(LedgerError, match="must hold the charge of its message"):
        UserClient(plan, 1, tmp_path / "1")  # and releases its lock on the folder
    charges.rename(tmp_path / "1" / "charges")
    assert UserClient(plan, 1, tmp_path / "1").left == 0


def test_what_cannot_be_cut_is_refused(tabular_families: Callable[..., CountFamilies], tmp_path: Path) -> None:
    settings = CountPrivacy("shuffle", 1.0, 1e-6, smallest_block=1, mechanism="discrete_laplace")
    plan = settings.build(tabular_families(4), USERS, Streams(0, "x", NoiseConfig("fast", "os")))
    with pytest.raises(LedgerError, match="client and server in two processes"):
        ServerPrivatizer(plan, tmp_path)


@pytest.mark.parametrize("settings", [CountPrivacy("jdp", 1.0), CountPrivacy("ldp", 1.0)])
@pytest.mark.parametrize("part", ["apply", "charge"])
def test_after_an_error_nothing_is_released_before_a_restart(
    part: str, settings: Any, planned: Make, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a message could be counted or logged twice."""
    plan, folder = planned(settings), tmp_path / "server"
    folder.mkdir()
    with serving(plan, folder) as server, monkeypatch.context() as patch:
        message = made(plan, 1, records[0], tmp_path, server.run)
        if part == "apply":
            patch.setattr(type(server.query), "receive_values", fails)
        else:
            patch.setattr(server, "charge", fails)
        with pytest.raises(OSError, match="killed"):
            server.receive_once(message)
        patch.undo()
        for late in (server.release, lambda: server.receive_once(message)):
            with pytest.raises(LedgerError, match="with new users" if plan.server_noise else "open a new server"):
                late()
    if not plan.server_noise:
        with serving(plan, folder) as server:
            assert (server.receive_once(message), server.charged, server.release().users) == (False, 1, 1)


def test_gradients_are_applied_once_by_servers_that_share_arrays_after_an_error(planned: Make, tmp_path: Path) -> None:
    """The arrays of a failed server may hold half a step."""
    plan, folder, state = planned(GradientPrivacy("ldp", 2e3)), tmp_path / "server", {"sum": np.ones(DIMENSION)}
    folder.mkdir()
    clip = plan.query.law.clip
    row = 0.45 * clip * np.eye(DIMENSION)[0]
    message = made(plan, 1, row, tmp_path)

    def apply(found: Any) -> None:
        state["sum"] += found[0]

    def half(found: Any) -> None:
        apply(found)
        raise OSError(28, "No space left on device")

    with serving(plan, folder, apply=half, arrays=state) as server:
        with pytest.raises(OSError, match="No space"):
            server.receive_once(message)
        for late in (server.require_whole, server.release, lambda: server.receive_once(message)):
            with pytest.raises(LedgerError, match="open a new server"):
                late()
    with serving(plan, folder, apply=apply, arrays=state) as server:
        assert not server.receive_once(message)
        assert server.charged == 1
        np.testing.assert_allclose(state["sum"], 1.0 + row, atol=0.15 * clip)
        server.require_whole()


def test_an_unfinished_file_of_a_raw_record_is_removed(
    planned: Make, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, kept = planned(CountPrivacy("jdp", 1.0)), list[Path]()

    def killed(self: Path, target: Path) -> None:
        kept.append(self.with_name(f".copy{self.name}"))
        kept[0].write_bytes(self.read_bytes())  # stays, as after a kill
        raise OSError("killed")

    client = UserClient(plan, 1, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(OSError, match="killed"):
            client.submit(records[0], f"{client.run}.server")
    assert b"values" in kept[0].read_bytes()
    with pytest.raises(LedgerError, match="in use by another run"):
        UserClient(plan, 1, tmp_path)
    assert kept[0].exists()
    client.close()
    late = UserClient(plan, 1, tmp_path)
    assert (late.left, late.waiting) == (0, None)
    assert [file.name for file in tmp_path.iterdir()] == ["charges"]
