"""The process of one user: `python client.py CONFIG USER FOLDER URL`. It may be killed at any moment and started again.

It asks for the task, makes a record, and sends its message until the server has acknowledged it.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from typing import Any

import numpy as np

from dprl.platform.deployment import load_deployment, start_of_script, user_client
from dprl.privacy import UserRecord


def call(url: str, content: bytes | None = None) -> Any:
    """Return the server's answer; wait while there is none."""
    while True:
        try:
            with urllib.request.urlopen(url, content, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"refused: {json.load(error)['error']}")
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.2)


def episode(experiment: Any, task: list[list[int]], rng: np.random.Generator) -> UserRecord:
    """Play one episode of a policy int64[H, S], and return its record. Put your own user here."""
    env, policy, cells, values = experiment.environment(), np.array(task), [], []
    losses = experiment.algorithm.families(env).families[2].name == "losses"
    state = rng.choice(env.n_states, p=env.start)
    for h in range(env.horizon):
        action = policy[h, state]
        pair, reward = state * env.n_actions + action, env.rewards[h, state, action]
        state = rng.choice(env.n_states, p=env.transitions[h, pair // env.n_actions, action])
        cells.append([state * env.n_states * env.n_actions + pair, pair, pair])
        values.append([1.0, 1.0, 1.0 - reward if losses else reward])
    return UserRecord(np.array(cells), np.array(values))


def gradient(_: Any, task: list[float], rng: np.random.Generator) -> np.ndarray:
    """Return the gradient of the squared distance to the user's own vector. Put your own model here."""
    return np.array(task) - rng.normal(size=len(task))


def main(*words: str) -> None:
    """Make all submissions of a user."""
    with start_of_script(words, "CONFIG USER FOLDER URL"):
        config, user, folder, url = words
        experiment = load_deployment(config)
        if getattr(experiment.algorithm, "known_transitions", False):
            raise ValueError("algorithm.known_transitions must be false in this example, got true; leave it out")
        client, rng = user_client(experiment, int(user), folder), np.random.default_rng()
    record = {"counts": episode, "gradients": gradient}[experiment.algorithm.releases]
    while client.left or client.waiting:
        offer = call(f"{url}/task")
        # Before anything is charged or sent: under jdp a message holds the raw record.
        if not client.takes_part_in(offer["run"]):
            sys.exit("refused: the server must run the client's config, got another run; compare both files")
        # One that waits is of a process that was killed.
        message = client.waiting or client.submit(record(experiment, offer["task"], rng), offer["run"])
        call(f"{url}/messages", message.to_json().encode())
        client.acknowledge(message)


if __name__ == "__main__":
    main(*sys.argv[1:])
