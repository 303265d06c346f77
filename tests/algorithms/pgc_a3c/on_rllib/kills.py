"""Runs to be killed: an environment that logs who was asked, and an algorithm that logs what it received.

Both log to files, because their processes are killed. `python -m tests.algorithms.pgc_a3c.on_rllib.kills` trains,
or sweeps, until it is killed.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from ray import tune

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.dppg.on_rllib import DPPG, DPPGConfig
from dprl.algorithms.pgc.aggregator import Reply
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc_a3c.on_rllib.algorithm import PGC, PGCConfig
from dprl.privacy import SubmissionRange
from tests.on_ray import start_ray

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 240.0
"""Seconds; the machine may be loaded."""
DPPG_USERS = 6000
_ASKED, _LEASED, _APPLIED, _VALUES, _PROCESSES, _LATEST = (
    "asked", "leased", "applied", "values", "processes", "latest",
)  # fmt: skip


class Watched(gym.Env[np.ndarray, Any]):
    """An environment of three dummy steps that logs every agent when its episode begins.

    env_config: folder: of the log. seconds: duration of an episode. fatal: number of the agent, counted in its process,
    in whose episode the process is killed the first time. endless: the same for an episode that hangs.
    """

    def __init__(self, config: Any) -> None:
        self.observation_space = spaces.Box(-5.0, 5.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.folder, self.seconds = Path(config["folder"]), float(config.get("seconds", 0.0))
        self.fatal, self.endless = int(config.get("fatal", 0)), int(config.get("endless", 0))
        self.steps, self.episodes = 0, 0
        append(self.folder / _PROCESSES, f"{getattr(config, 'worker_index', 0)} {os.getpid()}")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        agent = (options or {}).get("agent")
        if agent is not None:
            append(self.folder / _ASKED, f"{agent} {os.getpid()}")
            self.episodes += 1
        if self.episodes == self.fatal > 0 and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.episodes == self.endless > 0 and not (self.folder / "hung").exists():
            (self.folder / "hung").touch()
            time.sleep(10 * PATIENCE)
        time.sleep(self.seconds)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._observation(), float(action), False, self.steps == 3, {}

    def _observation(self) -> np.ndarray:
        return self.np_random.normal(size=2).astype(np.float32)


class _Watching(GradientCollection):
    """Logs, in the folder of its environment, its leases and the messages received by its aggregator."""

    def setup(self, config: GradientCollectionConfig) -> None:
        super().setup(config)
        folder = Path(self.config.env_config["folder"])
        journaled, aggregator = self._journaled, self._aggregator
        lease, receive = journaled.lease, aggregator.receive

        def leased(k: int, needed: int = 0) -> SubmissionRange:
            found = lease(k, needed)
            append(folder / _LEASED, *map(str, found.submissions.tolist()))
            return found

        def received(slots: Int64Array, reply: Reply) -> None:
            receive(slots, reply)
            messages, _ = reply
            append(folder / _APPLIED, *map(str, messages.submissions.tolist()))
            values = folder / f"{_VALUES}.{os.getpid()}.{messages.values.shape[1]}"  # the last row may be incomplete
            with values.open("ab") as file:
                file.write(messages.values.tobytes())

        journaled.lease = leased  # type: ignore[method-assign]
        aggregator.receive = received  # type: ignore[method-assign]


class WatchedPGC(_Watching, PGC):
    """PGC with these logs."""


class WatchedDPPG(_Watching, DPPG):
    """DPPG with these logs."""


class Record(NamedTuple):
    """The logs of a run, over all of its processes.

    asked: agents whose episode began, as their environment was told of them. leased, applied: submissions.
    charged: int64[n_agents], from the journal.
    values: float64[messages, m], what the aggregator was sent. processes: that had an episode.
    """

    asked: list[int]
    leased: list[int]
    applied: list[int]
    charged: Int64Array
    values: Float64Array
    processes: set[int]

    def check(self, submissions: int = 1) -> None:
        """Raise AssertionError if an agent was asked, or a message used, too often."""
        assert max(Counter(self.asked).values()) <= submissions
        assert len(set(self.leased)) == len(self.leased)
        assert len(set(self.applied)) == len(self.applied)
        assert set(self.applied) <= set(self.leased)
        assert self.charged.max() <= submissions
        assert self.charged.sum() >= max(self.leased)
        assert len(self.asked) <= self.charged.sum()
        assert len(set(self.asked)) <= np.count_nonzero(self.charged)


def charges(journal: Path) -> list[tuple[int, int]]:
    """Return the charged ranges of submissions in a journal of one attempt."""
    _, attempt, *ranges = (line.split() for line in lines(journal))
    assert attempt[:2] == ["attempt", "1"]
    return [(int(first), int(last)) for first, last, _ in ranges]


def record(folder: Path, journal: Path) -> Record:
    """Read the logs of a run."""
    asked = [line.split() for line in lines(folder / _ASKED)]
    leased, applied = ([int(line) for line in lines(folder / name)] for name in (_LEASED, _APPLIED))
    charged = np.zeros(int(lines(journal)[0].split()[4]), dtype=np.int64)
    for first, last in charges(journal):
        np.add.at(charged, np.arange(first - 1, last) % len(charged), 1)
    agents, processes = [int(agent) for agent, _ in asked], {int(process) for _, process in asked}
    return Record(agents, leased, applied, charged, _values(folder), processes)


def _values(folder: Path) -> Float64Array:
    """Return float64[messages, m], all complete rows written by the processes of a run."""
    found = [np.zeros((0, 1))]
    for path in sorted(folder.glob(f"{_VALUES}.*")):
        numbers, width = np.fromfile(path), int(path.suffix[1:])
        found.append(numbers[: len(numbers) // width * width].reshape(-1, width))
    return np.concatenate(found[1:] or found)


def repeats(values: Float64Array, width: int = 4) -> int:
    """Return how often `width` neighbouring numbers of messages float64[k, m] occur again, anywhere.

    Independent noise does so with negligible probability: 2^-100 with Laplace noise.
    """
    windows = [tuple(row[i : i + width]) for row in values for i in range(len(row) - width + 1)]
    return len(windows) - len(set(windows))


def append(path: Path, *texts: str) -> None:
    """Append lines to a file, in one write: others may be killed meanwhile."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, "".join(f"{text}\n" for text in texts).encode())
    os.close(file)


def lines(path: Path) -> list[str]:
    """Return the complete lines of a file, none if there is no file."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def processes_of(folder: Path, runner: int) -> list[int]:
    """Return the processes that runner 1, 2, ... of a run has had, in order."""
    return [int(line.split()[1]) for line in lines(folder / _PROCESSES) if line.split()[0] == str(runner)]


def config(folder: Path, runners: int, **options: Any) -> PGCConfig:
    """Return a small run in `Watched`; options: privacy, training, env, schedule, of these names."""
    folder.mkdir(parents=True, exist_ok=True)
    privacy = {"epsilon": 5.0, "entropy": "os", **options.get("privacy", {})}
    training = {"n_submissions": 100_000, "submissions_per_iteration": 60, "buffer_size": 8}
    made: PGCConfig = (
        PGCConfig(algo_class=WatchedPGC)
        .privacy(model="ldp", **privacy)
        .training(**{**training, **options.get("training", {})})
        .schedule(reserve=options.get("reserve"))
        .environment(Watched, env_config={"folder": str(folder), **options.get("env", {})})
        .env_runners(num_env_runners=runners, agents_per_call=5)
        .debugging(seed=3, log_level="ERROR")
    )
    return made


def dppg_config(folder: Path, n_submissions: int) -> DPPGConfig:
    """Return a small run of DPPG in `Watched`, in the central model, on two runners."""
    made: DPPGConfig = (
        DPPGConfig(algo_class=WatchedDPPG)
        .privacy(model="jdp", epsilon=1.0, delta=1e-6, mechanism="clipped_gaussian", entropy="os")
        .training(n_submissions=n_submissions, users_per_update=20, horizon=3)
        .environment(Watched, env_config={"folder": str(folder), "seconds": 0.004})
        .rl_module(model_config={"fcnet_hiddens": [4], "fcnet_activation": "tanh"})
        .env_runners(num_env_runners=2, num_cpus_per_env_runner=0.5, agents_per_call=5)
        .resources(num_cpus_for_main_process=0.5)
        .ledger(folder=str(folder / "ledger"))
        .debugging(seed=3, log_level="ERROR")
    )
    return made


def adds_up(algorithm: GradientCollection, journal: Path) -> bool:
    """Whether every charged agent is applied or counted as lost, with no message pending."""
    charged = sum(last - first + 1 for first, last in charges(journal))
    return charged == algorithm.submissions + algorithm.lost == algorithm._journaled.privatizer.charged


def wait_for(happened: Callable[[], bool]) -> None:
    """Wait until something has happened; raise TimeoutError after `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("it has not happened")
        time.sleep(0.02)


@contextmanager
def started(what: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start this file in a separate process, which is killed at the end."""
    command = [sys.executable, "-m", __name__, what, str(folder)]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", str(ROOT)), str(ROOT)])}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=surroundings, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def latest(folder: Path) -> Path | None:
    """Return the last checkpoint that `train_until_killed` has finished."""
    found = lines(folder / _LATEST)
    return Path(found[-1]) if found else None


def train_until_killed(folder: Path) -> None:
    """Train for ever, with a checkpoint after every iteration."""
    start_ray()
    algorithm = config(folder, 1, env={"seconds": 0.004}).ledger(folder=str(folder / "ledger")).build_algo()
    for number in itertools.count():
        algorithm.train()
        append(folder / _LATEST, algorithm.save_to_path(folder / f"checkpoint{number}"))


def train_dppg_to_the_end(folder: Path) -> None:
    """Train from the last checkpoint, or from the start, with a checkpoint after every iteration."""
    start_ray()
    before = lines(folder / _LATEST)
    algorithm = DPPG.from_checkpoint(before[-1]) if before else dppg_config(folder, DPPG_USERS).build_algo()
    append(folder / "begun", str(algorithm.submissions))
    while algorithm.submissions < DPPG_USERS:
        algorithm.train()
        append(folder / _LATEST, algorithm.save_to_path(folder / f"checkpoint{algorithm.submissions}"))
    (folder / "done").touch()


def tuner(folder: Path) -> tune.Tuner:
    """Return a sweep of two trials, each of which dies once."""
    swept = config(folder, 0, env={"seconds": 0.004, "fatal": 70}, training={"n_submissions": 480})
    places = [str(folder / name) for name in ("one", "two")]
    for place in places:
        Path(place).mkdir(exist_ok=True)
    swept.env_config["folder"] = tune.grid_search(places)
    return tune.Tuner(
        WatchedPGC,
        param_space=swept,
        tune_config=tune.TuneConfig(max_concurrent_trials=2),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(folder / "storage"),
            failure_config=tune.FailureConfig(max_failures=1),
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
            verbose=0,
        ),
    )


def sweep_until_killed(folder: Path) -> None:
    """Run the sweep."""
    start_ray()
    tuner(folder).fit()


if __name__ == "__main__":
    # Classes are pickled by the name of their module.
    from tests.algorithms.pgc_a3c.on_rllib import kills

    tasks = {
        "train": kills.train_until_killed,
        "dppg": kills.train_dppg_to_the_end,
        "sweep": kills.sweep_until_killed,
    }
    tasks[sys.argv[1]](Path(sys.argv[2]))
