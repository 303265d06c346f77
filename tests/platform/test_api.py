"""The Python API: objects of config files, and results of a finished sweep."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import dprl
from dprl.algorithms import ALGORITHMS
from dprl.envs import ENVIRONMENTS, RiverSwim
from dprl.platform.configs.config import load_cells
from dprl.privacy import CountPrivacy

TINY: dict[str, Any] = {"env": {"name": "riverswim", "n_states": 3, "horizon": 3}, "episodes": 300, "seeds": 2}
GRID: dict[str, Any] = {
    **TINY,
    "algorithm": "private_ucb_vi",
    "privacy": dprl.grid({"model": "none"}, dprl.grid(model="jdp", epsilon=[1.0, 4.0])),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dprl.Sweep:
    return dprl.run(GRID, name="api", storage=tmp_path_factory.mktemp("home"), quiet=True)


def test_importing_it_loads_nothing() -> None:
    program = "import sys, dprl; sys.exit(any(name in sys.modules for name in ('numpy', 'numba', 'ray', 'mlflow')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert set(dprl.__all__) <= set(dir(dprl))
    assert all(getattr(dprl, name) is not None for name in dprl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'sweeps'"):
        dprl.sweeps  # noqa: B018


def test_yaml_and_python_make_the_same_experiments(tmp_path: Path) -> None:
    file = tmp_path / "python.yaml"
    file.write_text(
        "algorithm: {name: private_ucb_vi}\nenv: {name: riverswim, n_states: 3, horizon: 3}\nepisodes: 300\nseeds: 2\n"
        "privacy: {grid_search: [{model: none}, {model: jdp, epsilon: {grid_search: [1.0, 4.0]}}]}\n"
    )
    expected = load_cells(file)
    riverswim: Any = ENVIRONMENTS["riverswim"]
    objects = {"env": riverswim(n_states=3, horizon=3), "algorithm": ALGORITHMS["private_ucb_vi"]()}
    assert dprl.experiments(file) == dprl.experiments(str(file)) == expected
    assert dprl.experiments(**GRID) == dprl.experiments(GRID) == dprl.experiments(GRID | objects) == expected
    assert dprl.experiments(expected) == expected
    assert dprl.experiments(expected[1]) == expected[1:2]
    again = tmp_path / "again.yaml"
    again.write_text(expected[1].to_yaml())
    assert dprl.experiments(again) == expected[1:2]


def test_settings_replace_those_of_a_config() -> None:
    privacy = CountPrivacy("jdp", 2.0, 1e-6, counter="auto")
    changed = dprl.experiments(
        config=GRID, seeds=np.int64(3), privacy=privacy, algorithm=dprl.grid("pucb", "private_ucb_vi")
    )
    assert [(cell.algorithm.name, cell.privacy, cell.seeds) for cell in changed] == [
        (name, privacy, 3) for name in ("pucb", "private_ucb_vi")
    ]
    assert GRID["seeds"] == 2


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"env": "riverswin"}, r"^env\.name: must be a registered name, got 'riverswin'; did you mean 'riverswim'"),
        ({"epsiodes": 3}, "^epsiodes: unknown key; did you mean 'episodes'"),
        ({"privacy": {"model": "jdp"}}, "^privacy.epsilon: is required, got nothing; "),
        (
            {"privacy": {"model": "ldp", "epsilon": 1.0, "mechanism": "gaussian"}},
            r"^ldp epsilon=1: privacy.mechanism: must have pure privacy without a delta.* delta: 1e-6",
        ),
    ],
)
def test_mistakes_are_one_line(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(dprl.UserError, match=line) as caught:
        dprl.certify(GRID, **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values", [[1, 3], (1, 3), range(1, 4, 2), np.array([1, 3]), pd.Series([1, 3], index=[7, 8]), np.array([1.0, 3.0])]
)
def test_a_grid_takes_any_sequence(values: Any) -> None:
    found = dprl.grid(model="jdp", epsilon=values)
    assert found == {"model": "jdp", "epsilon": {"grid_search": [1, 3]}}
    assert {type(each) for each in found["epsilon"]["grid_search"]} <= {int, float}
    cells = dprl.experiments(**TINY, algorithm="private_ucb_vi", privacy=found)
    assert [cell.privacy.epsilon for cell in cells] == [1.0, 3.0]


def test_a_grid_of_arrays_is_refused_in_one_line() -> None:
    with pytest.raises(dprl.UserError, match=r"^grid: epsilon: must be values of 1 dim.*shape \(2, 1\)"):
        dprl.grid(epsilon=np.ones((2, 1)))
    for values in (np.array([1, 3]), range(3)):
        with pytest.raises(dprl.UserError, match=r"^grid: must have values as alternatives, got .*; write grid\(\*val"):
            dprl.grid(values)
    with pytest.raises(dprl.UserError, match=r"^episodes: must be a whole number, got \[10, 20\]"):
        dprl.experiments(**{**TINY, "episodes": np.array([10, 20])}, algorithm="private_ucb_vi", privacy="none")


def test_a_grid_needs_alternatives_or_settings() -> None:
    assert dprl.grid(model="jdp", epsilon=(1, 2), delta=1e-6) == {
        "model": "jdp",
        "epsilon": {"grid_search": [1, 2]},
        "delta": 1e-6,
    }
    for arguments, settings in (((), {}), ((1,), {"model": "jdp"})):
        with pytest.raises(dprl.UserError, match=r"^grid: needs either alternatives or settings"):
            dprl.grid(*arguments, **settings)
    with pytest.raises(dprl.UserError, match=r"^settings: go with a config file or a mapping, got "):
        dprl.experiments(dprl.experiments(GRID), seeds=1)


def test_numpy_scalars_are_plain_values() -> None:
    given: list[dict[str, Any]] = [{"success_rate": np.float64(0.5)}, {"is_slippery": np.bool_(False)}]
    for kwargs in given:
        written = dprl.from_gymnasium("FrozenLake-v1", horizon=6, **kwargs)
        assert "np." not in written.kwargs
        assert dprl.from_gymnasium(gymnasium.make("FrozenLake-v1", **kwargs), horizon=6).table == written.table
    env = dprl.from_gymnasium("FrozenLake-v1", horizon=np.int64(6))  # type: ignore[arg-type]
    river = RiverSwim(n_states=np.int64(4), horizon=np.int64(6))  # type: ignore[arg-type]
    for each in (env, river):
        assert dprl.experiments(GRID, env=each)[0].env.sizes[0] == 6  # type: ignore[attr-defined]


def test_gymnasium_environments_are_those_of_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    made = gymnasium.make("FrozenLake-v1", is_slippery=False)
    lake = dprl.from_gymnasium(made, horizon=7)
    assert dprl.from_gymnasium("FrozenLake-v1", horizon=7, is_slippery=False).build().optimal_start_value() == 1.0
    assert lake.build().optimal_start_value() == 1.0
    assert dprl.from_gymnasium(made, horizon=7, is_slippery=True).build().optimal_start_value() < 0.5
    assert capsys.readouterr().err == ""
    assert dprl.from_gymnasium("CliffWalking-v1", horizon=15).horizon == 15
    assert (
        capsys.readouterr().err
        == "CliffWalking-v1: mean rewards from -100 to 0 are mapped to 0 to 1; regret is in these units\n"
    )
    section = {"name": "gymnasium", "env_id": "FrozenLake-v1", "horizon": 7, "kwargs": lake.kwargs}
    assert dprl.experiments(GRID, env=lake) == dprl.experiments(GRID, env=section)
    assert dprl.from_gymnasium("FrozenLake-v1").horizon == 100
    for seven in ({"max_episode_steps": 7}, {"max_episode_steps": np.int64(7)}):
        assert dprl.from_gymnasium("FrozenLake-v1", **seven).horizon == 7
    assert dprl.from_gymnasium(gymnasium.make("FrozenLake-v1", max_episode_steps=7)).horizon == 7
    assert dprl.from_gymnasium(gymnasium.make("FrozenLake-v1", max_episode_steps=150)).horizon == 150
    for name, line in (
        ("CartPole-v1", "^env: env_id must be an environment with a table"),
        ("X-v0", "^env: env_id must be an env.* write module:Id-v0, or name its module in DPRL_PLUGINS"),
        ("no_such_module:X-v0", "^env: env_id must name a module that can be imported"),
    ):
        with pytest.raises(dprl.UserError, match=line):
            dprl.from_gymnasium(name, horizon=5)
    changed: Any = gymnasium.make("FrozenLake-v1", desc=["SFG"])
    assert dprl.from_gymnasium(changed, horizon=3).sizes == (3, 3, 4)
    changed.unwrapped.P[1][2] = [(1.0, 1, 0.0, False)]
    with pytest.raises(dprl.UserError, match=r"^env: must have the table that gymnasium\.make gives its id again"):
        dprl.from_gymnasium(changed, horizon=3)
    for env in ("FrozenLake-v1", made):
        with pytest.raises(dprl.UserError, match=r"^env: must be a name .* write from_gymnasium\("):
            dprl.experiments(GRID, env=env)
    with pytest.raises(
        dprl.UserError, match=r"^horizon: is required, as the environment has none, got None; write e\.g\. h"
    ):
        dprl.from_gymnasium("CliffWalking-v1")
    unregistered: Any = type(made.unwrapped)()
    with pytest.raises(
        dprl.UserError,
        match=r"^env: must be an id or an environment registered .*, got an object of .*; call gymnasium\.register",
    ):
        dprl.from_gymnasium(unregistered, horizon=3)
    with pytest.raises(
        dprl.UserError, match=r"^env: env_id must be an environment without wrappers .* in TransformReward"
    ):
        dprl.from_gymnasium(gymnasium.wrappers.TransformReward(made, float), horizon=3)
    capsys.readouterr()
    dprl.from_gymnasium("FrozenLake-v1", horizon=2)
    assert capsys.readouterr().err == "FrozenLake-v1: every policy earns the same in 2 steps; raise horizon\n"


def test_environments_of_your_own_are_registered_and_registered_again() -> None:
    for steps in (30, 20):
        assert dprl.register_env("Own-v0", lambda: gymnasium.make("CartPole-v1"), max_episode_steps=steps) == "Own-v0"
    control = {"algorithm": {"name": "dppg"}, "privacy": {"model": "none"}, "episodes": 200, "seeds": 1}
    made: Any = dprl.experiments(control, env={"name": "control", "env_id": "Own-v0", "horizon": 20})
    assert made[0].env.build().observation_size == 4
    with pytest.raises(dprl.UserError, match=r"^env\.horizon: must be at most 20 with Own-v0, got 21"):
        dprl.experiments(control, env={"name": "control", "env_id": "Own-v0", "horizon": 21})
    with pytest.raises(dprl.UserError, match=r"^name: must be an id of Gymnasium .* write e\.g\. MyShop-v0"):
        dprl.register_env("no id at all", lambda: gymnasium.make("CartPole-v1"))


def test_certificates_are_those_of_the_runs(found: dprl.Sweep) -> None:
    planned = dprl.certify(GRID)
    assert [one.verdict for one in planned] == ["unbounded", "holds", "holds"]
    for number, one in enumerate(planned):
        written = found.certificate(number)
        assert written["proved"] == one.to_dict()["proved"]
        assert written["verdict"] == one.verdict


def test_an_audit_is_a_table_of_lower_bounds() -> None:
    table = dprl.audit(GRID, runs=2000, privacy={"model": "jdp", "epsilon": 1.0})
    assert {"cell", "name", "claimed", "proved", "measured", "verdict"} == set(table)
    assert (table["measured"].dropna() <= 1.0).all()
    assert set(table["verdict"]) == {"not refuted"}


def test_a_sweep_has_frame_records_policies_and_figures(found: dprl.Sweep) -> None:
    assert found.frame["privacy.model"].tolist() == ["none", "jdp", "jdp"]
    assert found.failed == ()
    assert [found.experiment(number).digest for number in range(3)] == found.frame["cell"].tolist()
    assert set(found.records(1)["seed"]) == {0, 1}
    assert found.policy(2, seed=1).env == found.experiment(2).env
    for number, name in ((0, "none"), (1, "jdp epsilon=1"), (2, found.frame["cell"][2])):
        assert found.certificate(name) == found.certificate(number)
    assert "frontier" in found.figures
    figure = found.plot("frontier", style="slides", width=6.0, height=4.5)
    assert isinstance(figure, Figure)
    assert figure.get_size_inches() == pytest.approx((6.0, 4.5))
    assert found.report().is_file()
    assert str(found).startswith("api\ncell ")
    assert "jdp epsilon=1" in str(found)
    assert "jdp epsilon=1" in found._repr_html_()
    assert repr(found) == f"<Sweep api: 3 cells done, {found.folder}>"
    row = "must be a row of frame, 0 to 2, or the label or digest of one cell"
    for call, line in (
        (lambda: found.certificate(3), f"^cell: {row}, got 3; valid: none, jdp epsilon=1, jdp epsilon=4$"),
        (lambda: found.policy("jdp"), f"^cell: {row}, got 'jdp'; .*valid: none, jdp epsilon=1, jdp epsilon=4"),
        (lambda: found.certificate(1.0), f"^cell: {row}, got 1.0; "),  # type: ignore[arg-type]
        (lambda: found.plot(width=-1.0), r"^width: must be a number of inches in \(1.5, 40.0\), got -1.0; "),
        (lambda: found.plot(height=1.0), r"^height: must be a number of inches in \(1.5, 40.0\), got 1.0; "),
        (lambda: found.plot(width="3.3"), "^width: must be a number of inches"),  # type: ignore[arg-type]
        (lambda: found.plot("frontiers"), "^figure: must be a figure of api, got 'frontiers'; did you mean"),
        (lambda: found.plot(style="poster"), "^style: must be paper or slides, got 'poster'; "),
    ):
        with pytest.raises(dprl.UserError, match=line):
            call()


def test_a_sweep_is_loaded_by_name_and_resumed_by_the_same_call(found: dprl.Sweep) -> None:
    home = found.layout.home
    loaded = dprl.load("api", storage=home)
    assert loaded.frame.equals(found.frame)
    assert dprl.load(found.folder, storage=home.parent).frame.equals(found.frame)
    before = (found.folder / "cells" / loaded.frame["cell"][0] / "records.parquet").stat().st_mtime_ns
    again = dprl.run(GRID, name="api", storage=home, quiet=True)
    assert again.frame.drop(columns="seconds", errors="ignore").equals(
        found.frame.drop(columns="seconds", errors="ignore")
    )
    assert (found.folder / "cells" / loaded.frame["cell"][0] / "records.parquet").stat().st_mtime_ns == before
    with pytest.raises(dprl.UserError, match=r"^SWEEP: must be a sweep in "):
        dprl.load("none_such", storage=home)


def test_a_sweep_without_a_finished_cell_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no room left")

    with monkeypatch.context() as patched:
        patched.setattr("dprl.platform.sweeps.cell.CellRun.advance", fails)
        with pytest.raises(dprl.UserError, match=r"^failing: no cell was finished: .*no room left"):
            dprl.run(GRID, name="failing", storage=tmp_path, quiet=True)
    with pytest.raises(dprl.UserError, match=r"^SWEEP: must be finished, and has no finished cell, got 'failing'; "):
        dprl.load("failing", storage=tmp_path)


def test_one_certificate_is_verified_at_a_time(found: dprl.Sweep, tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    file.write_text(json.dumps([found.certificate(1), found.certificate(2)]))
    with pytest.raises(dprl.UserError, match=r"^certificate: must be one certificate, got 2; verify them one by one"):
        dprl.verify(file)
    with pytest.raises(dprl.UserError, match=r"^CERT: must be a path, a mapping or a Certificate, got 3; name a cert"):
        dprl.verify(3)  # type: ignore[arg-type]


def test_sizes_of_planned_counts_are_whole_numbers() -> None:
    sizes: dict[str, Any] = {"epsilon": 1.0, "horizon": 3}
    assert dprl.certify(users=10.0, **sizes)[0].to_dict() == dprl.certify(users=10, **sizes)[0].to_dict()
    with pytest.raises(
        dprl.UserError,
        match=r"^privacy\.mechanism: must have pure privacy without a delta, as laplace, .*got 'gaussian'",
    ):
        dprl.certify(users=10, mechanism="gaussian", **sizes)
    with pytest.raises(dprl.UserError, match=r"^users: must be a whole number from 1 to \d+, got 0; choose one in th"):
        dprl.certify(users=0, **sizes)


@pytest.mark.slow
@pytest.mark.cluster
def test_on_ray_the_records_are_the_same(found: dprl.Sweep, tmp_path: Path) -> None:
    on_ray = dprl.sweep(GRID, name="api", storage=tmp_path, quiet=True)
    for number in range(3):
        assert on_ray.records(number).equals(found.records(number))
