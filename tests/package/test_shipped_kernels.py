"""Kernels that came with the package run instead of the compiler, and draw the same bits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features

from dprl.kernel_cache import LEVELS

LEARNED = """
import hashlib, sys
from pathlib import Path
from dprl import kernel_cache
kernel_cache.SHIPPED = Path(sys.argv[1])
from dprl.algorithms import PrivateUCBVIConfig
from dprl.envs import RiverSwim
from dprl.privacy import CentralPrivacy, LocalPrivacy, Streams
mdp, digest = RiverSwim(n_states=4, horizon=5).build(), hashlib.sha256()
config = PrivateUCBVIConfig(bonus_scale=0.01, precision_scale=0.01)
for trust in (CentralPrivacy(1.0, mechanism="gaussian", delta=1e-6), CentralPrivacy(1.0), LocalPrivacy(1.0)):
    privatizer = config.privatizer(mdp, trust, 500, Streams(0, "shipped"))
    learner = config.build(mdp, privatizer, 500, Streams(0, "shipped"))
    learner.learn(400)
    for name, array in sorted(learner.state_dict().items()):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""


def _learned(cache: Path, shipped: Path, cpu: str | None = None) -> str:
    chosen = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""} if cpu else {}
    command = [sys.executable, "-P", "-c", LEARNED, str(shipped)]
    environment = {**os.environ, **chosen, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not get_host_cpu_features().get("fma"), reason="no kernels are shipped for this CPU")
def test_shipped_kernels_run_without_compiling_and_give_the_same_bits(tmp_path: Path) -> None:
    none = tmp_path / "none"
    native = _learned(tmp_path / "native", none)
    has = get_host_cpu_features()
    levels = [level for level, needed in LEVELS.items() if all(has.get(one) for one in needed)]
    for level in levels:
        assert _learned(tmp_path / level, none, level) == native
        shipped = tmp_path / level / "shipped"
        shipped.mkdir()
        for file in (tmp_path / level / "kernels").glob("*.kernel"):
            shutil.copy(file, shipped)
        own = tmp_path / f"user-{level}"
        assert _learned(own, shipped) == native
        assert not (own / "kernels").exists()
