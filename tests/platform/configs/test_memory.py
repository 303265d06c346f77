"""Memory of a cell: estimated from its sizes, refused before anything is built, and not part of its identity."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from dprl.envs import GAMES, MDPS
from dprl.platform.command_line import main
from dprl.platform.configs import memory
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.configs.memory import GB, build_bytes, machine_bytes, require_memory, run_bytes
from dprl.platform.errors import UserError
from tests.platform.processes import SMALL

GIB = 1024**3
LARGE = {"name": "random_mdp", "n_states": 2000, "n_actions": 2, "horizon": 12}


def cell(**settings: Any) -> Experiment:
    return read_experiment(SMALL | {"env": {"name": "riverswim"}} | settings)


@pytest.mark.parametrize("name", [*MDPS, *GAMES])
def test_sizes_are_those_of_what_is_built(name: str) -> None:
    spec: Any = {**MDPS, **GAMES}[name]()
    env = spec.build()
    horizon, n_states, n_actions = spec.sizes
    assert env.rewards.size == horizon * n_states * n_actions
    assert (env.horizon, env.n_states) == (horizon, n_states)
    mdp = getattr(env, "joint", env)
    assert (mdp.layers == 1) == (getattr(spec, "stationary", False) or horizon == 1)
    successors = getattr(spec, "n_successors", None)
    assert successors in (None, mdp.successors().shape[1])


def test_tables_counts_and_rows_of_noise_need_memory() -> None:
    assert build_bytes(cell(env=LARGE)) > 4 * GB > build_bytes(cell())
    assert run_bytes(cell(env=LARGE)) > build_bytes(cell(env=LARGE))
    rows = {"model": "jdp", "epsilon": 1.0, "delta": 1e-6, "counter": "buffered_toeplitz"}
    exact = {"privacy": rows, "noise": {"arithmetic": "exact"}}
    few, many = (run_bytes(cell(**exact, episodes=episodes)) for episodes in (100, 4000))
    assert many - few > 8 * 3900 * 20 * 6 * 2 * 8
    tree = rows | {"counter": "binary_tree"}
    assert run_bytes(cell(privacy=tree, episodes=10**9)) < 1 * GB


def test_few_next_states_need_little_memory() -> None:
    env = {"name": "garnet", "n_states": 200, "n_actions": 4, "branching": 2, "horizon": 5}
    few, every = (
        cell(
            algorithm={"name": "bernstein_vi", "known_transitions": known},
            env=env,
            privacy={"model": "ldp", "epsilon": 1.0},
        )
        for known in (True, False)
    )
    assert run_bytes(few) - build_bytes(few) < 0.1 * (run_bytes(every) - build_bytes(every))


def test_only_counts_are_held_for_every_state_and_action(monkeypatch: pytest.MonkeyPatch) -> None:
    network = {"name": "network_mdp", "horizon": 3, "n_intermediate": 1, "n_agents": 2, "dimension": 2}
    sums = cell(algorithm={"name": "ma_ldp"}, env=network, privacy={"model": "ldp", "epsilon": 1.0, "delta": 1e-6})
    assert run_bytes(sums) == build_bytes(sums)
    counts = cell()
    assert run_bytes(counts) > build_bytes(counts)
    monkeypatch.delattr(type(counts.env), "sizes")  # as of a plugin
    assert run_bytes(counts) == build_bytes(counts)


def test_a_cell_that_does_not_fit_is_refused_with_a_remedy() -> None:
    require_memory([cell(), cell(memory=4)], run=True)
    with pytest.raises(
        UserError, match=r"needs about .* GB, more than the 0.1 GB that its `memory` allows; .* or more `memory`$"
    ):
        require_memory([cell(), cell(memory=0.1)], run=False)
    with pytest.raises(UserError, match=r"memory: must be at most .* GB, the free memory of this machine, got"):
        require_memory([cell(memory=10 * machine_bytes() / GB)], run=True)
    require_memory([cell(memory=10 * machine_bytes() / GB)], run=True, here=False)


@pytest.mark.parametrize(
    ("files", "limit", "free"),
    [
        ({}, None, 6.0),
        ({"memory.max": "max", "memory.current": str(2 * GIB)}, None, 6.0),
        ({"memory.max": str(4 * GIB), "memory.current": str(3 * GIB)}, None, 1.0),
        (
            {"memory.max": str(4 * GIB), "memory.current": str(3 * GIB), "memory.stat": f"anon 1\ninactive_file {GIB}"},
            None,
            2.0,
        ),
        ({"memory.max": str(4 * GIB), "memory.current": str(GIB), "memory.stat": f"inactive_file {2 * GIB}"}, None, 4),
        ({"memory.max": str(100 * GIB)}, None, 6.0),
        ({}, 3 * GIB, 3.0),
    ],
)
def test_a_process_has_what_machine_container_and_ulimit_allow(
    files: dict[str, str], limit: int | None, free: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kilobytes = GIB // 1024
    files["meminfo"] = f"MemTotal: {8 * kilobytes} kB\nMemFree: 1 kB\nMemAvailable: {6 * kilobytes} kB\n"
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(memory, "Path", lambda path: tmp_path / ("meminfo" if "proc" in path else ""))
    most = resource.RLIM_INFINITY if limit is None else limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (most, most))
    assert machine_bytes() / GIB == free


def test_memory_is_no_part_of_what_a_cell_is() -> None:
    assert cell(memory=4).digest == cell().digest
    assert cell(memory=4).streams_context == cell().streams_context
    assert "memory: 4" in cell(memory=4).to_yaml()


@pytest.mark.parametrize("words", [["certify"], ["run"], ["sweep"], ["sweep", "--dry-run"], ["audit"]], ids=" ".join)
def test_nothing_is_built_that_does_not_fit(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dprl.platform.configs.memory.machine_bytes", lambda: 1 * GB)
    monkeypatch.setattr("dprl.envs.RandomMDP.build", lambda _: pytest.fail("built"))
    env = "env={name: random_mdp, n_states: 2000, n_actions: 2, horizon: 12}"
    assert main([words[0], "smoke", *words[1:], "--set", env]) == 2
    assert "GB that this machine has" in capsys.readouterr().err
