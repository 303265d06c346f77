"""Two worlds that differ in private data, and everything that leaves a runner in each of them.

Agent 2 of a batch of 5 lives in world 0 or 1; the others always in the same. In world 1 its episode is long, its
numbers are huge, and a failure of the caller's choice occurs in it.
"""

from __future__ import annotations

import inspect
import io
import logging
import pickle
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.pgc.aggregator import Batch, Reply
from dprl.algorithms.pgc.on_rllib.env_runner import PrivateEnvRunner
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters
from dprl.algorithms.pgc_a3c.on_rllib.algorithm import PGCConfig
from dprl.privacy import GradientPrivatizer, LedgerError
from dprl.privacy.queries.gradients import GradientLayout
from tests.channels import Message

SECRET = "gravity 9.7182"
AGENTS, OTHER = 5, 2
NOISY = ("messages", "reply")
"""Registered noisy channels: only their numbers may differ."""

Trouble = Callable[[], None]


def nothing() -> None:
    """No failure."""


def raises() -> None:
    raise ValueError(SECRET)


def refuses() -> None:
    # An environment may raise whatever it likes.
    raise LedgerError(SECRET)


def exits() -> None:
    sys.exit(SECRET)


def prints() -> None:
    print(SECRET)


def complains() -> None:
    print(SECRET, file=sys.stderr)


def logs() -> None:
    logging.getLogger("somebody's environment").error(SECRET)


def warns() -> None:
    warnings.warn(SECRET, stacklevel=1)


def overflows() -> None:
    np.array([1e300]) ** 2


def draws() -> None:
    """Draw from the global generators, which all agents of the process share."""
    np.random.random(3)
    torch.rand(3)


class Private(gym.Env[np.ndarray, Any]):
    """A walk; agent 2 has another one in world 1."""

    def __init__(self, world: int, trouble: Trouble, tick: Callable[[], None] = nothing) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.world, self.trouble, self.tick = world, trouble, tick
        self.other, self.steps, self.longest, self.episodes = False, 0, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        # Agents play in the order of their numbers.
        self.episodes += "agent" in (options or {})
        self.other = self.world == 1 and self.episodes == OTHER
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.longest = max(self.longest, self.steps)
        self.tick()
        if self.other and self.steps == 3:
            self.trouble()
        fallen, over = self.steps == (60 if self.other else 5), self.steps == 200
        return self._observation(), float(action) * (1e39 if self.other else 1.0), fallen, over, {}

    def _observation(self) -> np.ndarray:
        drawn: np.ndarray = self.np_random.normal(size=3) * (1e6 if self.other else 1.0)
        return drawn


class Remembering(TorchRLModule, ValueFunctionAPI):
    """A module that keeps statistics of its inputs, like normalisation layers."""

    def setup(self) -> None:
        self.policy, self.value = torch.nn.Linear(3, 2), torch.nn.Linear(3, 1)
        self.register_buffer("seen", torch.zeros(()))

    def _forward(self, batch: dict[str, Any], **_: object) -> dict[str, Any]:
        shown = self._changed(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: self.policy(shown)}

    def _changed(self, shown: torch.Tensor) -> torch.Tensor:
        self.seen: torch.Tensor = 0.9 * self.seen + 0.1 * shown.abs().mean()
        scaled: torch.Tensor = shown / (1.0 + self.seen)
        return scaled

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        values: torch.Tensor = self.value(batch[Columns.OBS]).squeeze(-1)
        return values


class Forgetful(Remembering):
    """A module that drops numbers at random, by torch's global generator."""

    def setup(self) -> None:
        super().setup()
        del self.seen
        self.dropout = torch.nn.Dropout(0.5)

    def _changed(self, shown: torch.Tensor) -> torch.Tensor:
        dropped: torch.Tensor = self.dropout(shown)
        return dropped


class Pole(PGCConfig):
    """Agents of the compiled lane, with a gravity that is not in the settings."""

    gravity = 9.7

    def cart_pole(self) -> Any:
        return type(super().cart_pole())(gravity_low=self.gravity, gravity_high=self.gravity + 0.01)


def config(kind: type[PGCConfig] = PGCConfig, scores: str = "none", **options: Any) -> PGCConfig:
    """Return a small run; options: privacy, training, schedule, of these names, module."""
    made: PGCConfig = (
        kind()
        .privacy(model="ldp", epsilon=4.0, release_scores=scores, **options.get("privacy", {}))
        .training(n_submissions=10, submissions_per_iteration=AGENTS, **options.get("training", {}))
        .schedule(reserve=10, **options.get("schedule", {}))
        .env_runners(agents_per_call=AGENTS)
        .debugging(seed=3)
    )
    if kind is PGCConfig:
        made.environment("private world")
    if "module" in options:
        made.rl_module(rl_module_spec=RLModuleSpec(module_class=options["module"]))
    return made


class World(NamedTuple):
    """A runner, and the privatizer that it is asked for messages by."""

    runner: PrivateEnvRunner
    privatizer: GradientPrivatizer

    def batch(self, first: int) -> Batch:
        """Return the next batch, which fills the slots from `first` on."""
        theta = np.random.default_rng(0).normal(size=(1, self.privatizer.query.dimension))
        slots = np.arange(first, first + AGENTS)
        return Batch(self.privatizer.lease(AGENTS), slots, theta, np.zeros(AGENTS, dtype=np.int64))


def world(
    settings: PGCConfig, environment: Callable[[], gym.Env[Any, Any]], kind: type[PrivateEnvRunner] = PrivateEnvRunner
) -> World:
    """Return a runner in this process."""
    runner = kind(config=settings, env_creator=lambda _: environment(), worker_index=1, num_workers=1)
    return World(runner, privatizer(settings, n_parameters(runner.module)))


def privatizer(settings: PGCConfig, dimension: int) -> GradientPrivatizer:
    """Return a privatizer of a run without Ray."""
    built: GradientPrivatizer = settings.trust_model().build(
        GradientLayout(dimension), settings.population, settings.streams()
    )
    return built


def left(here: World) -> list[Message]:
    """Return all that leaves a runner: replies, results of its methods, prints, warnings, errors, texts of objects."""
    found: list[Message] = []
    printed, complained, logged = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    try:
        with redirect_stdout(printed), redirect_stderr(complained), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for first in (1, 1 + AGENTS):
                batch = here.batch(first)
                found += answered(lambda batch=batch: here.runner.report(batch, here.privatizer.new_client))  # type: ignore[misc]
                # A reply is asked for twice: a refusal.
                found += answered(lambda batch=batch: here.runner.report(batch, here.privatizer.new_client))  # type: ignore[misc]
            found += told(here.runner)
    finally:
        logging.getLogger().removeHandler(handler)
    found += [Message("printed", printed.getvalue().encode()), Message("complaints", complained.getvalue().encode())]
    warned_of = [str(warning.message) for warning in warned or []]
    found += [Message("log", logged.getvalue().encode()), Message("warnings", repr(warned_of).encode())]
    certificate = here.privatizer.certificate("pgc_a3c").to_dict()
    return [*found, Message("certificate", repr(certificate).encode())]


def answered(ask: Callable[[], Reply]) -> list[Message]:
    """Return the result of a call."""
    try:
        reply = ask()
    except BaseException as error:  # noqa: BLE001 - whatever comes out has left
        return [Message("errors", "".join(traceback.format_exception(error)).encode())]
    return messages_of(reply)


def messages_of(reply: Reply) -> list[Message]:
    """Return a reply as its parts, and as the bytes sent between processes."""
    (messages, scores), written = reply, pickle.dumps(reply)
    values, others = messages.values, [j for j, n in enumerate(messages.submissions.tolist()) if n != OTHER]
    found = [
        Message("messages", values.tobytes()),
        Message.of("form of messages", (*values.shape, values.dtype.itemsize, *messages.submissions)),
        # With the same noise, no other agent's message changes.
        Message("messages of others", values[others].tobytes()),
        Message("reply", written),
        Message("texts", f"{messages!r} {sorted(vars(messages))}".encode()),
    ]
    if scores is not None:
        found.append(Message.of("scores", scores))
    return found


def told(runner: PrivateEnvRunner) -> list[Message]:
    """Return the results of a runner's methods without arguments, and the texts of its attributes."""
    shown = f"{runner!r} {runner._update!r} {runner._client!r} {runner.env!r} {runner.metrics!r}"
    texts = re.sub(r"0x[0-9a-f]+", "", shown)
    found = [Message("texts", texts.encode())]
    for name in dir(type(runner)):
        method = getattr(runner, name)
        if name.startswith("_") or not inspect.ismethod(method) or not _needs_nothing(method) or name in _CHANGING:
            continue
        try:
            brought: object = method()
        except Exception as error:  # noqa: BLE001 - RLlib's own, too
            brought = "".join(traceback.format_exception(error))
        found.append(Message(f"{name}()", repr(brought).encode()))
    return found


_CHANGING = ("make_env", "make_module", "stop", "get_node_ip", "get_host", "save_to_path", "get_ctor_args_and_kwargs")


def _needs_nothing(method: Callable[..., object]) -> bool:
    empty, various = inspect.Parameter.empty, (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = inspect.signature(method).parameters.values()
    return all(each.default is not empty or each.kind in various for each in needed)
