"""Input of the peer, and the one-line message if it is absent; `make bench` alone installs the peer."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peer_rlberry
from benchmarks.harness import Blocks
from dprl.envs import FiniteMDP


def homogeneous(rows: np.ndarray, start: np.ndarray, horizon: int = 3) -> FiniteMDP:
    rewards = np.linspace(0.0, 1.0, rows.shape[0] * rows.shape[1]).reshape(rows.shape[:2])
    return FiniteMDP("test", np.tile(rows, (horizon, 1, 1, 1)), np.tile(rewards, (horizon, 1, 1)), start)


def test_rows_sum_to_one_exactly() -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(20, 0.1), size=(20, 4))
    exact = peer_rlberry.exact_rows(rows)
    assert (exact.sum(axis=-1) == 1.0).all()
    assert (exact >= 0.0).all()
    assert np.abs(exact - rows).max() < 1e-10


def test_the_peer_gets_the_same_mdp(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).dirichlet(np.ones(4), size=(4, 2))
    mdp = homogeneous(rows, np.array([0.0, 0.0, 1.0, 0.0]))
    peer_rlberry.save(mdp, tmp_path / "mdp.npz")
    with np.load(tmp_path / "mdp.npz") as saved:
        assert np.allclose(saved["transitions"], rows)
        assert (saved["rewards"] == mdp.rewards[0]).all()
        assert saved["start"] == 2
        assert saved["horizon"] == 3


@pytest.mark.parametrize("fault", ["start", "steps"])
def test_an_mdp_that_the_peer_cannot_express_is_refused(fault: str, tmp_path: Path) -> None:
    rows = np.full((2, 2, 2), 0.5)
    mdp = homogeneous(rows, np.array([0.5, 0.5]) if fault == "start" else np.array([1.0, 0.0]))
    if fault == "steps":
        other = mdp.transitions.copy()
        other[1] = [1.0, 0.0]
        mdp = FiniteMDP("test", other, mdp.rewards, mdp.start)
    with pytest.raises(ValueError, match=r"^test: "):
        peer_rlberry.save(mdp, tmp_path / "mdp.npz")


def test_a_missing_peer_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text("import sys\nsys.exit('noise\\nERROR: no such package\\n')\n")
    monkeypatch.setattr(peer_rlberry, "install", lambda: Path(sys.executable))
    monkeypatch.setattr(peer_rlberry, "_SCRIPT", failing)
    mdp = homogeneous(np.full((2, 2, 2), 0.5), np.array([1.0, 0.0]))
    with pytest.raises(peer_rlberry.PeerUnavailableError) as raised:
        peer_rlberry.measure(mdp, Blocks(1))
    assert str(raised.value) == "ERROR: no such package"
