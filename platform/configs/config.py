"""Config files: strict YAML, `--set path=value`, and the validated cells that they describe."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dprl.envs import LoggedEpisodes
from dprl.platform.configs.experiment import Experiment, read_experiment, varying_keys
from dprl.platform.configs.grid import GRID, alternatives_with, expand
from dprl.platform.configs.sections import field_names
from dprl.platform.configs.yaml_text import read_yaml
from dprl.platform.errors import UserError, below, broken_rule, nearest, print_error, shortened, shown, suggestion
from dprl.platform.plugins import load_plugins, require_digested_modules
from dprl.platform.program import command
from dprl.privacy import Certificate
from dprl.sources import plugin_files

T = TypeVar("T")

_SUFFIXES = (".yaml", ".yml")


def _config_folders() -> list[Path]:
    """Return the folders in which configs are found by name: ./tune_configs, then the one beside the sources."""
    folders = [Path("tune_configs"), Path(__file__).resolve().parents[2] / "tune_configs"]
    return [folder for folder in folders if folder.is_dir()]


def config_files() -> dict[str, Path]:
    """Return the configs of the project and of ./tune_configs, by name."""
    found: dict[str, Path] = {}
    for folder in _config_folders():
        for file in sorted(folder.iterdir()):
            if file.suffix in _SUFFIXES:
                found.setdefault(file.stem, file)
    return found


def _find_config(path: str | Path) -> Path:
    """Return the config file that `path` names: a file, or the name of one in tune_configs/."""
    file = Path(path)
    if file.is_dir():
        raise UserError(f"{path}: a config must be a YAML file, got a folder; name a file in it")
    if file.exists():
        return file
    known = config_files()
    if str(path) in known:
        return known[str(path)]
    raise UserError(f"{path}: config not found; {_near(file, known)}")


def _near(missing: Path, known: Mapping[str, Path]) -> str:
    """Return a remedy for a missing config: a file in the same folder with a similar name, or a known config."""
    folder = missing.parent
    beside = {file.stem: file for file in (folder.iterdir() if folder.is_dir() else ()) if file.suffix in _SUFFIXES}
    close = nearest(missing.stem, beside)
    if close:
        return f"did you mean {str(beside[close])!r}?"
    return suggestion(missing.stem, list(known)) if known else "give the path of a YAML file"


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping in the config file after all overrides; a missing name is the file's stem."""
    file = _find_config(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: a config must be UTF-8 text, got other bytes; save it as UTF-8") from None
    except OSError as error:
        raise UserError(
            f"{path}: a config must be a readable file, got '{error.strerror}'; check its permissions"
        ) from None
    raw = read_yaml(text, str(path))
    if raw is None:
        raise UserError(
            f"{path}: a config must be a mapping, got an empty file; start from one of `{command('list', 'configs')}`"
        )
    one = raw[0] if isinstance(raw, list) and raw else raw
    if isinstance(one, dict) and str(one.get("schema", "")).startswith("dprl.certificate/"):
        raise UserError(f"{path}: must be a config, got a certificate; run `{command('verify', str(path))}`")
    if not isinstance(raw, dict):
        remedy = f"start from one of `{command('list', 'configs')}`"
        raise broken_rule(str(path), "a config must be a mapping of keys", raw, remedy)
    raw.setdefault("name", re.sub(r"[^A-Za-z0-9._-]", "_", file.stem))
    for override in overrides:
        apply_override(raw, override)
    return raw


def apply_override(raw: dict[str, Any], override: str) -> None:
    """Apply one `a.b=value` (value is YAML) to `raw`, in place.

    If a top-level grid varies section `a`, every alternative that has it is changed.
    """
    dotted, equals, text = override.partition("=")
    keys, dotted = dotted.strip().split("."), shortened(dotted)
    if not equals or not all(keys):
        raise broken_rule("--set", "must be path=value", override, "write e.g. --set privacy.epsilon=2")
    value = read_yaml(text, f"--set {dotted}")
    for config in alternatives_with(raw, keys[0]) or [raw]:
        set_value(config, keys, value, f"--set {dotted}")


def set_value(config: dict[str, Any], keys: Sequence[str], value: object, source: str) -> None:
    """Set the value at the path of `keys` in `config`, creating the mappings on the way.

    Raises UserError, which begins with `source` (e.g. `--set env.horizon`), if the path leads through another value.
    """
    place = config
    for depth, key in enumerate(keys[:-1], start=1):
        below = place.setdefault(key, {})
        here = shortened(".".join(keys[:depth]))
        if not isinstance(below, dict):
            raise broken_rule(source, f"{here} must be a mapping to have keys", below, f"set {here} itself")
        if GRID in below:
            raise broken_rule(source, f"{here} is a grid and must be set as a whole", below, f"set {here} itself")
        place = below
    place[keys[-1]] = copy.deepcopy(value)


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
            label = cell.short_name(varying_keys(cells)) or cell.name
            raise UserError(f"grid: every cell must be different, got {shown(label)} twice; remove one of the two")
        seen[cell.digest] = cell
    return cells


def require_one_release(cells: Sequence[Experiment]) -> None:
    """Raise UserError for users' records among a plugin's files, and for several releases of the same file.

    The digest of a plugin's files, without noise, names cells; and no certificate composes several releases.
    """
    logged = [cell for cell in cells if issubclass(cell.env.builds, LoggedEpisodes)]
    digested = {file for _, file in plugin_files()} if logged else set()
    for file in (getattr(cell.env, "file", "") for cell in logged):
        if Path(file).resolve() in digested:
            rule = "must lie outside of plugins: their digest is in names of cells"
            raise broken_rule("env.file", rule, file, "move it")
    private = sum(cell.privacy.model != "none" for cell in logged)
    if private > 1:
        rule = "must have one private cell with env logged: each is one more release of its users"
        raise broken_rule("grid", rule, private, "write one config per release")


def labels_of(cells: Sequence[Experiment]) -> list[str]:
    """Return names of cells by the settings that vary, in a sweep's order, trust model and epsilon always included."""
    varying = varying_keys(cells)
    keys = [*(key for key in ("privacy.model", "privacy.epsilon") if key not in varying), *varying]
    return [cell.short_name(keys) for cell in cells]


def computed(cells: Sequence[Experiment], compute: Callable[[Experiment], T]) -> Iterator[T]:
    """Yield the result of `compute` for every cell.

    Raises UserError, placed at its section of the config, if the privacy settings of a cell do not fit together.
    """
    for i, cell in enumerate(cells):
        try:
            found = compute(cell)
        except ValueError as error:
            told = below("privacy", field_names(type(cell.privacy)), str(error))
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
