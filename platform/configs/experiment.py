"""Complete description of one run: validated, with a name and a digest, and able to build its algorithm."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from dprl.algorithms import ALGORITHMS, AlgorithmConfig, Learner, Metric
from dprl.envs import ENVIRONMENTS, Env, EnvConfig, fits, played
from dprl.platform.configs.sections import Keys, at_key, keys_of, made, read_privacy, read_registered, require_mapping
from dprl.platform.configs.yaml_text import write_yaml
from dprl.platform.errors import UserError, broken_rule, shown
from dprl.platform.plugins import PLUGIN_ERRORS, version_of_parts
from dprl.privacy import PRIVACY_SETTINGS, Certificate, NoiseConfig, Privatizer, Streams
from dprl.privacy.designs.base import PrivacySettings
from dprl.privacy.journal import ChargeJournal

Scalar = str | float | int

_MOST_EPISODES, _MOST_MEMORY = 10**12, 1e6
MOST_SEEDS, LARGEST_SEED = 10_000, 2**32 - 1
_MOST_LETTERS = 40  # of a label
_RAW_SCORES = "simulator"
_USUAL = {"episodes": 200_000, "seeds": 10, "seed": 0}
NAME_RULE = "must be 1 to 100 letters, digits, '.', '_' or '-', the first no sign"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SECTIONS: dict[str, Mapping[str, type[Any]]] = {
    "algorithm": ALGORITHMS,
    "env": ENVIRONMENTS,
    "privacy": PRIVACY_SETTINGS,
}
"""Classes that the sections of a config can describe."""
CHOOSERS = {"algorithm": "name", "env": "name", "privacy": "model"}  # the key that selects the class of a section
NEEDS_ITS_NAME = {"algorithm.preset", "privacy.rewards", "privacy.clipping", "algorithm.value"}
"""Settings with words for values that say nothing alone."""
_ALWAYS_TOLD = {"algorithm.label", "env.name", "privacy.model", "privacy.epsilon", "privacy.mechanism", "episodes"}
"""Settings that a label has wherever they vary."""
NOT_OF_NOISE = {"name", "seeds", "audit", "label", "memory"}
"""Keys of a cell's config that do not change the noise of its first seed."""
_RELEASE_NOISE = {"arithmetic": "exact", "entropy": "os"}
_KEYS = Keys(
    {"name": str, "algorithm": Any, "env": Any, "privacy": Any, "episodes": int, "seeds": int, "seed": int}
    | {"noise": Any, "release": bool, "audit": bool, "label": str, "memory": float | None},
    required=("name", "algorithm", "env", "privacy", "episodes", "seeds"),
)
"""Keys of a config."""


@dataclass(frozen=True)
class Experiment:
    """One grid cell: an algorithm on an environment under a trust model, with all its seeds.

    name: of the sweep that the cell belongs to; letters, digits, '.', '_', '-'. algorithm, env, privacy: the packages'
    own settings. episodes: per seed, at least 2. seeds: number of seeds. seed: the first seed; the others follow.
    noise: how it is drawn. release: whether the noise must be fit for real users. audit: whether an audit's result is
    attached to the certificate. label, algorithm_label: names of the cell and its algorithm in figures, tables and
    pages, '' for the default. memory: GB that the cell may use and Ray reserves for it. Labels and memory change
    neither the digest nor the noise. Raises ValueError on other values.
    """

    name: str
    algorithm: AlgorithmConfig
    env: EnvConfig[Env]
    privacy: PrivacySettings[Any, Any]
    episodes: int
    seeds: int
    seed: int = 0
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    release: bool = False
    audit: bool = False
    label: str = ""
    algorithm_label: str = ""
    memory: float | None = None

    def __post_init__(self) -> None:
        if not fits_as_name(self.name):
            remedy = "a folder is named by it: write e.g. first_try"
            raise ValueError(f"name {NAME_RULE}, got {shown(self.name)}; {remedy}")
        if self.episodes < 2:
            raise ValueError(f"episodes must be at least 2, got {self.episodes}; write e.g. 1000")
        limits = {"episodes": (2, _MOST_EPISODES), "seeds": (1, MOST_SEEDS), "seed": (0, LARGEST_SEED)}
        for key, (least, most) in limits.items():
            if not least <= getattr(self, key) <= most:
                rule = f"{key} must lie between {least} and {most}"
                raise ValueError(f"{rule}, got {getattr(self, key)}; write e.g. {_USUAL[key]}")
        for key in ("label", "algorithm_label"):
            label = getattr(self, key)
            if len(label) > _MOST_LETTERS or not label.isprintable() or label != label.strip():
                rule = f"must be at most {_MOST_LETTERS} printable characters, no space at either end"
                raise ValueError(f"{key} {rule}, got {shown(label)}; shorten it")
        if self.memory is not None and not 0.0 < self.memory <= _MOST_MEMORY:
            raise ValueError(f"memory must lie in (0, {_MOST_MEMORY:g}] GB, got {self.memory}; write e.g. 4")
        _check_played(self)
        if self.release:
            _check_release(self)

    def as_mapping(self) -> dict[str, Any]:
        """Return the config that describes this cell, with every default written out."""
        mapping: dict[str, Any] = {"name": self.name}
        for section, key in CHOOSERS.items():
            settings = getattr(self, section)
            fields = settings.to_dict() if section == "privacy" else dataclasses.asdict(settings)
            mapping[section] = {key: getattr(settings, key), **fields}
        mapping |= {"episodes": self.episodes, "seeds": self.seeds, "seed": self.seed}
        return mapping | {"noise": dataclasses.asdict(self.noise), "release": self.release, "audit": self.audit}

    def to_yaml(self) -> str:
        """Return the cell as a config file that `dprl run` accepts, with its labels and memory."""
        mapping = self.as_mapping()
        if self.algorithm_label:
            mapping["algorithm"]["label"] = self.algorithm_label
        if self.label:
            mapping["label"] = self.label
        if self.memory is not None:
            mapping["memory"] = self.memory
        return write_yaml(mapping)

    def parameters(self) -> dict[str, Scalar]:
        """Return every setting under its dotted path in the config file, without the name."""
        flat: dict[str, Scalar] = {}
        for key, value in self.as_mapping().items():
            if isinstance(value, dict):
                flat |= {f"{key}.{name}": setting for name, setting in value.items() if setting is not None}
            elif key != "name":
                flat[key] = value
        return flat

    @property
    def digest(self) -> str:
        """12 hex digits that name the cell: its settings without the name, and the sources of its noise.

        The first one is c: readers of tables would take 123456789012 and 1234e5678901 for numbers.
        """
        return f"c{_hash({**self.as_mapping(), 'name': None, 'sources': self.sources})[1:]}"

    @property
    def streams_context(self) -> str:
        """Context that separates this cell's random streams from those of other cells and versions.

        It includes `seed` but not `seeds`; a call with more seeds therefore repeats the earlier runs.
        """
        told = self.as_mapping()
        return _hash({**told, **dict.fromkeys(NOT_OF_NOISE & told.keys()), "sources": self.sources})

    @property
    def sources(self) -> str:
        """Version of the results of dprl, with a digest of the plugins that the cell uses."""
        return version_of_parts(type(self.algorithm), type(self.env))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that may be written to files, figures, progress lines and MLflow.

        A release has only the metrics that its certificate covers; all others are dropped at once.
        """
        return tuple(metric for metric in self.algorithm.metrics if metric.covered or not self.release)

    @property
    def resumable(self) -> bool:
        """Whether an interrupted run can continue; noise from the operating system is not written down."""
        return self.noise.entropy == "seed"

    @property
    def asks_users(self) -> bool:
        """Whether its users may be real: there is privacy, with noise that is never drawn again."""
        return not self.resumable and self.privacy.model != "none"

    def environment(self) -> Env:
        """Return the environment, built. Raises UserError, also for mistakes in the code of a plugin's `build`."""
        try:
            return cast("Env", played(self.env.build(), self.algorithm.plays))
        except ValueError as error:
            raise at_key(error, "env", keys_of(type(self.env)).hints) from None
        except PLUGIN_ERRORS as error:
            if type(self.env).__module__.startswith("dprl."):
                raise
            lines = traceback.extract_tb(error.__traceback__)
            rule = f"must be built without an error ({type(error).__name__}: {error}, line {lines[-1].lineno})"
            raise broken_rule(f"env {self.env.name}", rule, Path(lines[-1].filename).name, "correct it") from error

    def build(self, seed_index: int, journal: ChargeJournal | None = None) -> Learner:
        """Return the learner of one seed; with a journal, charges survive a crash.

        Raises LedgerError if the journal is of other releases, or damaged.
        """
        env, streams = self.environment(), self._streams(seed_index)
        privatizer = self.algorithm.privatizer(env, self.privacy, self.episodes, streams)
        if journal is not None:
            privatizer.persist(journal)
        return self.algorithm.build(env, privatizer, self.episodes, streams)

    def privatizer(self) -> Privatizer[Any]:
        """Return the privatizer of the first seed. Raises ValueError if settings do not fit together."""
        return self.algorithm.privatizer(self.environment(), self.privacy, self.episodes, self._streams(0))

    def expected(self) -> str:
        """Return a line if a run is known to prove nothing, from public sizes; '' otherwise, and if none can tell."""
        told = getattr(self.algorithm, "expected", None)
        return told(self.environment(), self.privacy, Streams(self.seed, "", self.noise)) if told else ""

    def certificate(self) -> Certificate:
        """Return the certificate of a complete run, without running it. Raises ValueError if there is none."""
        # It draws nothing, so its streams need no context.
        streams = Streams(self.seed, "", self.noise)
        planned = self.algorithm.privatizer(self.environment(), self.privacy, self.episodes, streams)
        return planned.planned_certificate(self.algorithm.name)

    def _streams(self, seed_index: int) -> Streams:
        return Streams(self.seed + seed_index, self.streams_context, self.noise)


def _check_played(experiment: Experiment) -> None:
    """Raise ValueError unless the algorithm plays this kind of environment."""
    algorithm, env = experiment.algorithm, experiment.env
    if fits(env.builds, algorithm.plays):
        logged = getattr(env.builds, "holds_records", False) and experiment.privacy.model != "none"
        if logged and experiment.seeds > 1:
            remedy = "each would be one more release of the same users"
            raise ValueError(f"seeds must be 1 with env {env.name}, got {experiment.seeds}; {remedy}")
        if logged and experiment.noise.entropy != "os":
            remedy = "another file would get the same noise: write noise: {entropy: os}"
            raise ValueError(f"noise.entropy must be os with env {env.name}, got {experiment.noise.entropy}; {remedy}")
        # The noise of sampled rounds is not whole numbers, so they are never fit for a release.
        if logged and not experiment.release and getattr(experiment.privacy, "sampling", "") != "poisson":
            remedy = "it holds records of real users: write release: true"
            if algorithm.releases == "gradients":
                remedy += ", or draw users with privacy.sampling: poisson"
            raise ValueError(f"release must be true with env {env.name}, got False; {remedy}")
        return
    fitting = sorted(name for name, spec in ENVIRONMENTS.items() if fits(spec.builds, algorithm.plays))
    players = sorted(name for name, config in ALGORITHMS.items() if fits(env.builds, config.plays))
    other = f", or one of the algorithms {', '.join(players)}" if players else ""
    rule = f"env must be a {algorithm.plays.kind} with algorithm {algorithm.name}"
    raise ValueError(f"{rule}, got {env.name}, a {env.builds.kind}; choose env {' or '.join(fitting)}{other}")


def _check_release(experiment: Experiment) -> None:
    """Raise ValueError unless the noise is good enough for real users."""
    noise, privacy, algorithm = experiment.noise, experiment.privacy, experiment.algorithm
    private = " or ".join(sorted(set(PRIVACY_SETTINGS[algorithm.releases].KEYS) - {"none"}))
    rules = [
        (
            not noise.fit_for_release,
            f"noise: {{arithmetic: {noise.arithmetic}, entropy: {noise.entropy}}}",
            "write noise: {arithmetic: exact, entropy: os}",
        ),
        (
            algorithm.releases == "statistics",
            f"algorithm {algorithm.name}",
            "its noise is proved for real numbers, not for what a computer sends: choose one on counts or gradients",
        ),
        (privacy.model == "none", "model none", f"choose model {private}"),
        (getattr(privacy, "calibration", "") == "printed", "printed noise", "choose calibration: certified"),
        (
            getattr(privacy, "release_scores", "") == _RAW_SCORES,
            f"release_scores: {_RAW_SCORES}",
            "no simulator knows what real users did: write release_scores: none",
        ),
        (
            getattr(privacy, "mechanism", "") == "privunit",
            "mechanism privunit",
            "its guarantee is for real numbers: write mechanism: clipped_laplace",
        ),
        (
            getattr(algorithm, "padded", True) is False,
            "algorithm.padded: false",
            "the times in logs and MLflow would reveal the length of episodes: write algorithm.padded: true",
        ),
    ]
    for broken, setting, remedy in rules:
        if broken:
            raise ValueError(f"release must be false with {setting}, got True; {remedy}")


def read_experiment(raw: object) -> Experiment:
    """Return the experiment that one expanded config describes. Raises UserError.

    >>> experiment = read_experiment({
    ...     "name": "first_try",
    ...     "algorithm": {"name": "private_ucb_vi"},
    ...     "env": {"name": "riverswim", "horizon": 10},
    ...     "privacy": {"model": "jdp", "epsilon": 1.0},
    ...     "episodes": 1000,
    ...     "seeds": 2,
    ... })
    >>> certificate = experiment.certificate()
    >>> certificate.verdict, round(certificate.proved_epsilon, 9)
    ('holds', 1.0)
    >>> [(release.channel, release.counter.levels) for release in certificate.releases]
    [('transitions_with_bit', 3)]
    """
    section = require_mapping(raw, "")
    for key in (each for each in section if each not in _KEYS.hints):
        owners = [
            f"{name}.{key}"
            for name, registry in _SECTIONS.items()
            if key == CHOOSERS[name] or any(key in keys_of(each).hints for each in registry.values())  # type: ignore[arg-type]
        ]
        if owners:
            raise UserError(f"{key}: unknown key; did you mean {' or '.join(map(repr, owners))}?")
    values = _KEYS.check(section, "")
    values["algorithm"], told = read_registered(values["algorithm"], "algorithm", ALGORITHMS, "label")
    values["env"], _ = read_registered(values["env"], "env", ENVIRONMENTS)
    values["privacy"] = read_privacy(values["privacy"], values["algorithm"].releases)
    noise = require_mapping(values.get("noise", {}), "noise")
    implied = _RELEASE_NOISE if values.get("release") else {}
    values["noise"] = made(NoiseConfig, keys_of(NoiseConfig).check({**implied, **noise}, "noise"), "noise")
    return made(Experiment, {**values, "algorithm_label": told.get("label", "")}, "")


def fits_as_name(text: str) -> bool:
    """Whether a sweep, and therefore its folder, can have this name."""
    return _NAME.fullmatch(text) is not None


def labels_of(cells: Sequence[Experiment]) -> list[str]:
    """Return a distinct name for each cell: its label, or its values of the settings that distinguish the cells.

    A text stands alone, a number after its key, as in 'jdp epsilon=0.5'. Settings that others determine are left out,
    except `_ALWAYS_TOLD`. If nothing varies: trust model and epsilon.
    """
    flats = [{"algorithm.label": cell.algorithm_label or cell.algorithm.name, **cell.parameters()} for cell in cells]
    for flat in flats:
        flat["env.name"] = flat.get("env.env_id", flat["env.name"])
    varying = [key for key in dict.fromkeys(key for flat in flats for key in flat) if varies(key, flats)]
    always = [key for key in varying if key in _ALWAYS_TOLD]
    needed = {*always, *needed_keys(flats, [key for key in varying if key not in always], always)}
    if "privacy.model" in needed or not needed:
        needed |= {"privacy.model", "privacy.epsilon"}
    names = []
    for cell, flat in zip(cells, flats, strict=True):
        words = []
        for key, value in flat.items():
            if key in needed and value != "":
                text = f"{value:g}" if isinstance(value, float) else str(value)
                alone = isinstance(value, str) and key not in NEEDS_ITS_NAME
                words.append(text if alone else f"{key.rpartition('.')[2]}={text}")
        names.append(cell.label or " ".join(words))
    count = Counter(names)
    return [name if count[name] == 1 else f"{name} [{cell.digest}]" for cell, name in zip(cells, names, strict=True)]


def _hash(mapping: Mapping[str, Any]) -> str:
    """Return 12 hex digits of the SHA-256 of `mapping` as canonical JSON."""
    text = json.dumps(mapping, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def needed_keys(cells: Sequence[Mapping[str, Any]], keys: Sequence[str], always: Sequence[str]) -> list[str]:
    """Return the `keys` that are needed, besides the settings `always`, to distinguish `cells`; earlier keys first.

    Settings determined by the algorithm or by another setting add nothing.
    """

    def told_apart(known: Sequence[str]) -> int:
        return len({tuple(cell.get(key) for key in (*always, *known)) for cell in cells})

    kept, count = list(keys), told_apart(keys)
    for key in reversed(keys):
        others = [other for other in kept if other != key]
        if told_apart(others) == count:
            kept = others
    return kept


def varies(key: str, flats: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `key` differs among the cells of the algorithms, environments or trust models that have it."""
    section = key.partition(".")[0]
    chooser = f"{section}.{CHOOSERS.get(section)}"
    having = {flat.get(chooser) for flat in flats if key in flat}
    return len({flat.get(key) for flat in flats if flat.get(chooser) in having}) > 1
