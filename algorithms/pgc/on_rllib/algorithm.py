"""Gradient collection as RLlib's Algorithm: agents on any number of runners, one aggregator, a ledger on disk."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Collection
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import ray
from gymnasium import spaces
from ray.exceptions import RayError, RayTaskError
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.error import EnvError
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, EPISODE_RETURN_MEAN, EVALUATION_RESULTS
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME as STEPS_LIFETIME

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.pgc.aggregator import Aggregator, Batch, Reply
from dprl.algorithms.pgc.collector import collect
from dprl.algorithms.pgc.journaled_privatizer import JournaledPrivatizer, journal_folder
from dprl.algorithms.pgc.on_rllib.config import GradientCollectionConfig
from dprl.algorithms.pgc.on_rllib.env_runner import check_observed, quiet
from dprl.algorithms.pgc.on_rllib.parameters import write_parameters
from dprl.algorithms.pgc.scores import SCORE, ScoreTracker, record_all
from dprl.algorithms.pgc.user_code import error_barrier, silent
from dprl.envs.gymnasium_ids import check_step
from dprl.privacy import Certificate, GradientPrivatizer

_CERTIFICATE = "certificate.json"
_LOCAL = 0
_PROBE_SECONDS = 0.2

Outcome = tuple[Int64Array, Reply | None]
"""Outcome of a batch: its slots int64[k], and the reply, or None if the batch is lost."""


class GradientCollection(Algorithm):
    """Base class of private gradient collection on RLlib: `CONFIG().privacy(...).build_algo().train()`.

    *Formal guarantee.* The privatizer's, for every agent, also after crashes and restarts: a submission is charged in a
    journal on disk before its agent is asked, and no agent is asked twice. A charged message that does not arrive is
    lost, and a fresh agent takes its place.

    Paper: [OT20] Algorithm 1.
    """

    config: GradientCollectionConfig
    results_key: ClassVar[str]
    """Key of its metrics in results, and of its state in checkpoints."""

    @classmethod
    def _should_create_evaluation_env_runners(cls, eval_config: object) -> bool:  # noqa: ARG003 - as RLlib's
        # RLlib would make runners of this algorithm, and they return no episodes; see `evaluate`.
        return False

    def setup(self, config: GradientCollectionConfig) -> None:
        """Start the runners and the aggregator; called by RLlib's constructor."""
        with quiet(config.log_level):
            # First, because RLlib hides errors of a remote runner's constructor behind an IndexError of its own.
            if not config.compiled:
                self._dry_run(config)
            super().setup(config)
            self._set_up()
        query, ledger = self._journaled.privatizer.query, self._journaled.folder
        noise = query.law.name + (f" with {query.counter.name}" if query.counter else "")
        sys.stderr.write(
            f"{type(self).__name__}: {self.config.n_submissions} submissions, {self.config.privacy_settings}, "
            f"{noise} on {query.dimension} parameters, ledger {ledger}\n"
        )

    def _set_up(self) -> None:
        streams, first = self.config.streams(), self.config.initial_parameters(self.get_module(), self.spaces)
        trust, population, layout = self.config.trust_model(), self.config.population, self.config.layout(len(first))

        def privatizer() -> GradientPrivatizer:
            built: GradientPrivatizer = trust.build(layout, population, streams)
            return built

        self._journaled = JournaledPrivatizer(privatizer, journal_folder(self.config.ledger_folder, self._storage))
        rules = self.config.rules(self._journaled.privatizer)
        self._aggregator = Aggregator(rules, first, self._journaled.accept, self._note_scores)
        self._publish()
        self._score_tracker = ScoreTracker.empty(getattr(self.config, "target", math.inf))
        self._played: list[Float64Array] = []
        self._steps, self._failed = 0, 0
        in_flight = self.config.max_requests_in_flight_per_env_runner
        self._workers = _Workers(self.env_runner_group, self._journaled, in_flight, self.config.sample_timeout_s)
        self._evaluation_env: Any = None

    def __repr__(self) -> str:
        # Tune calls this for an algorithm with a failed constructor, before there are settings.
        config = getattr(self, "config", None)
        return type(self).__name__ if config is None else str(super().__repr__())

    @property
    def parameters(self) -> Float64Array:
        """The parameters after the last update, a copy float64[d]."""
        return self._aggregator.parameters

    @property
    def submissions(self) -> int:
        """Number of applied messages."""
        return self._aggregator.applied

    @property
    def lost(self) -> int:
        """Number of leased submissions neither applied nor pending; their agents are not asked again."""
        privatizer = self._journaled.privatizer
        return 0 if privatizer.query.sampled else int(privatizer.leased) - self.submissions

    def get_module(self, module_id: str = DEFAULT_MODULE_ID) -> TorchRLModule:
        """Return the module with the parameters after the last update."""
        module: TorchRLModule = self.learner_group._learner.module[module_id]
        return module

    def certificate(self) -> Certificate:
        """Return the certificate of the messages so far."""
        certificate: Certificate = self._journaled.privatizer.certificate(self.config.learning_config().name)
        return certificate

    def training_step(self) -> None:
        """Collect the next `submissions_per_iteration` messages.

        Raises RuntimeError when all `n_submissions` are applied or no runner is left; LedgerError when no agent is.
        """
        before, goal = self.submissions, self.config.n_submissions
        if before >= goal:
            raise RuntimeError(f"all {goal} submissions are applied; build an algorithm with more n_submissions")
        started, waited, self._played = time.perf_counter(), self._workers.waited, []
        self._collect(min(before + self.config.submissions_per_iteration, goal))
        self._publish()
        seconds = time.perf_counter() - started
        self._log(self.submissions - before, seconds, self._workers.waited - waited)

    def _collect(self, goal: int) -> None:
        """Collect until `goal` messages are applied in total."""
        self._collect_from(self._aggregator, self._journaled.lease, goal)

    def _collect_from(self, aggregator: Any, lease: Any, goal: int) -> None:  # noqa: ANN401 - as of `collect`
        collect(
            aggregator,
            self._workers,
            lease,
            goal,
            agents_per_call=self.config.call_size,
            losses=self.config.num_consecutive_env_runner_failures_tolerance,
            patience=self.config.env_runner_restore_timeout_s,
            fixed=self.config.fixed_calls,
        )

    def step(self) -> dict[str, Any]:
        """Run one iteration; the result says `done` once all submissions are applied."""
        found = super().step()
        shown = (self.results_key, ENV_RUNNER_RESULTS, EVALUATION_RESULTS, STEPS_LIFETIME, "config")
        # Few columns in the tables of Tune and MLflow.
        result = {name: found[name] for name in shown if name in found}
        if self._played:  # not in RLlib's metrics: restored ones are nan, and runners want the steps as an integer
            result |= {STEPS_LIFETIME: self._steps}
            result[ENV_RUNNER_RESULTS] = {**result.get(ENV_RUNNER_RESULTS, {}), STEPS_LIFETIME: self._steps}
        return result | {"done": self.submissions >= self.config.n_submissions}

    def evaluate(self, parallel_train_future: object = None) -> dict[str, Any]:  # noqa: ARG002 - as RLlib's
        """Play `evaluation_duration` episodes on a simulator with public settings, without agents.

        Actions are the most probable ones, or with `evaluation_config={"explore": True}` drawn from the policy.

        Return {"env_runners": {"episode_return_mean", "episode_return_min", "episode_return_max", "num_episodes"}}.
        """
        self._call_back("on_evaluate_start")
        config = self.evaluation_config
        seeds = np.random.SeedSequence((self.config.seed, self.submissions)).generate_state(config.evaluation_duration)
        module = self.get_module()
        returns: list[float] = []
        with ExitStack() as stack:
            if self.config.noise().entropy == "os":  # users may be real, and play in this process, too
                stack.enter_context(silent())
                if self._journaled.privatizer.charged:
                    stack.enter_context(error_barrier())
            if self._evaluation_env is None:
                self._evaluation_env = self._simulator(config.env_config)
            create = partial(self._simulator, config.env_config)
            explore = bool((self.config.evaluation_config or {}).get("explore", False))
            returns = self.config.returns(self._evaluation_env, module, create, seeds.tolist(), explore)
        if not returns:
            raise RuntimeError("evaluation failed; texts of its environment are not shown once users have played")
        found = {"mean": float(np.mean(returns)), "min": min(returns), "max": max(returns)}
        results = {f"episode_return_{name}": value for name, value in found.items()}
        evaluated = {"env_runners": results | {"num_episodes": len(returns)}}
        self._call_back("on_evaluate_end", evaluation_metrics=evaluated)
        return evaluated

    def _call_back(self, name: str, **given: object) -> None:
        """Call the user's callbacks of that name, as RLlib does."""
        functions = getattr(self.config, f"callbacks_{name}")
        kwargs = {"algorithm": self, "metrics_logger": self.metrics, **given}
        make_callback(name, callbacks_objects=self.callbacks, callbacks_functions=functions, kwargs=kwargs)

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup) -> list[int]:
        """Take back restarted runners; they need no state."""
        return self._workers.restore() if env_runner_group is self.env_runner_group else []

    def cleanup(self) -> None:
        """Stop the runners and close the ledger."""
        super().cleanup()
        if hasattr(self, "_journaled"):
            self._journaled.close()

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - as RLlib's
    ) -> dict[str, Any]:
        """Return RLlib's state, and under `results_key` the ledger's folder and least size, scores and aggregator."""
        state: dict[str, Any] = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(self.results_key, components, not_components):
            state[self.results_key] = {
                "ledger": self._journaled.reference(),
                "scores": {name: getattr(self._score_tracker, name).copy() for name in ("last", "counts")},
                "steps": (self._steps, self._failed),
                "aggregator": self._aggregator.state_dict(),
            }
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from `get_state`, with agents that were not asked before. Raises ValueError for other settings."""
        saved = state.get(self.results_key, {"aggregator": None})
        if "aggregator" not in saved:
            raise ValueError("state must have an aggregator, got one of an earlier version; finish the run with that")
        super().set_state(state)
        if self.results_key in state:
            for name, array in saved["scores"].items():
                getattr(self._score_tracker, name)[:] = array
            self._aggregator.load_state_dict(saved["aggregator"])
            self._steps, self._failed = saved["steps"]
            self._publish()
            self._journaled.resume(saved["ledger"])

    def save_to_path(self, path: str | Path | None = None, **kwargs: Any) -> str:  # noqa: ANN401 - as RLlib's
        """Save a checkpoint with certificate.json and the path of the ledger, not the ledger itself."""
        saved: str = super().save_to_path(path, **kwargs)
        if Path(saved).is_dir():
            (Path(saved) / _CERTIFICATE).write_text(json.dumps(self.certificate().to_dict(), indent=2) + "\n")
        return saved

    def _dry_run(self, config: GradientCollectionConfig) -> None:
        """Raise errors of environment and module before there are agents; later errors would reveal data."""
        try:
            env = self._simulator(config.env_config)
        except EnvError as error:
            wrong = f"env must be an environment that can be made ({error.__context__}), got {config.env!r}"
            raise ValueError(f"{wrong}; correct the name, or register it by ray.tune.register_env") from None
        # Before the module is built: RLlib's defaults do not name the environment.
        check_observed(env, spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
        check_step(env, str(config.env), "env")
        module = config.get_rl_module_spec(env=env, inference_only=False).build()
        config.dry_run(env, module, partial(self._simulator, config.env_config))
        env.close()

    def _simulator(self, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - a gym.Env
        """Return an environment in this process, without an agent."""
        return self.env_creator(EnvContext(settings, worker_index=0, num_workers=0))

    def _publish(self) -> None:
        """Write the parameters into the module, in its own precision, for use and checkpoints."""
        write_parameters(self.get_module(), self.parameters)

    def _note_scores(self, played: Float64Array) -> None:
        """Record scores and numbers of steps float64[k, 2]; only a simulation reads them."""
        self._played.append(played)
        self._steps, self._failed = self._steps + int(played[:, 1].sum()), self._failed + int((played[:, 1] == 0).sum())
        record_all(self._score_tracker, np.ascontiguousarray(played[:, 0]))

    def _log(self, taken: int, seconds: float, waited: float) -> None:
        ledger = self._journaled.privatizer.ledger
        values = {
            "submissions": self.submissions,
            "lost": self.lost,
            "updates": self._aggregator.updates,
            "submissions_per_s": taken / seconds,
            "driver_share": 1.0 - waited / seconds,
            "agents_charged": ledger.users_charged,
            "users_left": self._journaled.privatizer.n_users - ledger.users_charged,
            "epsilon": ledger.epsilon(self.config.privacy_settings.get("delta", 0.0)),
        }
        if self._played:
            score = float(np.concatenate(self._played)[:, 0].mean())
            values |= self.config.score_metrics(self._score_tracker) | {SCORE.name: score, "failed": self._failed}
            self.metrics.log_value((ENV_RUNNER_RESULTS, EPISODE_RETURN_MEAN), score, window=1)
        for name, value in values.items():
            self.metrics.log_value((self.results_key, name), value, window=1)


class _Workers:
    """Runners of an algorithm; sends batches and returns every reply once.

    It calls the runners directly. RLlib's asynchronous requests cannot wait for the first reply, do not report the lost
    request, and may pass an argument to the wrong runner.

    A dead runner gets no batch until RLlib has restarted it; its batches are lost and not repeated.

    Args:
        group: RLlib's runners; without remote runners the local one plays.
        journaled: makes the runners' clients. in_flight: most batches per runner.
        limit: seconds per batch of a remote runner. After that the runner is killed and restarted, because an episode
            may be endless, and the batch is lost.
    """

    def __init__(self, group: EnvRunnerGroup, journaled: JournaledPrivatizer, in_flight: int, limit: float) -> None:
        self._group, self._journaled, self._in_flight, self._limit = group, journaled, in_flight, limit
        self._pending: dict[Any, tuple[int, Int64Array]] = {}
        # Start time of each busy runner's last batch.
        self._begun: dict[int, float] = {}
        self._played: list[Outcome] = []
        self._probed = 0.0
        self.waited = 0.0

    def free(self) -> dict[int, int]:
        """Return the number of batches of each runner with room for another one, idle runners first."""
        if self._group.num_remote_env_runners() == 0:
            return {} if self._played else {_LOCAL: 0}
        load = dict.fromkeys(self._group.healthy_env_runner_ids(), 0)
        for runner, _ in self._pending.values():
            if runner in load:
                load[runner] += 1
        return {runner: load[runner] for runner in sorted(load, key=load.__getitem__) if load[runner] < self._in_flight}

    def send(self, runner: int, batch: Batch) -> None:
        """Let a runner play a batch."""
        new_client = self._journaled.privatizer.new_client
        if runner == _LOCAL:
            started = time.perf_counter()
            reply = self._group.local_env_runner.report(batch, new_client)
            self.waited += time.perf_counter() - started
            self._played.append((batch.slots, reply))
            return
        actor = self._group._worker_manager.actors()[runner]
        if all(busy != runner for busy, _ in self._pending.values()):
            self._begun[runner] = time.monotonic()
        self._pending[actor.report.remote(batch, new_client)] = (runner, batch.slots)

    def outcomes(self) -> list[Outcome]:
        """Wait until a batch is played or lost; return all such batches.

        Raises RuntimeError if a runner refused a batch for a reason unrelated to agents.
        """
        played, self._played = self._played, []
        if played or not self._pending:
            return played
        started, pending = time.perf_counter(), list(self._pending)
        first_late = min(self._begun[runner] for runner, _ in self._pending.values()) + self._limit
        ready, _ = ray.wait(pending, num_returns=1, timeout=max(0.0, first_late - time.monotonic()))
        self.waited += time.perf_counter() - started
        outcomes: list[Outcome] = []
        for reference in ready:
            runner, slots = self._pending.pop(reference)
            self._begun[runner] = time.monotonic()
            refusal, reply = "", None
            try:
                reply = ray.get(reference)
            except RayTaskError as error:  # its last line, without Ray's traceback
                cause = getattr(error, "cause", None) or error
                refusal = (str(cause).strip().splitlines() or [type(cause).__name__])[-1]
            except RayError:
                self._group._worker_manager.set_actor_state(runner, healthy=False)
            if refusal:
                raise RuntimeError(f"runner {runner} refused a batch: {refusal}")
            outcomes.append((slots, reply))
        # Restart late runners; their batches are lost.
        now = time.monotonic()
        late = {runner for runner, _ in self._pending.values() if now - self._begun[runner] > self._limit}
        for runner in late:
            ray.kill(self._group._worker_manager.actors()[runner], no_restart=False)
            self._group._worker_manager.set_actor_state(runner, healthy=False)
        references = [each for each, (runner, _) in self._pending.items() if runner in late]
        return outcomes + [(self._pending.pop(reference)[1], None) for reference in references]

    def restore(self) -> list[int]:
        """Return the restarted runners; they need no state, as parameters come with every batch."""
        now = time.monotonic()
        complete = self._group.num_healthy_remote_env_runners() == self._group.num_remote_env_runners()
        if complete or now - self._probed < _PROBE_SECONDS:
            return []
        self._probed = now
        restored: list[int] = self._group.probe_unhealthy_env_runners()
        return restored

    def abandon(self) -> None:
        self._pending.clear()
        self._played.clear()
