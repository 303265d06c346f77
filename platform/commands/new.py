"""`dprl new`: a working plugin to edit, as a module and a config."""

from __future__ import annotations

import importlib.util
import keyword
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from dprl.platform.commands.base import say
from dprl.platform.errors import EXIT_DONE, broken_rule
from dprl.platform.program import program

_EXAMPLES = {
    "algorithm": ("simple_ucb", "SimpleUCBConfig"),
    "env": ("inventory", "Inventory"),
    "game": ("hide_and_seek", "HideAndSeek"),
}
"""Module and class of the example in docs/extending that is copied for each kind of part."""


def new(
    kind: Annotated[Literal["algorithm", "env", "game"], Parameter(help="the part to write")],
    name: Annotated[str, Parameter(help="name of the part in configs, and of the two files")],
    /,
) -> int:
    """Write a working algorithm, environment or game, NAME.py and NAME.yaml, as a start for your own."""
    from dprl.algorithms import ALGORITHMS
    from dprl.envs import ENVIRONMENTS
    from dprl.platform.configs.config import config_files
    from dprl.privacy.counters import COUNTERS
    from dprl.privacy.mechanisms import MECHANISMS

    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise broken_rule("NAME", "must be one word of lower-case letters, digits and _", name, "write e.g. my_ucb")
    there = [file for file in (Path(f"{name}.py"), Path(f"{name}.yaml")) if file.exists()]
    if there:
        raise broken_rule("NAME", f"must not be that of a file here ({there[0]})", name, "choose another one")
    if any(name in taken for taken in (ALGORITHMS, ENVIRONMENTS, COUNTERS, MECHANISMS, config_files())):
        raise broken_rule("NAME", "must be new", name, "a part of this name exists: choose another one")
    if importlib.util.find_spec(name) is not None:
        raise broken_rule("NAME", "must not be that of an installed Python module", name, "choose another one")
    module, old = _EXAMPLES[kind]
    top = Path(__file__).resolve().parents[2]  # of a checkout, or of a wheel
    examples = next(folder for folder in (top / "docs" / "extending", top / "extending") if folder.is_dir())
    words = "".join(word.capitalize() for word in name.split("_"))
    for suffix in (".py", ".yaml"):
        text = (examples / kind / f"{module}{suffix}").read_text(encoding="utf-8")
        text = text.replace(old, words + ("Config" if old.endswith("Config") else "")).replace(module, name)
        Path(f"{name}{suffix}").write_text(text, encoding="utf-8")
    say(f"wrote {name}.py and {name}.yaml; run them, then edit:")
    say(f"  PYTHONPATH=$PWD DPRL_PLUGINS={name} {program()} run {name}.yaml")
    return EXIT_DONE
