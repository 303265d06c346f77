"""An experiment: its identity, its names, saving and loading."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dprl.algorithms import PrivateUCBVIConfig, TabularLearner
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment, labels_of, read_experiment
from dprl.platform.errors import UserError

RAW: dict[str, Any] = {
    "name": "try",
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": PrivateUCBVIConfig.tuned[0]},  # type: ignore[index]
    "env": {"name": "riverswim", "n_states": 3, "horizon": 5},
    "privacy": {"model": "jdp", "epsilon": 1.0},
    "episodes": 1000,
    "seeds": 2,
}


def cell(**changes: object) -> Experiment:
    return read_experiment({**RAW, **changes})


def jdp(epsilon: float, **more: object) -> dict[str, object]:
    return {"model": "jdp", "epsilon": epsilon, **more}


def test_the_digest_does_not_depend_on_the_name_or_on_how_numbers_are_written() -> None:
    same = cell(name="other", privacy=jdp(1), episodes=1e3)
    assert same.digest == cell().digest
    assert len(same.digest) == 12
    assert same.digest.startswith("c"), "a table with digests of digits only is read as one of numbers"


def test_writing_a_default_out_changes_nothing() -> None:
    assert cell(seed=0, privacy=jdp(1.0, delta=0)).digest == cell().digest


CHOOSERS = {"name", "model"}
OTHERS = {
    "counts": ("rewards", "costs"),
    "arithmetic": ("fast", "exact"),
    "entropy": ("seed", "os"),
    "calibration": ("certified", "printed"),
    "counter": ("binary_tree", "kary_tree"),
    "families": ("separate", "one_hot"),
    "releases": ("scheduled", "every_user"),
    "simulation": ("auto", "users"),
    "preset": ("proved", "tuned"),
    "mechanism": ("auto", "laplace"),
    "precision": ("exact", "printed"),
}


def leaves(mapping: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in mapping.items():
        yield from leaves(value, (*path, key)) if isinstance(value, dict) else [(*path, key)]


def changed(mapping: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the mapping with another value of one setting, of the same kind."""
    key, *rest = path
    value = mapping[key]
    if rest:
        return {**mapping, key: changed(value, tuple(rest))}
    if isinstance(value, str):
        return {**mapping, key: next(word for word in OTHERS[key] if word != value)}
    if isinstance(value, bool):
        return {**mapping, key: not value}
    return {**mapping, key: value + (1 if isinstance(value, int) else 0.03)}


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [("episodes", 2, 10**12), ("seeds", 1, 10_000), ("seed", 0, 2**32 - 1), ("memory", 1e-9, 1e6)],
)
def test_numbers_lie_within_their_limits(key: str, least: float, most: float) -> None:
    for value in (least, most):
        assert getattr(cell(**{key: value}), key) == value
    for value in (0 if key == "memory" else least - 1, most + 1):
        with pytest.raises(UserError, match=rf"^{key}: must (lie|be at least) .*, got {value}(\.0)?; "):
            cell(**{key: value})


def test_the_digest_depends_on_every_setting() -> None:
    # A release needs exact noise with keys from the operating system.
    for one, fixed in ((cell(), {"release"}), (cell(noise={"arithmetic": "exact", "entropy": "os"}), set[str]())):
        mapping = one.as_mapping()
        paths = [path for path in leaves(mapping) if path[-1] not in CHOOSERS | fixed]
        assert len(paths) > 15
        digests = {path: read_experiment(changed(mapping, path)).digest for path in paths}
        assert one.digest not in digests.values()
        assert len(set(digests.values())) == len(paths)


@pytest.mark.parametrize(
    "changes", [{"privacy": jdp(1.0 + 1e-15)}, {"privacy": {"model": "none"}}, {"algorithm": {"name": "bernstein_vi"}}]
)
def test_the_digest_depends_on_the_last_digit_and_on_choices(changes: dict[str, object]) -> None:
    assert cell(**changes).digest != cell().digest


def test_the_digest_depends_on_the_sources_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cell().digest
    monkeypatch.setattr("dprl.platform.plugins.results_version", lambda _: "other sources")
    assert cell().digest != before


def test_cells_share_no_random_streams_but_more_seeds_repeat_the_first_ones() -> None:
    contexts = [cell(**change).streams_context for change in ({}, {"episodes": 1001}, {"seed": 1})]
    assert len(set(contexts)) == 3
    assert cell(seeds=9).streams_context == cell().streams_context


def test_a_cell_written_as_yaml_is_the_same_cell(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    for original in (cell(), cell(privacy={"model": "none"}), cell(privacy=jdp(1e-7), seed=7)):
        file.write_text(original.to_yaml())
        assert load_cells(file) == [original]


def test_a_cell_can_be_sent_to_a_worker() -> None:
    copy: Experiment = pickle.loads(pickle.dumps(cell()))
    assert copy == cell()
    assert copy.digest == cell().digest


def test_parameters_are_dotted_paths_with_every_default() -> None:
    parameters = cell().parameters()
    assert parameters["privacy.epsilon"] == 1.0
    assert parameters["privacy.calibration"] == "certified"
    assert parameters["env.horizon"] == 5
    assert parameters["seed"] == 0
    assert "name" not in parameters
    assert all(isinstance(value, str | int | float) for value in parameters.values())


def test_labels_tell_cells_apart_by_what_varies() -> None:
    cells = [cell(privacy={"model": "none"}), cell(privacy=jdp(0.5)), cell(privacy=jdp(2))]
    assert labels_of(cells) == ["none", "jdp epsilon=0.5", "jdp epsilon=2"]


def test_the_planned_certificate_is_that_of_a_finished_run() -> None:
    learner = cell(episodes=20).build(0)
    learner.learn(20)
    assert learner.certificate().to_dict() == cell(episodes=20).certificate().to_dict()


def test_seeds_draw_different_noise() -> None:
    first, second = (cast(TabularLearner, cell(episodes=50).build(index)) for index in (0, 1))
    first.learn(50)
    second.learn(50)
    totals = [learner.privatizer.channel.needed for learner in (first, second)]
    assert (totals[0] != totals[1]).any()


def test_an_environment_of_gymnasium_is_labelled_by_its_id() -> None:
    frozen = {"name": "gymnasium", "env_id": "FrozenLake-v1", "horizon": 4}
    cells = [cell(), cell(env=frozen)]
    assert labels_of(cells) == ["riverswim", "FrozenLake-v1"]
    cells = [cell(env=frozen), cell(env={**frozen, "env_id": "Taxi-v3"})]
    assert labels_of(cells) == ["FrozenLake-v1", "Taxi-v3"]
