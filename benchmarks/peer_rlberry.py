"""rlberry-scool's UCBVI on the same MDP, in a separate environment because it needs other packages than dprl."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Blocks
from dprl.envs import FiniteMDP

_HERE = Path(__file__).resolve().parent
_REQUIREMENTS = _HERE / "peers" / "requirements.txt"
_SCRIPT = _HERE / "peers" / "rlberry_ucb_vi.py"
_ENVIRONMENT = _HERE.parent / "build" / "peers" / "rlberry"
NO_PEERS = {"--no-peers": {"action": "store_true", "help": "do not install and run other programs"}}
_INSTALL_SECONDS = 900
_RUN_SECONDS = 600


class PeerUnavailableError(Exception):
    """The peer cannot be measured on this machine; the message is one line."""


def measure(mdp: FiniteMDP, blocks: Blocks) -> tuple[str, float]:
    """Return name and version of rlberry-scool's UCBVI, and its CPU microseconds per episode.

    Raises PeerUnavailableError if it cannot be installed or run, ValueError for an MDP that it cannot express.
    """
    python = install()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mdp.npz"
        save(mdp, path)
        command = [str(python), "-I", str(_SCRIPT), str(path), str(blocks.episodes), str(blocks.repeats)]
        answer = json.loads(run_command(command, _RUN_SECONDS).splitlines()[-1])
    return answer["name"], float(answer["microseconds"])


def save(mdp: FiniteMDP, path: Path) -> None:
    """Write the MDP for the peer, which supports neither step-dependent dynamics nor our classes."""
    if (mdp.transitions != mdp.transitions[0]).any() or (mdp.rewards != mdp.rewards[0]).any():
        raise ValueError(f"{mdp.name}: rlberry's MDPs are the same at every step; repeat one step")
    if mdp.start.max() != 1.0:
        raise ValueError(f"{mdp.name}: the comparison starts in one state; give a start distribution of 0s and a 1")
    np.savez(
        path,
        transitions=exact_rows(mdp.transitions[0]),
        rewards=mdp.rewards[0],
        start=mdp.start.argmax(),
        horizon=mdp.horizon,
    )


def exact_rows(transitions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round to multiples of 2^-40 so that rows sum to 1 exactly; rlberry tolerates only 1e-15."""
    rounded = np.round(transitions * 2.0**40) / 2.0**40
    largest = rounded.argmax(axis=-1)[..., None]
    missing = 1.0 - rounded.sum(axis=-1, keepdims=True)
    np.put_along_axis(rounded, largest, np.take_along_axis(rounded, largest, -1) + missing, -1)
    return rounded


def install() -> Path:
    """Create the peer's environment if it is missing, and return its interpreter."""
    python, stamp = _ENVIRONMENT / "bin" / "python", _ENVIRONMENT / "installed"
    wanted = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    print("installing rlberry into build/peers/rlberry (once, about a minute)", file=sys.stderr, flush=True)
    try:
        venv.create(_ENVIRONMENT, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerUnavailableError(f"no virtual environment: {_last_line(str(error))}") from error
    # --no-compile, because pip would spend longer on unused byte code than on the installation.
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    run_command([*pip, "-r", str(_REQUIREMENTS)], _INSTALL_SECONDS)
    stamp.write_text(wanted)
    return python


def run_command(command: list[str], seconds: int) -> str:
    """Return what a command prints; raises PeerUnavailableError if it fails or takes longer."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True, env=environment)
    except subprocess.CalledProcessError as error:
        raise PeerUnavailableError(_last_line(error.stderr)) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailableError(_last_line(str(error))) from error
    return done.stdout


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1]
