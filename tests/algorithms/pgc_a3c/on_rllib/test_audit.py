"""Apart from noisy messages, nothing that leaves a runner depends on agent 2's private data; mutants are detected."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import ray
from ray.exceptions import RayError
from ray.tune.registry import register_env

from dprl.algorithms.pgc.aggregator import Batch, Reply
from dprl.algorithms.pgc.on_rllib import env_runner
from dprl.algorithms.pgc.on_rllib.env_runner import PrivateEnvRunner
from dprl.algorithms.pgc_a3c.agent_batch import agent_batch
from dprl.algorithms.pgc_a3c.on_rllib import algorithm as on_rllib
from dprl.algorithms.pgc_a3c.on_rllib.algorithm import PGC, PGCConfig
from dprl.envs.cartpole import CartPoleGravityEnv
from tests.algorithms.pgc_a3c.on_rllib.worlds import (
    AGENTS,
    NOISY,
    SECRET,
    Forgetful,
    Pole,
    Private,
    Remembering,
    Trouble,
    World,
    complains,
    config,
    draws,
    exits,
    left,
    logs,
    messages_of,
    nothing,
    overflows,
    prints,
    privatizer,
    raises,
    refuses,
    warns,
    world,
)
from tests.channels import ORDER, Message, differing_channels
from tests.on_ray import start_ray


@pytest.fixture(autouse=True)
def one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all privatizers the same name, which is drawn at random and public."""
    monkeypatch.setattr("dprl.privacy.privatizer.secrets.token_hex", lambda n: "7f" * n)


def leaks(settings: PGCConfig, trouble: Trouble = nothing, kind: type[PrivateEnvRunner] = PrivateEnvRunner) -> Any:
    """Return the channels that reveal agent 2's world."""
    return differing_channels(lambda number: left(world(settings, lambda: Private(number, trouble), kind)), NOISY)


@pytest.mark.slow
def test_only_noisy_messages_differ() -> None:
    here = [left(world(config(), lambda number=number: Private(number, nothing))) for number in (0, 1)]  # type: ignore[misc]
    assert differing_channels(lambda number: here[number], NOISY) == ()
    # The two worlds do differ.
    assert differing_channels(lambda number: here[number]) == tuple(sorted(NOISY))
    assert {"get_metrics()", "get_state()", "ping()", "assert_healthy()", "get_spaces()", "sample()"} < {
        message.channel for message in here[0]
    }
    assert SECRET.encode() not in b"".join(message.content for message in here[1])


@pytest.mark.parametrize("trouble", [raises, draws, refuses, exits, prints, complains, logs, warns, overflows])
def test_what_befalls_an_agent_does_not_come_out(trouble: Trouble) -> None:
    assert leaks(config(), trouble) == ()


@pytest.mark.parametrize("module", [Remembering, Forgetful])
@pytest.mark.parametrize("trouble", [nothing, draws, raises])
def test_an_agent_does_not_change_what_others_send(module: type, trouble: Trouble) -> None:
    assert leaks(config(module=module), trouble) == ()


@pytest.mark.parametrize("scores", ["simulator", "none"])
def test_scores_are_a_channel_only_where_the_certificate_says_so(scores: str) -> None:
    settings = config(scores=scores)
    assert leaks(settings) == (("scores",) if scores == "simulator" else ())
    certificate = privatizer(settings, 4).planned_certificate("pgc_a3c").to_dict()
    assert any("raw scores" in channel for channel in certificate["excluded_channels"]) == (scores == "simulator")


@pytest.fixture
def fixed_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make streams independent of the sources' version, because with some draws both worlds happen to look the same."""
    monkeypatch.setattr("dprl.algorithms.pgc.on_rllib.config.results_version", lambda: "1")


@pytest.mark.parametrize("mechanism", ["clipped_laplace", "projected_random_sign", "privunit"])
def test_in_the_compiled_lane_gravity_does_not_come_out(fixed_draws: None, mechanism: str) -> None:
    found = []
    for gravity in (9.7, 40.0):
        settings = config(Pole, privacy={"mechanism": mechanism})
        settings.gravity = gravity
        found.append(left(world(settings, CartPoleGravityEnv)))
    noisy = (*NOISY, "messages of others")
    assert differing_channels(lambda number: found[number], noisy) == ()
    # A message of one bit is mostly noise, and the noise is equal here, so the bit may be equal, too.
    assert mechanism == "projected_random_sign" or differing_channels(lambda number: found[number])


class TellsScores(PrivateEnvRunner):
    """Mutant: replies with raw scores, although the settings do not declare a simulator."""

    def report(self, batch: Batch, spec: Any) -> Reply:
        self._shows_scores = True
        return super().report(batch, spec)


class Remembers(PrivateEnvRunner):
    """Mutant: its state and its text contain played episodes."""

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"longest": self.env.longest}

    def __repr__(self) -> str:
        return f"Remembers(longest={self.env.longest})"


@pytest.mark.parametrize(("kind", "channels"), [(TellsScores, ("scores",)), (Remembers, ("get_state()", "texts"))])
def test_runners_that_leak_are_caught(kind: type[PrivateEnvRunner], channels: tuple[str, ...]) -> None:
    assert leaks(config(), nothing, kind) == channels


def test_a_runner_that_lets_errors_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (env_runner, on_rllib):
        monkeypatch.setattr(module, "error_barrier", lambda **_: nullcontext())
    assert leaks(config(), raises) == (ORDER,)


class Clock:
    """A clock that advances only with work: a step takes a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def step(self) -> None:
        self.now += 0.001


@pytest.mark.parametrize("round_seconds", [0.0, 0.5])
def test_rounds_hide_how_long_episodes_take(monkeypatch: pytest.MonkeyPatch, round_seconds: float) -> None:
    settings = config(schedule={"round_seconds": round_seconds})

    def timed(number: int) -> list[Message]:
        clock = Clock()
        monkeypatch.setattr(env_runner, "time", clock)
        here = world(settings, lambda: Private(number, nothing, clock.step))
        here.runner.report(here.batch(1), here.privatizer.new_client)
        return [Message.of("duration", round(clock.now, 9))]

    assert differing_channels(timed) == (() if round_seconds else ("duration",))


def test_padding_hides_how_long_episodes_take(fixed_draws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def noted(*given: Any, **more: Any) -> Any:
        made.append(agent_batch(*given, **more))
        return made[-1]

    monkeypatch.setattr(on_rllib, "agent_batch", noted)
    for padded in (True, False):
        ticks = []
        for gravity in (9.7, 40.0):
            settings = config(Pole, training={"padded": padded})
            settings.gravity = gravity
            here = world(settings, CartPoleGravityEnv)
            here.runner.report(here.batch(1), here.privatizer.new_client)
            ticks.append(int(made[-1].clock[0]))
        assert (ticks[0] == ticks[1]) == padded


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    start_ray()
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.cluster
def test_a_runner_in_a_process_of_its_own(cluster: None) -> None:
    """This includes remote errors of Ray and the log files of the process."""
    settings = config()
    files = Path(ray._private.worker._global_node.get_logs_dir_path())

    def record(number: int) -> list[Message]:
        kind = ray.remote(max_restarts=1)(PrivateEnvRunner)
        actor = kind.remote(
            config=settings, env_creator=lambda _: Private(number, raises), worker_index=1, num_workers=1
        )
        here = World(actor, privatizer(settings, 112 - 16))
        process = ray.get(actor.apply.remote(lambda _: os.getpid()))
        found = []
        for first in (1, 1 + AGENTS):
            batch = here.batch(first)
            found += messages_of(ray.get(actor.report.remote(batch, here.privatizer.new_client)))
            found += refused(lambda batch=batch: ray.get(actor.report.remote(batch, here.privatizer.new_client)))  # type: ignore[misc]
        for method in ("get_metrics", "get_state", "ping", "assert_healthy", "get_spaces"):
            found.append(Message(method, repr(ray.get(getattr(actor, method).remote())).encode()))
        found += refused(lambda: ray.get(actor.sample.remote()))
        ray.kill(actor)
        for file in sorted(files.glob(f"*{process}*")):
            text = masked(file.read_text(errors="replace"))
            found.append(Message("log " + file.suffix, (text if file.suffix != ".log" else of_core(text)).encode()))
            assert SECRET not in text
        return found

    here = [record(number) for number in (0, 1)]
    assert len([message for message in here[0] if message.channel.startswith("log ")]) >= 2
    assert differing_channels(lambda number: here[number], NOISY) == ()


def refused(call: Callable[[], object]) -> list[Message]:
    with pytest.raises(RayError) as refusal:
        call()
    return [Message("errors", masked(str(refusal.value)).encode())]


def masked(text: str) -> str:
    """Return a text without parts that differ between processes."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+|0x[0-9a-f]+|pid=\d+|\b[0-9a-f]{20,}\b", "", text)
    return re.sub(r"\bI\d+|[WE] \d+|\d{4}-\d\d-\d\d[ T][\d:.,]+", "", text)


def of_core(text: str) -> str:
    """Return the lines on us in the log of Ray's core, without those on its threads and on log rotation."""
    ours = [line for line in text.splitlines() if re.search(r"dprl|Private|gradient|score|Traceback", line)]
    return "\n".join(sorted({re.sub(r"\d+", "#", line) for line in ours}))


@pytest.mark.slow
@pytest.mark.cluster
def test_the_results_of_a_run(cluster: None, tmp_path: Path) -> None:
    def record(number: int) -> list[Message]:
        def creator(_: object) -> gym.Env[Any, Any]:
            return Private(number, raises)

        register_env("private world", creator)
        settings = config().ledger(folder=str(tmp_path / str(number)))
        algorithm: PGC = settings.build_algo()
        found = []
        for _ in range(2):
            result = algorithm.train()
            result.pop("config")
            found += untimed(result)
        found.append(Message("certificate", repr(algorithm.certificate().to_dict()).encode()))
        found += untimed(algorithm.get_state(components="env_runner"))
        algorithm.stop()
        return found

    here = [record(number) for number in (0, 1)]
    assert {"pgc/submissions", "pgc/lost", "pgc/updates", "pgc/epsilon"} < {message.channel for message in here[0]}
    assert differing_channels(lambda number: here[number]) == ()


TIMED = re.compile(r"time|timers|_s$|per_s|^date$|pid|driver_share|trial_id|hostname|node_ip|perf|throughput|seconds")


def untimed(result: dict[str, Any]) -> list[Message]:
    """Return a nested dictionary without values of the clock or the machine, which differ in every run."""
    flat = [(key, value) for key, value in sorted(flattened(result)) if not TIMED.search(key)]
    keys = repr([key for key, _ in flat])
    return [Message("keys", keys.encode()), *(Message(key, repr(value).encode()) for key, value in flat)]


def flattened(result: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in result.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{key}/")
        else:
            yield prefix + str(key), value
