"""Program of a submitted job on the cluster: `python3 -m dprl.platform.submitted_job WORDS` runs `dprl sweep WORDS`.

Until Ray's own interpreter is found, this may be any Python 3 on the node's PATH, so nothing else is imported before.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

_WORKER_COMMAND = "--python_worker_command="
_PROC = Path("/proc")


def run() -> int:
    """Run `dprl sweep` with the words of the command line, if this machine can."""
    python = interpreter_of_ray(_PROC, os.getppid())
    if python is not None and python != sys.executable:
        os.execv(python, [python, "-P", "-m", "dprl.platform.submitted_job", *sys.argv[1:]])
    # Imported here because they need packages, and the Python version of this code.
    from dprl.platform.command_line import main  # noqa: PLC0415
    from dprl.platform.errors import EXIT_BAD_INPUT, UserError  # noqa: PLC0415
    from dprl.platform.submission.requirements import require_dependencies  # noqa: PLC0415

    try:
        require_dependencies()
    except UserError as error:
        sys.stderr.write(f"dprl: {error}\n")
        return EXIT_BAD_INPUT
    config, *words = sys.argv[1:]
    words = ["sweep", str(Path(config).absolute()), *words]
    # Ray may replace the job's folder for another node on this machine, and this process would lose its current folder.
    os.chdir(tempfile.gettempdir())
    return main(words)


def interpreter_of_ray(proc: Path, pid: int) -> str | None:
    """Return the Python of Ray's workers if a raylet is an ancestor of process `pid`, else None.

    A node may be started by `/path/to/.venv/bin/ray start`, without that environment being active.
    """
    while pid > 1:
        try:
            words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
            # The name, in brackets, may itself contain brackets and spaces.
            pid = int((proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
        for word in words:
            _, flag, command = word.decode(errors="replace").partition(_WORKER_COMMAND)
            if flag:
                python = next(iter(shlex.split(command)), "")
                return python if os.path.isabs(python) and os.access(python, os.X_OK) else None  # noqa: PTH117
    return None


if __name__ == "__main__":
    sys.exit(run())
