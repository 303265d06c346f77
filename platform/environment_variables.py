"""Environment variables that Ray and MLflow read when they are imported, and those that dprl reads."""

from __future__ import annotations

import os
from pathlib import Path

from dprl.platform.errors import broken_rule
from dprl.sources import VARIABLE as PLUGINS_VARIABLE

_CPU_VARIABLE = "DPRL_NUM_CPUS"

_DRIVER_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Workers that Ray starts in advance would stay idle, because Tune needs workers with another environment.
    "RAY_prestart_worker_first_driver": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # The newer output prints a table even in silent mode.
    "RAY_AIR_NEW_OUTPUT": "0",
    # Ctrl-C ends the sweep: cells resume from their own checkpoints, so Tune has nothing to save.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # The defaults retry for minutes: a wrong address must be reported at once. The exporter repeats a failed request,
    # and first looks for a run whose answer was lost; MLflow would make it twice.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
EXPERIMENT_VARIABLE = "MLFLOW_EXPERIMENT_NAME"
"""Names the MLflow experiment of all sweeps, as for every client of MLflow."""


def set_environment(prefix: str = "") -> None:
    """Keep Ray and MLflow quiet, private and quick to fail, unless the user has set these variables.

    Call it before either is imported. prefix: of the variables to set, such as 'MLFLOW_'.
    """
    for name, value in _DRIVER_ENVIRONMENT.items():
        if name.startswith(prefix):
            os.environ.setdefault(name, value)


def worker_environment() -> dict[str, str]:
    """Return the variables for processes that run one cell, so that they find the same plugins."""
    found = {"OMP_NUM_THREADS": "1", "RAY_CHDIR_TO_TRIAL_DIR": "0"}
    if plugins := os.environ.get(PLUGINS_VARIABLE):
        folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        absolute = os.pathsep.join(str(Path(folder).absolute()) for folder in folders)
        found |= {PLUGINS_VARIABLE: plugins, "PYTHONPATH": absolute}
    return found


def tracking_uri(given: str | None) -> str | None:
    """Return the address of MLflow's store: `given`, or else that of the variable that MLflow reads."""
    return given or os.environ.get("MLFLOW_TRACKING_URI") or None


def cpu_limit() -> int | None:
    """Return the number of CPUs that the user allows, None for all. Raises UserError."""
    text = os.environ.get(_CPU_VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise broken_rule(_CPU_VARIABLE, "must be a whole number of at least 1", text, "unset it to use all CPUs")
    return int(text)
