"""Config files: YAML values, overrides, grids, and the resulting typed cells."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from dprl.algorithms import ALGORITHMS
from dprl.envs import ENVIRONMENTS, fits
from dprl.platform.configs.config import config_files, load_cells, read_config
from dprl.platform.configs.experiment import labels_of, read_experiment
from dprl.platform.configs.grid import expand
from dprl.platform.configs.yaml_text import read_yaml, write_yaml
from dprl.platform.errors import UserError
from dprl.privacy import CountPrivacy

BASE: dict[str, Any] = {
    "name": "try",
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "privacy": {"model": "jdp", "epsilon": 1.0},
    "episodes": 100,
    "seeds": 1,
}

# Of an environment that has no default of its sizes.
SIZES = {"control_log": {"observation_size": 4, "n_actions": 2}}


def fitting(section: str, settings: type[Any]) -> dict[str, Any]:
    """The algorithm or environment that fits a registered one of the other section; 'none' fits all."""
    privacy = {"privacy": {"model": "none"}}
    if section == "algorithm":
        env = next(name for name, env in ENVIRONMENTS.items() if issubclass(env.builds, settings.plays))
        return {"env": {"name": env, **SIZES.get(env, {})}, **privacy}
    if section == "env":
        algorithm = next(name for name, one in ALGORITHMS.items() if fits(settings.builds, one.plays))
        return {"algorithm": {"name": algorithm}, **privacy}
    return {}


def write(folder: Path, text: str, name: str = "try.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_an_override_below_a_grid_changes_the_alternatives_that_have_the_key(tmp_path: Path) -> None:
    trust = {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 1.0}]}
    cells = load_cells(write(tmp_path, yaml.safe_dump({**BASE, "privacy": trust})), ["privacy.epsilon=2"])
    assert [(cell.privacy.model, cell.privacy.epsilon) for cell in cells] == [("none", 0.0), ("jdp", 2.0)]


def test_keys_beside_a_grid_belong_to_every_alternative() -> None:
    beside = {"privacy": {"epsilon": 1, "grid_search": [{"model": "jdp"}, {"model": "ldp"}]}}
    assert expand(beside) == [{"privacy": {"epsilon": 1, "model": model}} for model in ("jdp", "ldp")]


@pytest.mark.parametrize("text", ["100000", "1e5", "1.0e+5", "0100000", "100000.0"])
def test_whole_numbers_may_be_written_in_any_way(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, yaml.safe_dump(BASE).replace("episodes: 100", f"episodes: {text}"))
    (cell,) = load_cells(file)
    assert cell.episodes == 100_000
    assert isinstance(cell.episodes, int)


@pytest.mark.parametrize(
    ("text", "value"), [("1e-6", 1e-6), ("1E-6", 1e-6), (".5", 0.5), ("2", 2.0), ("-0.0", 0.0), ("010", 10)]
)
def test_numbers_need_no_decimal_point(tmp_path: Path, text: str, value: float) -> None:
    raw = read_config(write(tmp_path, f"name: x\nvalue: {text}\n"))
    assert raw["value"] == value


@pytest.mark.parametrize("text", ["no", "off", "12:30", "2026-01-01", "0x10", "none", "=", "1_0", "1_0.5", "0o10"])
def test_words_that_yaml_1_1_would_change_stay_text(tmp_path: Path, text: str) -> None:
    assert read_config(write(tmp_path, f"value: {text}\n"))["value"] == text


@pytest.mark.parametrize(
    "text", ["08", "1e5", "010", "1_0", "no", "yes", "12:30", "2026-01-01", "0o10", ".5", "~", "="]
)
def test_text_is_written_so_that_any_reader_of_yaml_takes_it_for_text(text: str) -> None:
    written = write_yaml({"label": text, "section": {"values": [text]}})
    assert read_yaml(written, "written") == {"label": text, "section": {"values": [text]}}
    assert yaml.safe_load(written)["label"] == text


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    raw = read_config(write(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n"))
    assert raw["b"] == {"x": 1, "y": 3}


def test_a_file_without_a_name_is_named_by_its_stem(tmp_path: Path) -> None:
    assert read_config(write(tmp_path, "a: 1\n", "my sweep.yaml"))["name"] == "my_sweep"


def test_overrides_are_yaml_and_reach_into_sections(tmp_path: Path) -> None:
    file = write(tmp_path, yaml.safe_dump(BASE))
    overrides = ["env.horizon=7", "algorithm.beta=0.2", "privacy={model: ldp, epsilon: 2}", "seeds=1e1"]
    (cell,) = load_cells(file, overrides)
    assert cell.parameters() | {"env.horizon": 7, "algorithm.beta": 0.2, "privacy.model": "ldp"} == cell.parameters()
    assert cell.seeds == 10


def test_grids_multiply_in_the_order_of_the_file_the_last_varying_fastest() -> None:
    points = expand({"a": {"grid_search": [1, 2]}, "b": {"c": {"grid_search": ["x", "y", "z"]}}, "d": 0})
    assert points == [{"a": a, "b": {"c": c}, "d": 0} for a, c in itertools.product([1, 2], ["x", "y", "z"])]


def test_grids_nest_inside_alternatives() -> None:
    grid = {"p": {"grid_search": [{"m": "none"}, {"m": "jdp", "e": {"grid_search": [1, {"grid_search": [2, 3]}]}}]}}
    assert expand(grid) == [{"p": {"m": "none"}}, *({"p": {"m": "jdp", "e": epsilon}} for epsilon in (1, 2, 3))]


def test_a_grid_inside_a_list_and_a_grid_of_whole_configs() -> None:
    assert expand([1, {"grid_search": [2, 3]}]) == [[1, 2], [1, 3]]
    assert expand({"grid_search": [{"a": 1}, {"a": {"grid_search": [2, 3]}}]}) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_expanding_agrees_with_ray_tune() -> None:
    """Tune's own expansion of the same notation gives the same set of points."""
    generate = pytest.importorskip("ray.tune.search.variant_generator").generate_variants
    inner = [{"m": 1}, {"m": 2, "n": {"grid_search": [5, 6]}}]
    grid = {"a": {"grid_search": [1, 2]}, "b": {"c": {"grid_search": inner}}}
    ours = [repr(point) for point in expand(grid)]
    theirs = [repr(point) for _, point in generate(grid)]
    assert sorted(ours) == sorted(theirs)


TRUST: dict[str, type[Any]] = dict.fromkeys(CountPrivacy.KEYS, CountPrivacy)


@pytest.mark.parametrize("registry", [ALGORITHMS, ENVIRONMENTS, TRUST], ids=["algorithm", "env", "privacy"])
def test_everything_registered_can_be_named_in_a_config(registry: dict[str, type[Any]]) -> None:
    section, key = {
        id(ALGORITHMS): ("algorithm", "name"),
        id(ENVIRONMENTS): ("env", "name"),
        id(TRUST): ("privacy", "model"),
    }[id(registry)]
    for name, settings in registry.items():
        if name in ("logged_vi", "logged", "mixture_file"):
            continue  # they need a file
        values: dict[str, object] = {key: name, **SIZES.get(name, {})}
        if section == "env" and not any(fits(settings.builds, algorithm.plays) for algorithm in ALGORITHMS.values()):
            # It is registered, but no algorithm plays it yet.
            with pytest.raises(UserError, match=rf"got {name}, a .*; choose env [a-z_0-9 ]+$"):
                read_experiment({**BASE, section: values})
            continue
        if section == "privacy" and name != "none":
            values |= {"epsilon": 1.0, "delta": 1e-6}
        cell = read_experiment({**BASE, **fitting(section, settings), section: values})
        assert isinstance(getattr(cell, section), settings)
        assert cell.parameters()[f"{section}.{key}"] == name


@pytest.mark.parametrize("name", config_files())
def test_the_configs_of_the_project_are_valid_and_named_after_their_files(name: str) -> None:
    cells = load_cells(name)
    assert {cell.name for cell in cells} == {name}
    assert len({*labels_of(cells)}) == len(cells)


def test_errors_name_the_line_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 3"):
        read_config(write(tmp_path, "a: 1\nb: 2\na: 3\n"))


JOINT: dict[str, Any] = {
    "env": BASE["env"],
    "grid_search": [
        {"episodes": 10, "privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 1.0}]}},
        {"episodes": 20, "grid_search": [{"privacy": {"model": "none"}}, {"privacy": {"model": "ldp", "epsilon": 2}}]},
    ],
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": {"grid_search": [0.1, 1.0]}},
    "seeds": 1,
}


def test_sections_vary_together_below_a_grid_at_the_top(tmp_path: Path) -> None:
    cells = load_cells(write(tmp_path, yaml.safe_dump(JOINT, sort_keys=False)))
    assert [(one.episodes, one.privacy.model, one.algorithm.bonus_scale) for one in cells] == [  # type: ignore[attr-defined]
        (episodes, model, scale)
        for episodes, model in [(10, "none"), (10, "jdp"), (20, "none"), (20, "ldp")]
        for scale in (0.1, 1.0)
    ]
    assert {one.name for one in cells} == {"try"}


def test_a_cell_of_a_joint_grid_is_that_of_a_plain_config(tmp_path: Path) -> None:
    joint = {**BASE, "grid_search": [{"episodes": 100}, {"episodes": 200}]}
    del joint["episodes"]
    assert [one.digest for one in load_cells(write(tmp_path, yaml.safe_dump(joint)))] == [
        read_experiment({**BASE, "episodes": episodes}).digest for episodes in (100, 200)
    ]


def test_an_override_reaches_every_alternative_that_has_the_section(tmp_path: Path) -> None:
    raw = read_config(write(tmp_path, yaml.safe_dump(JOINT)), ["episodes=7", "seed=3"])
    assert [choice["episodes"] for choice in raw["grid_search"]] == [7, 7]
    assert (raw["seed"], "episodes" in raw) == (3, False)
    nested = read_config(write(tmp_path, yaml.safe_dump(JOINT)), ["privacy={model: ldp, epsilon: 3}"])
    assert [one["privacy"] for one in nested["grid_search"][1]["grid_search"]] == [{"model": "ldp", "epsilon": 3}] * 2
