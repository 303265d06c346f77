"""`dprl ui`: MLflow's pages on the store of this machine."""

from __future__ import annotations

import argparse
import os
import socket
import sys

from dprl.platform.commands.base import add_storage, say, whole_number
from dprl.platform.errors import UserError, broken_rule, print_error
from dprl.platform.program import command

HELP = "open MLflow's web pages on the results"
EXAMPLE = "ui --port 5001"
_UI_HOST = "127.0.0.1"
_PROBE_SECONDS = 2.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--port", metavar="N", default="5000", help="TCP port (default: 5000)")
    add_storage(parser)


def run(options: argparse.Namespace) -> int:
    """Replace this process with MLflow's UI on the store of this machine's sweeps."""
    from dprl.platform.results.home import Home, home_folder
    from dprl.platform.tracking.store import TrackingStore, runs_page

    port = whole_number("--port", options.port, (1, 65535), "write e.g. --port 5000")
    home = Home(home_folder(options.storage).resolve())
    elsewhere = _elsewhere() if options.storage is None else ""
    database = home.database
    if not database.is_file():
        remedy = elsewhere or f"run `{command('sweep', 'smoke')}` first"
        raise UserError(f"{database}: file not found; {remedy}")
    page = runs_page(database)
    _require_free(port)
    if elsewhere:
        print_error(f"dprl: {elsewhere}; these are the runs in {database}")
    say(f"MLflow UI  http://{_UI_HOST}:{port}{page}   (all sweeps; stop with Ctrl-C)")
    say("           open the sweep with [+], tick cells, Compare; a metric's name shows its curves")
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
    os.execve(sys.executable, [sys.executable, "-P", *words], environment)


def _elsewhere() -> str:
    """Return a sentence about the server that sweeps write their runs to, '' if that is this machine's store."""
    from dprl.platform.environment_variables import TRACKING_VARIABLE, tracking_uri
    from dprl.platform.tracking.redaction import without_secrets

    uri = tracking_uri(None)
    return "" if uri is None else f"${TRACKING_VARIABLE} sends the runs of sweeps to {without_secrets(uri)}"


def _require_free(port: int) -> None:
    """Raise UserError if something listens at `port`, also where the system would let two servers share it."""
    try:
        socket.create_connection((_UI_HOST, port), timeout=_PROBE_SECONDS).close()
    except OSError:
        pass  # nobody answers
    else:
        raise broken_rule("--port", "must be free", port, "something listens there: choose another, e.g. --port 5001")
    with socket.socket() as probe:
        # Like the server; otherwise a port that was in use a minute ago would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_UI_HOST, port))
        except OSError as error:
            raise UserError(
                f"--port: must be free, got {port} ({error.strerror}); choose another with --port"
            ) from None
