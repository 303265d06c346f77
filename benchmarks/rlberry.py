"""Private-UCB-VI without and with central privacy: ours against rlberry-scool's UCBVI, which draws no noise.

rlberry needs other packages than dprl, so it has an environment of its own, made on the first run.
Run from the repository's root: python -m benchmarks.rlberry [--quick] [--json PATH]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import PRIVACY, Blocks, Model, Row, built, command_line, microseconds_per_episode, trust
from benchmarks.tabular import CASES, SUBJECTS
from dprl.envs import FiniteMDP

_HERE = Path(__file__).resolve().parent
_REQUIREMENTS = _HERE / "peers" / "requirements.txt"
_SCRIPT = _HERE / "peers" / "rlberry_ucb_vi.py"
_ENVIRONMENT = _HERE.parent / "build" / "peers" / "rlberry"
MODELS: tuple[Model, ...] = ("none", "jdp")


def peer_microseconds(mdp: FiniteMDP, blocks: Blocks) -> float:
    """Return the CPU microseconds per episode of rlberry-scool's UCBVI. Raises OSError, SubprocessError."""
    python = install()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mdp.npz"
        save(mdp, path)
        return float(run_command(python, "-I", _SCRIPT, path, *blocks).splitlines()[-1])


def save(mdp: FiniteMDP, path: Path) -> None:
    """Write the MDP, whose steps are all alike and whose episodes start in one state, for rlberry."""
    # Multiples of 2^-40, so that rows sum to 1 exactly; rlberry tolerates only 1e-15.
    rows = np.round(mdp.transitions[0] * 2.0**40) / 2.0**40
    largest = rows.argmax(axis=-1)[..., None]
    missing = 1.0 - rows.sum(axis=-1, keepdims=True)
    np.put_along_axis(rows, largest, np.take_along_axis(rows, largest, -1) + missing, -1)
    np.savez(path, transitions=rows, rewards=mdp.rewards[0], start=mdp.start.argmax(), horizon=mdp.horizon)


def install() -> Path:
    """Create the peer's environment if it is missing, and return its interpreter."""
    python, stamp = _ENVIRONMENT / "bin" / "python", _ENVIRONMENT / "installed"
    wanted = _REQUIREMENTS.read_text()
    if not (stamp.exists() and stamp.read_text() == wanted):
        print("installing rlberry into build/peers/rlberry (once, about a minute)", file=sys.stderr, flush=True)
        venv.create(_ENVIRONMENT, clear=True, with_pip=True)
        # --no-compile, because pip would spend longer on unused byte code than on the installation.
        run_command(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "-r", _REQUIREMENTS)
        stamp.write_text(wanted)
    return python


def run_command(*command: object) -> str:
    """Return what a command prints. Raises OSError, SubprocessError."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    words = [str(word) for word in command]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=900, check=True, env=environment).stdout


def measure(_: bool) -> Iterator[tuple[str, list[Row]]]:
    config, rows = next(iter(SUBJECTS)), list[Row]()
    try:
        for case in CASES:
            mdp = case.build()
            peer = peer_microseconds(mdp, case.peer)
            for model in MODELS:
                learner = built(config, mdp, trust(model))
                learner.learn(1)
                ours = microseconds_per_episode(learner.learn, case.ours)
                row = {"MDP": case.label, "privacy of ours": PRIVACY[model], "ours": ours, "rlberry": peer}
                rows.append(row | {"ratio": peer / ours})
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"rlberry not measured: {error}")
    yield "CPU microseconds per episode, ours and rlberry-scool's UCBVI", rows


if __name__ == "__main__":
    command_line(measure, __doc__)
