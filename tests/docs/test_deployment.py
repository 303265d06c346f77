"""The example of docs/deployment in real processes, the server and every client killed at random moments."""

from __future__ import annotations

import json
import os
import random
import runpy
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.platform.deployment import load_deployment, server_privatizer, user_client
from dprl.privacy import LedgerError

AT_ONCE, PATIENCE = 3, 1500.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(script: Path, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", str(script), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def answer(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as found:
        return json.load(found)


@pytest.mark.parametrize("name", ["counts_ldp", "counts_jdp", "gradients_ldp"])
def test_the_configs_are_deployments(root: Path, name: str) -> None:
    experiment = load_deployment(root / "docs" / "deployment" / f"{name}.yaml")
    certificate = experiment.certificate().to_dict()
    assert certificate["verdict"] == "holds"
    assert {noise["entropy"] for noise in certificate["noise"]} == {"os"}


def test_a_client_sends_nothing_to_the_server_of_another_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = root / "docs" / "deployment"
    script, asked = runpy.run_path(str(example / "client.py")), list[str]()

    def call(url: str, content: bytes | None = None) -> Any:
        assert content is None
        asked.append(url)
        return {"run": "of another config", "task": []}

    monkeypatch.setitem(script["main"].__globals__, "call", call)
    with pytest.raises(SystemExit, match=r"^refused: the server must run the client's config"):
        script["main"](str(example / "counts_jdp.yaml"), "1", str(tmp_path), "http://server")
    assert asked == ["http://server/task"]
    assert not (tmp_path / "message").exists()
    client = user_client(load_deployment(example / "counts_jdp.yaml"), 1, tmp_path)
    assert client.left == 1


def test_a_gradient_of_the_clients_script_moves_the_servers_parameters(root: Path, tmp_path: Path) -> None:
    example = root / "docs" / "deployment"
    server, client = (runpy.run_path(str(example / f"{side}.py")) for side in ("server", "client"))
    experiment = load_deployment(example / "gradients_ldp.yaml")
    task = server["GradientTask"](experiment, str(tmp_path / "server"))
    sender, before = user_client(experiment, 1, tmp_path / "1"), task.task()
    record = client["gradient"](experiment, before, np.random.default_rng(0))
    assert task.server.receive_once(sender.submit(record))
    assert task.task() != before


@pytest.mark.parametrize(
    ("name", "words", "line"),
    [
        ("client.py", "", "arguments: must be CONFIG USER FOLDER URL, got ''; give a word for each"),
        ("server.py", "a b c d", "arguments: must be CONFIG FOLDER PORT, got 'a b c d'; give a word for each"),
        ("client.py", "missing.yaml 1 {folder} http://server", "config not found"),
        ("server.py", "missing.yaml {folder} 0", "config not found"),
        ("client.py", "{example}/counts_ldp.yaml 13 {folder} http://server", "user must lie in 1..12, got 13"),
        ("server.py", "{example}/counts_ldp.yaml {folder} 70000", "port must be 0-65535"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str, line: str
) -> None:
    example = root / "docs" / "deployment"
    script = runpy.run_path(str(example / name))
    with pytest.raises(SystemExit) as done:
        script["main"](*words.format(example=example, folder=tmp_path).split())
    assert done.value.code == 2
    printed = capsys.readouterr().err
    assert line in printed
    assert printed.count("\n") == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["counts_ldp", "counts_jdp", "gradients_ldp"])
def test_nobody_is_charged_twice_though_both_sides_are_killed(root: Path, tmp_path: Path, name: str) -> None:
    example = root / "docs" / "deployment"
    config, folder = example / f"{name}.yaml", tmp_path / "server"
    experiment = load_deployment(config)
    planned, chance = experiment.privatizer(), random.Random(7)
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def serve() -> subprocess.Popen[str]:
        process = start(example / "server.py", config, folder, port)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", line + process.communicate()[0]
        return process

    def join(user: int) -> subprocess.Popen[str]:
        return start(example / "client.py", config, user, tmp_path / str(user), url)

    server, deaths, users = serve(), 0, list(range(1, planned.n_users + 1))
    # Each user is killed once at least, so that some are killed at every line.
    kills = dict.fromkeys(users, 1)
    chance.shuffle(users)
    running: dict[int, tuple[subprocess.Popen[str], float]] = {}
    deadline, next_death = time.monotonic() + PATIENCE, time.monotonic() + 2.0
    while users or running:
        assert time.monotonic() < deadline
        while users and len(running) < AT_ONCE:
            running[users[-1]] = join(users[-1]), time.monotonic() + chance.uniform(1.0, 8.0)
            users.pop()
        for user, (process, end) in list(running.items()):
            if process.poll() is not None:
                assert process.returncode == 0, process.communicate()
                process.communicate()
                del running[user]
            elif kills[user] and time.monotonic() > end:
                kill(process)
                kills[user] -= 1
                running[user] = join(user), end
        # A server that adds noise ends with its process.
        if time.monotonic() > next_death and deaths < 4 and not planned.server_noise:
            kill(server)
            server, deaths, next_death = serve(), deaths + 1, time.monotonic() + chance.uniform(4.0, 12.0)
        time.sleep(0.02)
    certificate = answer(f"{url}/certificate")
    kill(server)

    clients = [user_client(experiment, user, tmp_path / str(user)) for user in range(1, planned.n_users + 1)]
    charged = sum(client.ledger.charged for client in clients)
    assert charged == planned.capacity
    assert all(client.waiting is None for client in clients)
    if planned.server_noise:
        counted = certificate["users"]
        if counted:  # else every client was killed between charge and message
            with pytest.raises(LedgerError, match="begin in another folder with new users"):
                server_privatizer(experiment, folder)
    else:
        final = server_privatizer(experiment, folder, lambda _: None, arrays_of(experiment))
        counted = sum(last - first + 1 for first, last in final._counted.to_array().tolist())
        assert counted == final.charged
        assert deaths >= 1
    # Lost is at most the one message that each kill of a client found between charge and disk.
    assert planned.capacity - planned.n_users <= counted <= charged
    assert certificate["verdict"] == "holds"
    assert (certificate["attempts"], certificate["users_asked_again"]) == (1, 0)
    assert certificate["users"] == min(counted, planned.n_users)


def arrays_of(experiment: Any) -> dict[str, Any]:
    dimension = getattr(experiment.privatizer().query, "dimension", 0)
    return {"parameters": np.zeros(dimension)} if dimension else {}
