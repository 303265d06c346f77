"""Program of a submitted job on the cluster: `python3 -m dprl.platform.submitted_job WORDS` runs `dprl sweep WORDS`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

_BAD_INPUT = 2


def run() -> int:
    """Run `dprl sweep` with the words of the command line, if this machine can."""
    try:
        # Imported here, because the python3 of the node may be another one.
        from dprl.platform.command_line import main  # noqa: PLC0415
    except (ImportError, SyntaxError) as error:
        remedy = "put the folder of Ray's python3 first on PATH before `ray start`"
        sys.stderr.write(f"dprl: node: {sys.executable} must have dprl's dependencies ({error}); {remedy}\n")
        return _BAD_INPUT
    config, *words = sys.argv[1:]
    words = ["sweep", str(Path(config).absolute()), *words]
    # Ray may replace the job's folder for another node on this machine, and this process would lose its current folder.
    os.chdir(tempfile.gettempdir())
    return main(words)


if __name__ == "__main__":
    sys.exit(run())
