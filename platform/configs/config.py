"""Config files: strict YAML, `--set path=value`, and the validated cells that they describe."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dprl.algorithms.tabular.simulator import families_of_size
from dprl.platform.configs.experiment import Experiment, labels_of, read_experiment
from dprl.platform.configs.grid import GRID, expand
from dprl.platform.configs.sections import COUNTS, Keys, at_key, read_privacy
from dprl.platform.configs.yaml_text import read_yaml
from dprl.platform.errors import UserError, broken_rule, nearest, print_error, shortened, shown, suggestion
from dprl.platform.plugins import load_plugins, require_digested_modules
from dprl.platform.program import command
from dprl.privacy import Certificate, Streams
from dprl.sources import plugin_files

T = TypeVar("T")

_SUFFIXES = (".yaml", ".yml")
_SIZES = Keys({"users": int, "horizon": int, "states": int, "actions": int}, required=("users", "horizon"))
"""Settings of planned counts that are no privacy settings."""
_LARGEST_SIZE = 10**9


def config_files() -> dict[str, Path]:
    """Return the configs of the project and of ./tune_configs, by name."""
    found: dict[str, Path] = {}
    for folder in (Path(__file__).resolve().parents[2] / "tune_configs", Path("tune_configs")):
        if folder.is_dir():
            found |= {file.stem: file for file in sorted(folder.iterdir()) if file.suffix in _SUFFIXES}
    return found


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping in the config file after all overrides; a missing name is the file's stem.

    path: a file, or the name of one in tune_configs/. overrides: each `a.b=value`, where the value is YAML.
    """
    file, known = Path(path), config_files()
    if not file.exists() and str(path) not in known:
        beside = {each.stem: str(each) for each in file.parent.glob("*") if each.suffix in _SUFFIXES}
        close = nearest(file.stem, [*beside, *known])
        remedy = f"did you mean {beside.get(close, close)!r}?" if close else suggestion("", list(known))
        raise UserError(f"{path}: config not found; {remedy}")
    file = file if file.exists() else known[str(path)]
    try:
        raw = read_yaml(file.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"{path}: a config must be a YAML file, got '{why}'; name another file") from None
    if not isinstance(raw, dict):
        remedy = f"start from one of `{command('list', 'configs')}`"
        raise broken_rule(str(path), "a config must be a mapping of keys", raw, remedy)
    raw.setdefault("name", re.sub(r"[^A-Za-z0-9._-]", "_", file.stem))
    for override in overrides:
        place, equals, text = override.partition("=")
        keys, source = place.strip().split("."), f"--set {shortened(place.strip())}"
        if not equals or not all(keys):
            raise broken_rule("--set", "must be path=value", override, "write e.g. --set privacy.epsilon=2")
        set_value(raw, keys, read_yaml(text, source), source)
    return raw


def set_value(config: dict[str, Any], keys: Sequence[str], value: object, source: str) -> None:
    """Set the value at the path of `keys` in `config`, creating the mappings on the way.

    If a grid varies a key, it is set in every alternative that has it. Raises UserError, which begins with `source`
    (e.g. `--set env.horizon`), if the path leads through another value.
    """
    key, *rest = keys
    for place in _holders(config, key) or [config]:
        if not rest:
            place[key] = copy.deepcopy(value)
        elif isinstance(below := place.setdefault(key, {}), dict):
            set_value(below, rest, value, source)
        else:
            raise broken_rule(source, f"{key} must be a mapping to have keys", below, f"set {key} itself")


def _holders(config: object, key: str) -> list[dict[str, Any]]:
    """Return the mappings that give `key`: `config`, or alternatives of its grid, at any depth."""
    if not isinstance(config, dict):
        return []
    alternatives = config.get(GRID) if key not in config else None
    if not isinstance(alternatives, list):
        return [config] if key in config else []
    return [holder for choice in alternatives for holder in _holders(choice, key)]


def load_cells(path: str | Path, overrides: Sequence[str] = ()) -> list[Experiment]:
    """Return the validated experiments of a config file, one per grid point. Raises UserError."""
    return cells_of(read_config(path, overrides))


def cells_of(raw: Mapping[str, Any]) -> list[Experiment]:
    """Return the validated experiments of the content of a config, one per grid point. Raises UserError.

    Two identical cells are refused: they would be one run shown twice, and are a mistake in the grid.
    """
    plugins = load_plugins()
    cells = [read_experiment(point) for point in expand(dict(raw))]
    if plugins:
        require_digested_modules([cell.env for cell in cells])
    names = {cell.name for cell in cells}
    if len(names) > 1:
        raise broken_rule("name", "must be one for the whole grid", sorted(names), "keep grid_search out of it")
    require_one_release(cells)
    seen: dict[str, Experiment] = {}
    for cell in cells if len(cells) > 1 else ():
        if cell.digest in seen:
            [label] = labels_of([cell])
            raise UserError(f"grid: every cell must be different, got {shown(label)} twice; remove one of the two")
        seen[cell.digest] = cell
    return cells


def require_one_release(cells: Sequence[Experiment]) -> None:
    """Raise UserError for users' records among a plugin's files, and for several releases of the same file.

    The digest of a plugin's files, without noise, names cells; and no certificate composes several releases.
    """
    logged = [cell for cell in cells if getattr(cell.env.builds, "holds_records", False)]
    digested = {file for _, file in plugin_files()} if logged else set()
    for file in (getattr(cell.env, "file", "") for cell in logged):
        if Path(file).resolve() in digested:
            rule = "must lie outside of plugins: their digest is in names of cells"
            raise broken_rule("env.file", rule, file, "move it")
    private = sum(cell.privacy.model != "none" for cell in logged)
    if private > 1:
        rule = f"must have one private cell with env {logged[0].env.name}: each is one more release of its users"
        raise broken_rule("grid", rule, private, "write one config per release")


def computed(cells: Sequence[Experiment], compute: Callable[[Experiment], T]) -> Iterator[T]:
    """Yield the result of `compute` for every cell.

    Raises UserError, placed at its section of the config, if the privacy settings of a cell do not fit together.
    """
    for i, cell in enumerate(cells):
        try:
            found = compute(cell)
        except ValueError as error:
            told = at_key(error, "privacy", cell.privacy.keys(cell.privacy.model))
            raise UserError(f"{labels_of(cells)[i]}: {told}") from None
        yield found


def certificates_of(cells: Sequence[Experiment]) -> list[Certificate]:
    """Return every cell's planned certificate, before anything is written. Raises UserError like `computed`.

    Prints a line on standard error for each cell that is known to prove nothing.
    """
    found = list(computed(cells, Experiment.certificate))
    for i, line in enumerate(computed(cells, Experiment.expected)):
        if line:
            print_error(f"dprl: {labels_of(cells)[i]}: {line}")
    return found


def planned_certificates(cells: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return planned certificates as JSON-ready data, with each cell's digest and parameters. Raises UserError."""
    return [
        {"cell": cell.digest, "parameters": cell.parameters(), **proved.to_dict()}
        for cell, proved in zip(cells, certificates_of(cells), strict=True)
    ]


def planned_certificate(settings: Mapping[str, Any]) -> Certificate:
    """Return the certificate of counts of transitions, visits and rewards of an MDP, one episode per user.

    settings: `users`, `horizon` H, and optionally `states` and `actions` (2 by default) for the number of cells; the
    others are keys of a config's `privacy`, by default with `model: jdp`.

    Raises UserError.
    """
    sizes = _SIZES.check({key: value for key, value in settings.items() if key in _SIZES.hints}, "")
    for name, size in sizes.items():
        if not 1 <= size <= _LARGEST_SIZE:
            rule = f"must be a whole number from 1 to {_LARGEST_SIZE}"
            raise broken_rule(name, rule, size, "choose one in that range")
    section = {"model": "jdp"} | {key: value for key, value in settings.items() if key not in sizes}
    families = families_of_size(sizes["horizon"], sizes.get("states", 2), sizes.get("actions", 2))
    try:
        built = read_privacy(section, COUNTS).build(families, sizes["users"], Streams(0, "planned"))
    except ValueError as error:
        raise at_key(error, "privacy", section) from None
    found: Certificate = built.planned_certificate("planned counts")
    return found
