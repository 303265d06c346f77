"""An experiment: its identity, names and labels, its noise, saving and loading, and keys that were removed."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from dprl.algorithms import BernsteinVIConfig, PrivateUCBVIConfig, PUCBConfig, TabularLearner
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment, labels_of, needed_keys, read_experiment
from dprl.platform.configs.sections import REMOVED
from dprl.platform.errors import UserError
from dprl.privacy import NoiseConfig

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


# Noise, release and audit.

FIT = {"arithmetic": "exact", "entropy": "os"}


def test_noise_is_fast_and_seeded_unless_something_else_is_asked_for() -> None:
    assert cell().noise == NoiseConfig("fast", "seed")
    assert cell(noise={"arithmetic": "exact"}).noise == NoiseConfig("exact", "seed")
    assert cell().resumable
    assert not cell(noise={"entropy": "os"}).resumable


def test_release_means_exact_and_os() -> None:
    assert cell(release=True).noise == NoiseConfig("exact", "os")
    for written in (FIT, {"arithmetic": "exact"}, {"entropy": "os"}, {}):
        assert cell(release=True, noise=written) == cell(release=True)
    assert cell(release=False).noise == NoiseConfig()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": True, "noise": {"arithmetic": "fast", "entropy": "os"}}, "release: must be false with noise"),
        ({"release": True, "noise": {"arithmetic": "fast"}}, "release: must be false with noise"),
        ({"release": True, "noise": {"entropy": "seed"}}, "release: must be false with noise"),
        ({"release": True, "privacy": {"model": "none"}}, "release: must be false with model none"),
        (
            {"release": True, "privacy": {"model": "ldp", "epsilon": 1.0, "calibration": "printed"}},
            "release: must be false with printed noise",
        ),
        ({"noise": {"arithmetik": "exact"}}, "noise.arithmetik: unknown key; did you mean 'arithmetic'"),
    ],
)
def test_anything_else_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        cell(**changes)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ({"model": "jdp", "epsilon": 1.0, "mechanism": "gaussian"}, "Gaussian noise needs a delta above 0"),
        (
            {"model": "ldp", "epsilon": 1.0, "families": "separate", "mechanism": "sampled_optimized_unary_encoding"},
            "use families: one_hot",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_before_a_run(privacy: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cell(privacy=privacy, noise={"arithmetic": "exact"}).certificate()


def test_the_certificate_says_how_the_noise_is_drawn() -> None:
    fast, exact = cell().certificate().to_dict(), cell(release=True).certificate().to_dict()
    assert {(n["arithmetic"], n["entropy"]) for n in fast["noise"]} == {("float64-idealised", "seeded")}
    assert {(n["arithmetic"], n["entropy"]) for n in exact["noise"]} == {("integer", "os")}
    told = [" ".join(certificate["excluded_channels"]) for certificate in (fast, exact)]
    assert "random seed" in told[0]
    assert "floating-point" in told[0]
    assert "random seed" not in told[1]
    assert "floating-point" not in told[1]


def test_how_noise_is_drawn_keeps_streams_apart_and_an_audit_does_not() -> None:
    assert cell(noise={"arithmetic": "exact"}).streams_context != cell().streams_context
    assert cell(audit=True).streams_context == cell().streams_context
    assert cell(audit=True).digest != cell().digest


# Labels of cells and algorithms.


def read(label: object = None, algorithm: object = None, **more: object) -> Experiment:
    named = {} if algorithm is None else {"label": algorithm}
    labelled: dict[str, object] = {} if label is None else {"label": label}
    return cell(algorithm={"name": "private_ucb_vi", **named}, **labelled, **more)


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
    assert labels_of(cells) == ["pucb episodes=100", "bernstein_vi episodes=200"]


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


def test_a_setting_that_others_determine_is_not_needed() -> None:
    cells = [{"env": 1, "seed": a, "horizon": b, "twice": 2 * a} for a in (1, 2) for b in (3, 4)]
    assert needed_keys(cells, ["seed", "horizon", "twice"], ["env"]) == ["seed", "horizon"]
    assert needed_keys(cells, ["twice", "horizon", "seed"], ["env"]) == ["twice", "horizon"]
    assert needed_keys(cells, ["horizon", "twice"], ["seed"]) == ["horizon"]


def test_cells_with_one_label_have_different_names() -> None:
    cells = [read("ours"), read("ours", seed=1)]
    assert labels_of(cells) == [f"ours [{cell.digest}]" for cell in cells]


# Keys and names that were removed.


@pytest.mark.parametrize("entry", list(REMOVED))
def test_a_removed_name_is_refused_with_what_to_write_instead(entry: str) -> None:
    place, _, value = entry.partition("=")
    section, key = place.split(".")
    raw = {**RAW, section: {**RAW[section], key: value or "x"}}
    with pytest.raises(UserError) as refused:
        read_experiment(raw)
    assert str(refused.value).startswith(f"{place}: is no longer supported, got ")
    assert str(refused.value).endswith(REMOVED[entry])
