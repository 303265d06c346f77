"""Users until a policy is good: DPPG by its defaults at epsilon 1 beside RLlib's PPO without privacy, trained by Tune.

Both have 64 x 64 tanh units. A score is the mean return of 20 episodes of most probable actions. The goal, 90 % of the
way from random actions to PPO's score, the mean of its last three, must be reached twice in a row. The median over 10
seeds has its exact 95 % interval; a run that ended before the goal counts as infinite.
Run from the repository's root, with one of the tasks below: python -m benchmarks.dppg CartPole-v1
Trials and the table are in ./dprl_runs/dppg (or $DPRL_HOME/dppg). The same command trains those that are missing.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from scipy.stats import quantile_test

from dprl.algorithms.dppg.on_rllib import DPPGConfig

SEEDS = 10
SCORE = "evaluation/env_runners/episode_return_mean"
UNITS = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
PRIVACY: dict[str, dict[str, Any]] = {
    "PPO": {},
    "DPPG, epsilon 1": {"model": "jdp", "epsilon": 1.0, "delta": 1e-6},
    "DPPG, no privacy": {"model": "none"},
}
LARGE: dict[str, Any] = {"vf_clip_param": math.inf, "lr": 1e-3}  # RLlib clips squared errors of values at 10
PENDULUM = LARGE | {"gamma": 0.9, "minibatch_size": 64}
LANDER = LARGE | {"gamma": 0.999, "lambda_": 0.98, "minibatch_size": 256, "num_epochs": 4, "entropy_coeff": 0.01}
# Score of random actions, users of DPPG, iterations of PPO, and settings of PPO for this task alone.
TASKS: dict[str, tuple[float, int, int, dict[str, Any]]] = {
    "CartPole-v1": (22.0, 5_000, 16, {}),
    "Acrobot-v1": (-500.0, 5_000, 30, {}),
    "LunarLander-v3": (-180.0, 5_000, 160, LANDER | {"num_envs_per_env_runner": 32}),
    "Pendulum-v1": (-1225.0, 10_000, 100, PENDULUM | {"train_batch_size_per_learner": 1024}),
}


def curves(task: str, algorithm: str, folder: Path) -> list[pd.DataFrame]:
    """Train once for each seed; return `users` and `score` of each run, without scores that RLlib's PPO repeats."""
    _, users, iterations, settings = TASKS[task]
    every, counted = max(1, iterations // 15), "env_runners/num_episodes_lifetime"
    config: Any
    if algorithm == "PPO":
        config = PPOConfig().training(lr=3e-4, num_epochs=6).rl_module(model_config=UNITS)
        config.env_runners(num_env_runners=0, num_envs_per_env_runner=8).update_from_dict(settings)
        config.evaluation(evaluation_config={"explore": False, "num_envs_per_env_runner": 20})
    else:
        config = DPPGConfig().privacy(**PRIVACY[algorithm]).training(n_submissions=users)
        iterations, every, counted = users // config.users_per_update, 2, "dppg/submissions"
    config.environment(task).evaluation(evaluation_interval=every, evaluation_duration=20)
    config.debugging(seed=tune.grid_search(list(range(SEEDS))))
    run = tune.RunConfig(algorithm, str(folder / task), stop={"training_iteration": iterations}, verbose=0)
    if tune.Tuner.can_restore(folder / task / algorithm):
        tuner = tune.Tuner.restore(str(folder / task / algorithm), config.algo_class, param_space=config)
    else:
        tuner = tune.Tuner(config.algo_class, param_space=config, run_config=run)
    found = [pd.DataFrame(result.metrics_dataframe).set_index("training_iteration") for result in tuner.fit()]
    return [x.loc[x.index % every == 0, [counted, SCORE]].set_axis(["users", "score"], axis=1).dropna() for x in found]


def needed(curve: pd.DataFrame, goal: float) -> float:
    """Return the users of the first of two scores in a row that reach the goal, inf if none do."""
    reached = curve["score"].to_numpy() >= goal
    first = np.flatnonzero(reached[:-1] & reached[1:])
    return float(curve["users"].iloc[first[0]]) if first.size else math.inf


def table(found: dict[str, list[pd.DataFrame]], random: float) -> pd.DataFrame:
    """Return a row for each algorithm: final score, users until PPO's goal by seed, their median and its interval."""
    finals = {name: np.mean([curve["score"].iloc[-3:].mean() for curve in each]) for name, each in found.items()}
    goal, rows = random + 0.9 * (float(finals["PPO"]) - random), []
    for name, each in found.items():
        users = sorted(needed(curve, goal) for curve in each)
        low, high = quantile_test(users, p=0.5).confidence_interval(0.95)
        row = {"algorithm": name, "score": finals[name], "goal": goal, "median": np.median(users)}
        rows.append(row | {"low": low, "high": high, "users by seed": users})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    task = parser.parse_args().task
    folder = Path(os.environ.get("DPRL_HOME", "dprl_runs")).resolve() / "dppg"
    runs = {name: curves(task, name, folder) for name in PRIVACY}
    rows = table(runs, TASKS[task][0])
    rows.to_csv(folder / f"{task}.csv", index=False)
    print(rows.to_string(index=False, float_format="{:,.0f}".format))
