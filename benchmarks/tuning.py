"""Scales with least regret on training environments: `python -m benchmarks.tuning .../sweeps/tuning/summary.csv`.

The sweep is tune_configs/tuning.yaml; the printed scales are those of `preset: tuned`.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

_GAP = 1e-3  # added to the distances of offline policies from the optimum, which may be 0
SCALES = ["algorithm.bonus_scale", "algorithm.precision_scale"]


def ranked(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the scales of each algorithm by their regret, divided by its least regret in the same setting.

    A setting is an environment with a privacy budget; ratios are geometric means over settings.

    Args:
        cells: the rows of a sweep's summary.csv.
    """
    setting = cells.filter(regex=r"^(env|privacy)\.").apply(lambda row: str(row.to_dict()), axis=1)
    offline = cells["algorithm.name"] == "offline_vi"
    regret = np.log(cells["regret"].mask(offline, cells.get("optimum_gap", 0.0) + _GAP))
    excess = regret - regret.groupby([cells["algorithm.name"], setting]).transform("min")
    means = excess.groupby([cells["algorithm.name"], *(cells[scale] for scale in SCALES)]).agg(["mean", "size"])
    means["ratio"] = np.exp(means.pop("mean"))
    found: pd.DataFrame = means.reset_index().sort_values(["algorithm.name", "ratio"], ignore_index=True)
    return found


def chosen(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return the scales with the largest product and a regret within a tenth of the algorithm's least.

    Small scales do well if little must be explored; other environments may need more. Of equal products, the most
    similar scales are chosen, and then those with less regret.
    """
    least = ranks.groupby("algorithm.name")["ratio"].transform("min")
    close = ranks[ranks["ratio"] <= 1.1 * least]
    product = close[SCALES].prod(axis=1)
    largest = product.groupby(close["algorithm.name"]).transform("max")
    found = close[np.isclose(product, largest)]
    unlike = np.abs(np.log(found[SCALES[0]] / found[SCALES[1]])).round(6)
    order = found.assign(unlike=unlike).sort_values(["algorithm.name", "unlike", "ratio"])
    return order.drop(columns="unlike").groupby("algorithm.name").head(1)


if __name__ == "__main__":
    print(chosen(ranked(pd.read_csv(sys.argv[1]))).to_string(index=False, float_format="{:.4g}".format))
