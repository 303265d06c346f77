"""Plugins: registration, digests of their sources, and one-line errors for wrong names."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from dprl.algorithms import ALGORITHMS, PUCBConfig
from dprl.envs import ENVIRONMENTS, MDPS, FiniteMDP, RiverSwim
from dprl.platform import plugins
from dprl.platform.configs.config import cells_of
from dprl.platform.configs.experiment import read_experiment
from dprl.platform.environment_variables import worker_environment
from dprl.platform.errors import UserError
from dprl.platform.plugins import load_plugins, register_algorithm, register_environment, require_digested_modules
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun
from dprl.sources import code_digest, plugin_modules, plugin_sources, results_version, used_packages
from tests.platform.processes import SMALL

pytestmark = pytest.mark.usefixtures("one_drawing")

REGISTRIES: tuple[dict[str, Any], ...] = (ALGORITHMS, ENVIRONMENTS, MDPS)


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that names plugins with modules in `tmp_path`; registries are restored afterwards."""
    before = [dict(registry) for registry in REGISTRIES]
    loaded = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def name(*modules: str) -> None:
        monkeypatch.setenv("DPRL_PLUGINS", ",".join(modules))
        plugin_modules.cache_clear()
        used_packages.cache_clear()
        results_version.cache_clear()
        load_plugins.cache_clear()

    name()
    yield name
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)
    for module in set(sys.modules) - loaded:
        if module.startswith("ours"):
            del sys.modules[module]
    monkeypatch.undo()
    plugin_modules.cache_clear()
    used_packages.cache_clear()
    results_version.cache_clear()
    load_plugins.cache_clear()


def part(below: type[Any], name: str, module: str = "ours") -> type[Any]:
    return type("Mine", (below,), {"name": name, "__module__": module})


def test_a_part_of_a_plugin_is_registered(named: Callable[..., None]) -> None:
    named("ours")
    mine, shop = part(PUCBConfig, "my_pucb"), part(RiverSwim, "my_river")
    assert register_algorithm(mine) is ALGORITHMS["my_pucb"] is mine
    assert register_environment(shop) is ENVIRONMENTS["my_river"] is MDPS["my_river"] is shop
    assert gymnasium.make("dprl/Mine-v0", n_states=3, horizon=2).unwrapped is not None
    assert register_algorithm(mine) is mine  # a module that is imported again


def test_a_part_whose_source_would_not_count_is_refused(named: Callable[..., None]) -> None:
    named("other")
    for register, below in ((register_algorithm, PUCBConfig), (register_environment, RiverSwim)):
        with pytest.raises(
            ValueError, match=r"mine must belong to a plugin, got module ours; name it in \$DPRL_PLUGINS"
        ):
            register(part(below, "mine"))
    assert "mine" not in ALGORITHMS
    assert "mine" not in ENVIRONMENTS


def test_a_name_that_is_taken_or_none_is_refused(named: Callable[..., None]) -> None:
    named("ours")
    with pytest.raises(ValueError, match=r"algorithm pucb must have a unique name, got that of dprl.algorithms.pucb"):
        register_algorithm(part(PUCBConfig, "pucb"))
    for name in ("", "two words", None, 7):
        with pytest.raises(ValueError, match="name must be one word, got"):
            register_algorithm(part(PUCBConfig, name))  # type: ignore[arg-type]


def test_an_environment_that_nobody_plays_is_refused(named: Callable[..., None]) -> None:
    named("ours")
    with pytest.raises(ValueError, match="build must be a method of Mine, got none"):
        register_environment(type("Mine", (), {"name": "mine", "builds": FiniteMDP, "__module__": "ours"}))
    with pytest.raises(ValueError, match="builds must be one of FiniteMDP, "):
        register_environment(type("Mine", (), {"name": "mine", "builds": dict, "__module__": "ours"}))
    assert issubclass(RiverSwim.builds, FiniteMDP)


def test_sources_of_plugins_count_in_the_digest(named: Callable[..., None], tmp_path: Path) -> None:
    fresh, seen = results_version.__wrapped__, list[str]()
    seen.append(fresh())
    named("ours")
    seen.append(fresh())  # named, but missing
    (tmp_path / "ours.py").write_text("a = 1\n")
    seen.append(fresh())
    (tmp_path / "ours.py").write_text("a = 2\n")
    seen.append(fresh())
    named("ours", "ours_too.part")
    (tmp_path / "ours_too").mkdir()
    for file in ("__init__.py", "part.py", "other.py"):
        (tmp_path / "ours_too" / file).write_text(f"# {file}\n")
        seen.append(fresh())
    assert len(set(seen)) == len(seen)
    assert seen[-1] == fresh()
    assert {name for name, _ in plugin_sources()} >= {"ours.py", "ours_too/__init__.py", "ours_too/part.py"}
    assert "ours_too" not in sys.modules, "looking for sources must run nothing"
    named()
    assert fresh() == seen[0]


def test_an_edited_plugin_renames_only_cells_that_use_it(named: Callable[..., None], tmp_path: Path) -> None:
    """ours_e imports ours_a, which imports ours_c; ours_b imports nothing, and the imports of ours_d are unknown."""
    texts = {"a": "from ours_c import x\n", "b": "y = 1\n", "c": "x = 1\n", "d": "z = __import__('ours_b')\n"}
    texts["e"] = "import ours_a\n"
    for name, text in texts.items():
        (tmp_path / f"ours_{name}.py").write_text(text)
    named(*(f"ours_{name}" for name in texts))
    assert used_packages(frozenset(["dprl.algorithms.pucb"])) == set()
    assert used_packages(frozenset(["ours_a", "dprl.envs.riverswim"])) == {"ours_a", "ours_c"}
    assert used_packages(frozenset(["ours_e"])) == {"ours_a", "ours_c", "ours_e"}
    assert used_packages(frozenset(["ours_d"])) == {f"ours_{name}" for name in texts}
    fresh = results_version.__wrapped__
    packages = {name: used_packages(frozenset([f"ours_{name}"])) for name in texts} | {"none": frozenset()}

    def digests() -> dict[str, str]:
        return {name: fresh(found) for name, found in packages.items()}

    before = digests()
    for edited, renamed in (("b", {"b", "d"}), ("c", {"a", "c", "d", "e"})):
        (tmp_path / f"ours_{edited}.py").write_text(texts[edited] + "more = 1\n")
        assert {name for name, digest in digests().items() if digest != before[name]} == renamed
        before = digests()
    named()
    assert before["none"] == fresh() == fresh(frozenset())


def test_a_package_with_compiled_files_uses_all_plugins(
    named: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ours_a").mkdir()
    for name in ("__init__.py", "fast.so"):
        (tmp_path / "ours_a" / name).touch()
    (tmp_path / "ours_b.py").touch()
    named("ours_a", "ours_b")
    assert used_packages(frozenset(["ours_a.part"])) == {"ours_a", "ours_b"}
    monkeypatch.setattr(plugins, "results_version", lambda packages="all": str(packages))
    assert plugins.version_of_parts(PUCBConfig, RiverSwim) == str(frozenset())


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "ModuleNotFoundError"),
        ("import nowhere_at_all\n", "ModuleNotFoundError"),
        ("def f(:\n", "SyntaxError"),
        ("raise ValueError('a\\nb')\n", "ValueError"),
        ("undefined\n", "NameError"),
        ("import math\nmath.nothing\n", "AttributeError"),
        ("{}['a']\n", "KeyError"),
        ("open('/nowhere/at/all')\n", "FileNotFoundError"),
        ("raise RuntimeError('no device')\n", "RuntimeError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import numba\nnumba.njit('f8(f8)')(lambda x: x + 'a')\n", "TypingError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_reported_in_one_line(
    source: str | None, reason: str, named: Callable[..., None], tmp_path: Path
) -> None:
    if source is not None:
        (tmp_path / "ours.py").write_text(source)
    named("ours")
    with pytest.raises(UserError, match=rf"^DPRL_PLUGINS: must be modules that can be imported \({reason}") as caught:
        load_plugins()
    assert "\n" not in str(caught.value)
    assert "PYTHONPATH" in str(caught.value)


@pytest.mark.parametrize("name", ["__main__", ".", "a b", "ours..part"])
def test_what_names_no_module_is_reported_in_one_line(name: str, named: Callable[..., None]) -> None:
    named(name)
    with pytest.raises(UserError, match=r"^DPRL_PLUGINS: must be names of modules"):
        load_plugins()


def test_a_module_beside_a_plugin_must_be_named_too(named: Callable[..., None], tmp_path: Path) -> None:
    """Its source would be in no digest, so another version would count as the same cell."""
    code_digest()
    (tmp_path / "ours.py").write_text("import ours_helper\n")
    (tmp_path / "ours_helper.py").write_text("scale = 1.0\n")
    named("ours")
    with pytest.raises(UserError, match=r"must name every module of yours .* got 'ours_helper'"):
        load_plugins()
    del sys.modules["ours"], sys.modules["ours_helper"]
    named("ours", "ours_helper")
    with pytest.raises(UserError, match="same sources as at the start of the program"):
        load_plugins()  # written after this process computed its digest


def test_a_module_that_a_plugin_imports_late_is_refused(
    named: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before any result is kept; another version could draw other noise for the same cell."""
    monkeypatch.setattr(plugins, "_AT_IMPORT", frozenset(sys.modules))
    monkeypatch.setattr(plugins, "_digested", set())
    (tmp_path / "ours.py").write_text("def plan():\n    import ours_late\n")
    (tmp_path / "ours_late.py").write_text("scale = 1.0\n")
    require_digested_modules([])
    importlib.import_module("ours_late")
    require_digested_modules([])  # of no plugin
    named("ours")
    with pytest.raises(UserError, match=r"must name every module of yours .* got 'ours_late'"):
        require_digested_modules([])
    run = CellRun(read_experiment(SMALL), CellFolder(tmp_path / "cell"))
    with pytest.raises(UserError, match="ours_late"):
        run.advance(60.0)
    assert not (tmp_path / "cell").exists()


@pytest.mark.parametrize(("line", "refused"), [("", False), ("import importlib\n", False), ("import ours_pay\n", True)])
def test_the_module_of_an_environment_is_refused_only_if_a_plugin_imports_it(
    line: str, refused: bool, named: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`env.source` covers it; refusals come with the config, not in the run."""
    monkeypatch.setattr(plugins, "_AT_IMPORT", frozenset(sys.modules))
    monkeypatch.setattr(plugins, "_digested", set())
    monkeypatch.setattr(plugins, "sources_are_unchanged", lambda: True)
    (tmp_path / "ours.py").write_text(f"def plan():\n    {line or 'pass'}\n")
    (tmp_path / "ours_pay.py").write_text(
        "import gymnasium\ngymnasium.register('OursPole-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    named("ours")
    importlib.invalidate_caches()
    load_plugins()
    raw = {
        **SMALL,
        "algorithm": {"name": "dppg", "hidden": "4", "users_per_update": 10},
        "env": {"name": "control", "env_id": "ours_pay:OursPole-v0", "horizon": 5},
    }
    if refused:
        with pytest.raises(UserError, match=r"must name every module of yours .* got 'ours_pay'; add its name"):
            cells_of(raw)
        return
    [cell] = cells_of(raw)
    require_digested_modules([cell.env])
    (tmp_path / "ours_other.py").write_text("")
    importlib.invalidate_caches()
    importlib.import_module("ours_other")
    if line:
        with pytest.raises(UserError, match="got 'ours_other'"):
            require_digested_modules([cell.env])
    else:
        require_digested_modules([cell.env])


def test_all_files_of_a_package_count_also_behind_links(named: Callable[..., None], tmp_path: Path) -> None:
    package, elsewhere = tmp_path / "ours", tmp_path / "elsewhere"
    (package / "__pycache__").mkdir(parents=True)
    elsewhere.mkdir()
    (package / "__pycache__" / "x.pyc").write_bytes(b"")
    for file in (package / "__init__.py", package / "data.json", package / "fast.so", elsewhere / "linked.py"):
        file.write_text("")
    (package / "part").symlink_to(elsewhere)
    named("ours")
    expected = {"ours", "ours/__init__.py", "ours/data.json", "ours/fast.so", "ours/part/linked.py"}
    assert {name for name, _ in plugin_sources()} == expected


def test_workers_find_the_same_plugins(named: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["here", "/there", ""]))
    assert set(worker_environment()) == {"OMP_NUM_THREADS", "RAY_CHDIR_TO_TRIAL_DIR"}
    named("ours", "theirs")
    found = worker_environment()
    assert found["DPRL_PLUGINS"] == "ours,theirs"
    assert found["PYTHONPATH"] == os.pathsep.join([str(Path("here").absolute()), "/there"])


def test_entry_points_are_plugins_too(named: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(group: str) -> list[Any]:
        assert group == "dprl.plugins"
        return [importlib.metadata.EntryPoint("shop", "shop.parts:ignored", group)]

    monkeypatch.setattr("dprl.sources.importlib.metadata.entry_points", entry_points)
    named("ours", "shop.parts")
    assert plugin_modules() == ("ours", "shop.parts")
    named()
    assert plugin_modules() == ("shop.parts",)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("raise ValueError('horizon must be even, got 3; write 4')", "^env.horizon: must be even, got 3; write 4"),
        ("raise ValueError('no')", "^env: no$"),
        ("return {}['x']", r"^env mine: must be built without an error \(KeyError: 'x', line 10\), got 'ours_env.py'"),
    ],
)
def test_errors_in_a_plugins_build_are_a_line(named: Callable[..., None], tmp_path: Path, line: str, told: str) -> None:
    named("ours_env")
    (tmp_path / "ours_env.py").write_text(
        "from dataclasses import dataclass\nfrom dprl.envs import FiniteMDP\n"
        "from dprl.platform.plugins import register_environment\n@register_environment\n@dataclass(frozen=True)\n"
        f"class Mine:\n    name, builds, sizes = 'mine', FiniteMDP, (3, 2, 2)\n    horizon: int = 3\n"
        f"    def build(self):\n        {line}\n"
    )
    importlib.invalidate_caches()
    importlib.import_module("ours_env")
    experiment = read_experiment({**SMALL, "env": {"name": "mine", "horizon": 3}})
    with pytest.raises(UserError, match=told):
        experiment.certificate()


def test_a_module_of_python_itself_is_no_plugin(named: Callable[..., None]) -> None:
    named("json")
    with pytest.raises(UserError, match=r"^DPRL_PLUGINS: must be your own modules, not Python's, got 'json'"):
        load_plugins()


def test_the_name_of_a_file_here_is_told_to_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_shop.py").touch()
    with pytest.raises(UserError, match=r"load my_shop\.py, which is here, by DPRL_PLUGINS=my_shop"):
        read_experiment({**SMALL, "env": {"name": "my_shop"}})
