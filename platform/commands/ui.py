"""`dprl ui`: MLflow's pages on the store of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Annotated

from dprl.platform.commands.base import Storage, say, whole
from dprl.platform.errors import EXIT_INTERRUPTED, EXIT_SOME_FAILED, UserError, broken_rule, print_error
from dprl.platform.program import command

_UI_HOST = "127.0.0.1"


def ui(*, port: Annotated[int, whole(1, 65535, "TCP port")] = 5000, storage: Storage = None) -> int:
    """Open MLflow's web pages on the results, until it is interrupted."""
    from dprl.platform.results.home import Home, home_folder
    from dprl.platform.tracking.store import TrackingStore, runs_page

    home = Home(home_folder(storage, written=False).resolve())
    database = home.database
    if not database.is_file():
        remedy = f"run `{command('sweep', 'smoke')}` first; runs at $MLFLOW_TRACKING_URI are shown by its own server"
        raise UserError(f"{database}: file not found; {remedy}")
    page = runs_page(database)
    with socket.socket() as probe:
        # Like the server; otherwise a port that was in use a minute ago would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_UI_HOST, port))
        except OSError as error:
            rule, remedy = f"must be free ({error.strerror})", "choose another, e.g. --port 5001"
            raise broken_rule("--port", rule, port, remedy) from None
    # One worker and no job runners: each is a process of 200 MB, and looking at results needs neither.
    quiet = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore",
    }
    # Otherwise MLflow's server would import from the current folder, and a click.py there would break it.
    environment = quiet | os.environ | {"PYTHONSAFEPATH": "1"}
    words = ["-m", "mlflow", "ui", "--backend-store-uri", TrackingStore.choose(home.path, None).uri]
    words += ["--host", _UI_HOST, "--port", str(port), "--workers", "1"]
    # Uvicorn would log every request, and end on Ctrl-C with a traceback.
    words += ["--uvicorn-opts", "--log-level warning --lifespan off"]
    say(f"MLflow UI  http://{_UI_HOST}:{port}{page}   (all sweeps; starts in some seconds, stop with Ctrl-C)")
    say("           open the sweep with [+], tick cells, Compare; a metric's name shows its curves")
    # A group of its own, because MLflow starts the server as another process and would not end it.
    with subprocess.Popen([sys.executable, "-P", *words], env=environment, start_new_session=True) as server:
        try:
            server.wait()
            print_error("dprl: MLflow's server has ended; its messages are above")
            return EXIT_SOME_FAILED
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
