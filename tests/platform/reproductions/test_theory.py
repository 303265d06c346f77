"""Pages on bounds: exponents, cells of the configs, points that enter, and a page end to end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.reproductions.claims import Key, PaperCell
from dprl.platform.reproductions.engine import Request
from dprl.platform.reproductions.papers import CZ22, QW24
from dprl.platform.reproductions.theory import TheoryPaper, has_bent, value
from dprl.platform.sweeps.sweep import SweepOptions

PAPERS = [CZ22, QW24]
SEEDS = 4


def t(sizes: dict[str, float]) -> float:
    return sizes["K"] * sizes["H"]


BOUNDS: dict[tuple[str, str], Any] = {
    ("private_ucb_vi", "none"): lambda z: math.sqrt(z["S"] * z["A"] * z["H"] ** 3 * t(z)),
    ("private_ucb_po", "none"): lambda z: math.sqrt(z["S"] ** 2 * z["A"] * z["H"] ** 3 * t(z)),
    ("private_ucb_vi", "jdp"): lambda z: z["S"] ** 2 * z["A"] * z["H"] ** 3 / z["epsilon"],
    ("private_ucb_po", "jdp"): lambda z: z["S"] ** 2 * z["A"] * z["H"] ** 3 / z["epsilon"],
    ("private_ucb_po", "ldp"): lambda z: z["S"] ** 2 * z["A"] * math.sqrt(z["H"] ** 5 * t(z)) / z["epsilon"],
    ("private_ucb_vi", "ldp"): lambda z: z["S"] ** 2 * z["A"] * math.sqrt(z["H"] ** 5 * t(z)) / z["epsilon"],
    ("dp_nash_vi", "none"): lambda z: math.sqrt(z["H"] ** 2 * z["S"] * z["A"] * z["B"] * t(z)),
    ("dp_nash_vi", "jdp"): lambda z: z["H"] ** 3 * z["S"] ** 2 * z["A"] * z["B"] / z["epsilon"],
    ("dp_nash_vi", "ldp"): lambda z: z["S"] ** 2 * z["A"] * z["B"] * math.sqrt(z["H"] ** 5 * t(z)) / z["epsilon"],
}


@pytest.mark.parametrize(("algorithm", "model"), BOUNDS)
def test_exponents_are_those_of_the_printed_bounds(algorithm: str, model: str) -> None:
    (terms,) = (paper.terms[algorithm] for paper in PAPERS if algorithm in paper.terms)
    generator = np.random.default_rng(0)
    for _ in range(20):
        sizes = dict(zip("KHSAB", generator.uniform(1.0, 9.0, size=5), strict=True)) | {"epsilon": generator.random()}
        assert value(terms[model], sizes) == pytest.approx(BOUNDS[algorithm, model](sizes))


LEAST: dict[tuple[str, str], Any] = {
    ("cz22", "none"): lambda z: math.sqrt(z["H"] ** 2 * z["S"] * z["A"] * t(z)),
    ("cz22", "jdp"): lambda z: z["H"] * z["S"] * z["A"] / z["epsilon"],
    ("cz22", "ldp"): lambda z: math.sqrt(z["H"] * z["S"] * z["A"] * t(z)) / z["epsilon"],
    ("qw24", "none"): lambda z: math.sqrt(z["H"] ** 2 * z["S"] * (z["A"] + z["B"]) * t(z)),
    ("qw24", "jdp"): lambda z: z["H"] * z["S"] * (z["A"] + z["B"]) / z["epsilon"],
    ("qw24", "ldp"): lambda z: math.sqrt(z["H"] * z["S"] * (z["A"] + z["B"]) * t(z)) / z["epsilon"],
}


@pytest.mark.parametrize(("name", "model"), LEAST)
def test_lower_bounds_are_below_the_upper_ones(name: str, model: str) -> None:
    (paper,) = (paper for paper in PAPERS if paper.name == name)
    generator = np.random.default_rng(0)
    for _ in range(20):
        sizes = dict(zip("KHSAB", generator.uniform(2.0, 9.0, size=5), strict=True)) | {"epsilon": generator.random()}
        sizes["A+B"] = sizes["A"] + sizes["B"]
        found = value(paper.least[model], sizes)
        assert found == pytest.approx(LEAST[name, model](sizes))
        assert all(found <= value(terms[model], sizes) * (1 + 1e-12) for terms in paper.terms.values())


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_cell_of_the_config_is_one_of_the_page(paper: TheoryPaper) -> None:
    keys = [paper.key_of(cell) for cell in load_cells(paper.config)]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    base = paper.sized(paper.base)
    for key in keys:
        assert key is not None
        free = key._replace(mechanism="none", epsilon=math.inf)
        assert key.group not in paper.terms or free in keys, "an excess needs the run without privacy"
        varied = [axis for axis in paper.axes if paper.size(key, axis) != paper.base[axis]]
        assert len(varied) <= 1
        assert bool(varied) == (key.control != base)


def cells(exponents: dict[str, float]) -> dict[Key, PaperCell]:
    """Runs of [CZ22]'s config whose regret without privacy is 10 K^.5, with an excess of the given powers."""
    ends, found = np.unique(np.geomspace(1, 10**8, 60).astype(int)), {}
    for experiment in load_cells("cz22"):
        key = CZ22.key_of(experiment)
        assert key is not None
        generator = np.random.default_rng(list(key.control.encode()))
        x = key.setting * ends / 10**8
        curves = np.tile(10.0 * np.sqrt(x), (SEEDS, 1))
        if key.mechanism != "none":
            sizes = {axis: float(CZ22.size(key, axis)) for axis in CZ22.axes} | {"epsilon": key.epsilon}
            factor = value({name: power for name, power in exponents.items() if name != "K"}, sizes)
            noise = np.exp(0.01 * generator.normal(size=(SEEDS, 1)))
            curves = curves + factor * noise * x ** exponents["K"]
        certificate: dict[str, Any] = {"trust_model": key.mechanism, "excluded_channels": []}
        found[key] = PaperCell(
            {"regret": curves[:, -1]}, (key.setting * ends / 10**8).astype(np.int64), curves, certificate
        )
    return found


def test_known_exponents_are_found_and_others_are_excluded() -> None:
    powers = {"K": 0.3, "epsilon": -1.0, "H": 3.0, "S": 1.5, "A": 1.0}
    rows = CZ22.slopes(cells(powers))
    assert {row.axis for row in rows} == {"K", "epsilon", "H", "S", "A"}
    for row in rows:
        expected = 0.5 if row.quantity == "regret" else powers[row.axis]
        assert row.found.slope.value == pytest.approx(expected, abs=0.05)
        assert row.found.verdict != "not measurable"
        if row.quantity == "excess" and row.axis == "S":
            assert row.found.verdict == "below the term"
        if row.quantity == "excess" and row.axis == "K" and row.model == "jdp":
            assert row.found.verdict == "above the term"


def test_straight_curves_have_not_bent() -> None:
    ends = np.arange(1, 101) * 10
    straight, bent = np.tile(ends * 2.0, (3, 1)), np.tile(20.0 * np.sqrt(ends), (3, 1))
    assert not has_bent(PaperCell({}, ends, straight, {}))
    assert has_bent(PaperCell({}, ends, bent, {}))
    assert not has_bent(PaperCell({}, ends, bent, {}), episode=10.0)
    late = np.tile(np.where(ends < 500, ends * 0.1, 50.0 + (ends - 500) * 2.0), (3, 1))
    assert not has_bent(PaperCell({}, ends, late, {})), "a good first policy says nothing"


def test_without_bent_curves_there_are_no_slopes() -> None:
    flat = {
        key: PaperCell(cell.values, cell.ends, np.tile(cell.ends * 1.0, (SEEDS, 1)), cell.certificate)
        for key, cell in cells({"K": 0.3, "epsilon": -1.0, "H": 3.0, "S": 2.0, "A": 1.0}).items()
    }
    assert {row.found.verdict for row in CZ22.slopes(flat)} == {"not measurable"}


@pytest.mark.slow
def test_a_small_run_writes_a_page(tmp_path: Path) -> None:
    paper = QW24  # [CZ22]'s page takes the same path
    sweep = SweepOptions("", tmp_path, "process", None, None, fresh=False, command="test")
    found = paper(Request(sweep, quick=True, overrides=("episodes=3000", "seeds=3")))
    assert found.failed == []
    assert found.page is not None
    text = found.page.read_text()
    assert "not measurable" in text
    assert f"{paper.name}_slopes.png" in text
    assert (found.page.parent / f"{paper.name}_slopes.png").stat().st_size > 10_000
    assert len(found.data["slopes"]) + 1 == len(found.verdicts)
    assert {row["verdict"] for row in found.data["cells"]} == {"holds", "unbounded"}
