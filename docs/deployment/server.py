"""The server's process: `python server.py CONFIG FOLDER PORT`. Under `ldp` it may be killed and started again.

GET /task: the run's name, and the policy or the parameters that the next user plays. POST /messages: one message; 200
says that it is counted. GET /certificate: the guarantee of all charges so far.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np

from dprl.platform.deployment import load_deployment, planner, server_privatizer, start_of_script
from dprl.privacy import LedgerError, PrivateMessages


class CountTask:
    """A policy planned from the last release of counts."""

    def __init__(self, experiment: Any, folder: str) -> None:
        self.server = server_privatizer(experiment, folder)
        self.learner = planner(experiment, self.server)
        self.users, self.policy = -1, list[Any]()

    def task(self) -> list[Any]:
        """Return the policy, planned again if there is a new release."""
        released = self.server.release()
        if released.users != self.users:
            self.users, self.policy = released.users, self.learner.plan(released).tolist()
        return self.policy


class GradientTask:
    """Parameters of a descent in private gradients; they are saved with the server's state."""

    def __init__(self, experiment: Any, folder: str) -> None:
        self.parameters, self.rate = (
            np.zeros(experiment.privatizer().query.dimension),
            experiment.algorithm.learning_rate,
        )
        self.server = server_privatizer(experiment, folder, self.step, {"parameters": self.parameters})

    def step(self, estimates: Any) -> None:
        """Take a step along the estimate of a message."""
        self.parameters -= self.rate * estimates[0]

    def task(self) -> list[float]:
        """Return the parameters, which are on the disk."""
        self.server.require_whole()
        return self.parameters.tolist()


class Handler(BaseHTTPRequestHandler):
    """Answers to clients."""

    server: Any
    timeout = 10  # a client that was killed keeps nobody waiting for long

    def do_GET(self) -> None:
        """Answer with the task or the certificate."""
        half = self.server.task.server
        try:
            if self.path == "/certificate":
                self.reply(200, half.certificate(self.server.algorithm).to_dict())
            else:
                self.reply(200, {"run": half.run, "task": self.server.task.task()})
        except LedgerError as error:  # a failed save: the server must be started again
            self.reply(503, {"error": str(error)})

    def do_POST(self) -> None:
        """Take a message."""
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self.reply(200, {"new": self.server.task.server.receive_once(PrivateMessages.from_json(text))})
        except (LedgerError, ValueError) as error:
            self.reply(400, {"error": str(error)})

    def reply(self, status: int, content: Any) -> None:
        """Answer with JSON."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: times of messages are a channel that no certificate covers."""


def main(*words: str) -> None:
    """Serve until the process is killed."""
    with start_of_script(words, "CONFIG FOLDER PORT"):
        config, folder, port = words
        experiment = load_deployment(config)
        server: Any = HTTPServer(("127.0.0.1", int(port)), Handler)  # one request at a time
        server.task = {"gradients": GradientTask}.get(experiment.algorithm.releases, CountTask)(experiment, folder)
    server.algorithm = experiment.algorithm.name
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
