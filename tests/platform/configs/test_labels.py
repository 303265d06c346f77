"""`label:` of cells and algorithms in a config."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from dprl.algorithms import BernsteinVIConfig, PrivateUCBVIConfig, PUCBConfig
from dprl.platform.configs.experiment import Experiment, labels_of, needed_keys, read_experiment
from dprl.platform.errors import UserError


def read(label: object = None, algorithm: object = None, **more: object) -> Experiment:
    raw: dict[str, Any] = {
        "name": "try",
        "algorithm": {"name": "private_ucb_vi"},
        "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
        "privacy": {"model": "jdp", "epsilon": 1.0},
        "episodes": 100,
        "seeds": 2,
        **more,
    }
    if label is not None:
        raw["label"] = label
    if algorithm is not None:
        raw["algorithm"]["label"] = algorithm
    return read_experiment(raw)


def test_labels_change_neither_digest_nor_noise() -> None:
    named, plain = read("our cell", "Ours"), read()
    assert (named.label, named.algorithm_label) == ("our cell", "Ours")
    assert named.digest == plain.digest
    assert named.streams_context == plain.streams_context
    assert named.parameters() == plain.parameters()


def test_labels_are_in_the_config_of_a_cell() -> None:
    named = read("\u03b5 = 1", "Ours")
    again = read_experiment(yaml.safe_load(named.to_yaml()))
    assert again == named
    assert labels_of([named])[0] == "\u03b5 = 1"


def test_the_label_of_an_algorithm_names_its_cells() -> None:
    privacy = [{"model": "none"}, {"model": "jdp", "epsilon": 2.0}]
    cells = [
        dataclasses.replace(read(algorithm=label, privacy=each), algorithm=PrivateUCBVIConfig(bonus_scale=scale))
        for label, scale in (("Paper", 1.0), ("Ours", 0.1))
        for each in privacy
    ]
    names = labels_of(cells)
    assert names == ["Paper none", "Paper jdp epsilon=2", "Ours none", "Ours jdp epsilon=2"]
    plain = [dataclasses.replace(cell, algorithm_label="") for cell in cells]
    assert labels_of(plain)[2] == "bonus_scale=0.1 none"


def test_other_lengths_of_runs_are_always_named() -> None:
    """Their regret does not compare, although the algorithm alone would distinguish them."""
    cells = [
        dataclasses.replace(read(), algorithm=algorithm, episodes=episodes)
        for algorithm, episodes in ((PUCBConfig(), 100), (BernsteinVIConfig(), 200))
    ]
    assert labels_of(cells) == [
        "pucb episodes=100",
        "bernstein_vi episodes=200",
    ]


@pytest.mark.parametrize("label", ["x" * 41, "x" * 41 + "\n", "two\nlines", " space"])
def test_labels_fit_into_a_figure(label: str) -> None:
    for keys in ({"label": label}, {"algorithm": label}):
        with pytest.raises(UserError, match=r"label: must be at most 40 printable") as told:
            read(**keys)
        assert len(str(told.value)) <= 300
        assert "\n" not in str(told.value)
    for key in ("label", "algorithm_label"):
        with pytest.raises(ValueError, match=rf"^{key} must be at most 40 printable") as refused:
            dataclasses.replace(read(), **dict[str, Any]({key: label}))
        assert "\n" not in str(refused.value)


def test_a_label_is_text() -> None:
    with pytest.raises(UserError, match=r"algorithm\.label: must be text, got 7"):
        read(algorithm=7)
    with pytest.raises(UserError, match="label: must be text, got 7"):
        read(label=7)


def test_a_setting_that_others_determine_is_not_needed() -> None:
    cells = [{"env": 1, "seed": a, "horizon": b, "twice": 2 * a} for a in (1, 2) for b in (3, 4)]
    assert needed_keys(cells, ["seed", "horizon", "twice"], ["env"]) == ["seed", "horizon"]
    assert needed_keys(cells, ["twice", "horizon", "seed"], ["env"]) == ["twice", "horizon"]
    assert needed_keys(cells, ["horizon", "twice"], ["seed"]) == ["horizon"]


def test_cells_with_one_label_have_different_names() -> None:
    cells = [read("ours"), read("ours", seed=1)]
    assert labels_of(cells) == [f"ours [{cell.digest}]" for cell in cells]
