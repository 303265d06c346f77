"""Cells as Ray Tune runs them by default: every trial starts a separate process.

Run from the repository's root: python -m benchmarks.naive_sweep CONFIG HOME N
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from dprl.platform.configs.config import load_cells
from dprl.platform.environment_variables import set_environment
from dprl.platform.results.layout import SweepLayout


def main() -> None:
    """Run the first N cells of CONFIG; print the total seconds, those of their compute, and the CPUs."""
    set_environment()
    from ray import tune  # noqa: PLC0415 - reads its environment when it is imported

    from dprl.platform.sweeps.cluster import connected  # noqa: PLC0415
    from dprl.platform.sweeps.trial import CellTrial  # noqa: PLC0415

    config, home, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    cells = {cell.digest: cell for cell in SweepLayout(home, "many").cells(load_cells(config)[:count])}
    with connected(None) as here:
        begin = time.perf_counter()
        tune.Tuner(
            tune.with_parameters(CellTrial, cells=cells),
            param_space={"cell": tune.grid_search(list(cells))},
            tune_config=tune.TuneConfig(max_concurrent_trials=here.n_cpus),
            run_config=tune.RunConfig(
                storage_path=str(home / "tune"),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                verbose=0,
            ),
        ).fit()
        seconds = time.perf_counter() - begin
        print("seconds", seconds, sum(cell.folder.results().seconds for cell in cells.values()), here.n_cpus)


if __name__ == "__main__":
    main()
