"""The wheel holds every package, and both kinds of install keep the standard library's `platform`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

pytestmark = pytest.mark.slow

TOP_FOLDERS = ("privacy", "envs", "algorithms", "platform", "papers")
STANDARD = sysconfig.get_path("stdlib")
# Prints where `platform` came from; fails where it is not the standard library's.
PROBE = """
import platform
import dprl.platform.errors
import dprl.privacy
assert platform.system(), platform
assert "errors" not in vars(platform), platform
print(platform.__file__)
"""
RAY_PROBE = """
import ray
from on_ray import start_ray

@ray.remote
def in_worker():
    import platform
    import dprl.algorithms
    import dprl.platform.errors
    return platform.__file__, platform.system()

if __name__ == "__main__":
    start_ray(num_cpus=1)
    file, system = ray.get(in_worker.remote())
    ray.shutdown()
    assert system, file
    print(file)
"""
# Trains with privacy on RLlib; prints the verdict on the claimed epsilon.
RLLIB_PROBE = """
from dprl.algorithms.dppg.on_rllib import DPPGConfig
from on_ray import start_ray

if __name__ == "__main__":
    start_ray(num_cpus=1)
    config = DPPGConfig().environment("CartPole-v1").privacy(model="jdp", epsilon=1.0, delta=1e-6)
    algo = config.training(n_submissions=400, users_per_update=200, horizon=20).build_algo()
    assert algo.train()["dppg"]["epsilon"] > 0.0
    print(algo.certificate().to_dict()["verdict"])
    algo.stop()
"""


def run(*command: str | Path, cwd: Path, code: int = 0, seconds: float = 300) -> str:
    """Run a command with an environment free of Python's own variables; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == code, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout.strip()


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an sdist of a copy, so that the repository stays as it is, and of it the wheel."""
    copy = tmp_path_factory.mktemp("source")
    for top in (*TOP_FOLDERS, "package", "tune_configs", "docs/extending"):
        shutil.copytree(root / top, copy / top, ignore=shutil.ignore_patterns("__pycache__", "kernels"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / file, copy)
    run(sys.executable, "-c", "from setuptools import build_meta; build_meta.build_sdist('dist')", cwd=copy)
    (sdist,) = (copy / "dist").iterdir()
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", copy / "wheel", sdist, cwd=copy)
    (built,) = (copy / "wheel").iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an environment of its own, which borrows the libraries of this one."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, cwd=folder)
    # The path comes after the install: pip must not see this environment's dprl. Its editable hook is not
    # borrowed, because Python reads .pth files in site folders only.
    libraries = sysconfig.get_path("purelib")
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)
    (Path(own) / "borrowed.pth").write_text(f"{libraries}\n")
    return python


@pytest.fixture(scope="module")
def editable(root: Path) -> Path:
    """Return this environment's Python, where `make dev` put an editable install."""
    try:
        text = importlib.metadata.distribution("dprl").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("dprl is not installed here")
    origin = json.loads(text or "{}")
    if not origin.get("dir_info", {}).get("editable") or origin["url"] != root.as_uri():
        pytest.skip("this environment's dprl is not an editable install of this folder")
    return Path(sys.executable)


@pytest.fixture(params=["wheel", "editable"])
def python(request: pytest.FixtureRequest) -> Path:
    """Return an interpreter with dprl, installed in one of the two ways."""
    name = "installed" if request.param == "wheel" else "editable"
    found: Path = request.getfixturevalue(name)
    return found


def test_the_wheel_holds_every_module_and_nothing_else(root: Path, wheel: Path) -> None:
    expected = {
        f"dprl/{path.relative_to(root).as_posix()}"
        for top in TOP_FOLDERS
        for path in (root / top).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    expected |= {
        "dprl/py.typed",
        *(f"dprl/{path.name}" for path in root.glob("package/*.py")),
        *(f"dprl/tune_configs/{path.name}" for path in root.glob("tune_configs/*.yaml")),
        *(f"dprl/{path.relative_to(root / 'docs').as_posix()}" for path in root.glob("docs/extending/*/*.py")),
        *(f"dprl/{path.relative_to(root / 'docs').as_posix()}" for path in root.glob("docs/extending/*/*.yaml")),
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert "dprl/platform/command_line.py" in names


def test_the_two_installs_are_what_they_say(root: Path, installed: Path, editable: Path, tmp_path: Path) -> None:
    where = "import dprl.platform.errors as e, dprl.privacy as p; print(e.__file__, p.__file__)"
    for file in run(installed, "-c", where, cwd=tmp_path).split():
        assert Path(file).is_relative_to(installed.parent.parent)
    for file in run(editable, "-c", where, cwd=tmp_path).split():
        assert Path(file).is_relative_to(root)


@pytest.mark.parametrize("folder", ["repository", "elsewhere"])
def test_platform_is_the_standard_librarys(python: Path, root: Path, tmp_path: Path, folder: str) -> None:
    cwd = root if folder == "repository" else tmp_path
    # -c and -m put the current folder first on the path.
    assert run(python, "-c", PROBE, cwd=cwd).startswith(STANDARD)
    assert "Linux" in run(python, "-m", "platform", cwd=cwd) or sys.platform != "linux"


def test_platform_is_the_standard_librarys_under_pytest(python: Path, root: Path, tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in PROBE.strip().splitlines())
    (tmp_path / "test_probe.py").write_text(f"def test_probe():\n{body}    import pytest, _pytest\n")
    options = ("-q", "-p", "no:cacheprovider", "-c", root / "pyproject.toml", "--rootdir", root)
    assert "1 passed" in run(python, "-m", "pytest", *options, tmp_path / "test_probe.py", cwd=root)


@pytest.mark.cluster
@pytest.mark.timeout(1200)
def test_platform_is_the_standard_librarys_in_a_ray_worker(python: Path, root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "tests" / "on_ray.py", tmp_path)  # beside the probe: this Python need not find the tests
    (tmp_path / "probe.py").write_text(RAY_PROBE)
    assert run(python, tmp_path / "probe.py", cwd=root, seconds=900).splitlines()[-1].startswith(STANDARD)


@pytest.mark.parametrize("name", ["privacy", "envs", "algorithms"])
def test_no_folder_is_importable_by_its_bare_name(python: Path, tmp_path: Path, name: str) -> None:
    search = f"import importlib.util; print(importlib.util.find_spec({name!r}))"
    assert run(python, "-c", search, cwd=tmp_path) == "None"


def test_the_version_is_one_everywhere(python: Path, root: Path, tmp_path: Path) -> None:
    where = "import importlib.metadata, dprl; print(dprl.__version__, importlib.metadata.version('dprl'))"
    first, second = run(python, "-c", where, cwd=tmp_path).split()
    assert first == second
    assert run(python, "-c", where, cwd=root).split() == [first, second]
    assert run(python.parent / "dprl", "--version", cwd=tmp_path) == f"dprl {first}"


def test_the_projects_configs_are_found_by_name(python: Path, tmp_path: Path) -> None:
    found = json.loads(run(python.parent / "dprl", "sweep", "smoke", "--dry-run", "--json", cwd=tmp_path))
    assert found[0]["cell"]
    assert list(tmp_path.iterdir()) == []


def test_the_command_works(python: Path, tmp_path: Path) -> None:
    script = python.parent / "dprl"
    assert "sweep" in run(script, "--help", cwd=tmp_path)
    run(script, "sweep", "no_such_file.yaml", cwd=tmp_path, code=2)
    run(script, "new", "env", "pucb", cwd=tmp_path, code=2)
    assert list(tmp_path.iterdir()) == []


def test_the_citation_names_the_last_release(root: Path) -> None:
    """Between releases the package itself is a development version of the next one."""
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    last = re.findall(r"^## \[(\d[^]]*)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert citation["version"] == last
    ours = Version(importlib.metadata.version("dprl"))
    assert ours == Version(last) or (ours.is_devrelease and ours > Version(last))


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel without extras into an environment that has nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--no-input", wheel, cwd=folder, seconds=900)
    return python


@pytest.mark.timeout(1200)
def test_certificates_and_runs_need_neither_ray_nor_torch(bare: Path, tmp_path: Path) -> None:
    find = "import importlib.util as u; print([name for name in ('ray', 'torch', 'tensorflow') if u.find_spec(name)])"
    assert run(bare, "-c", find, cwd=tmp_path) == "[]"
    # One cell: every trust model compiles for half a minute.
    small = ["episodes=300", "seeds=2", "privacy={model: jdp, epsilon: 10}"]
    script, smoke = bare.parent / "dprl", ("smoke", *(word for value in small for word in ("--set", value)))
    assert "HOLDS" in run(script, "certify", *smoke, cwd=tmp_path)
    assert "columns: docs/metrics.md" in run(script, "run", *smoke, cwd=tmp_path)
    assert "no claim fails" in run(script, "audit", *smoke, "--runs", "2000", cwd=tmp_path)
    report = tmp_path / "dprl_runs" / "sweeps" / "smoke" / "report.html"
    report.unlink()
    run(script, "report", "smoke", cwd=tmp_path)
    assert report.is_file()
    settings = "algorithm='pucb', env='riverswim', privacy={'model': 'jdp', 'epsilon': 1.0}, episodes=1000"
    assert run(bare, "-c", f"import dprl; print(dprl.certify({settings})[0].verdict)", cwd=tmp_path) == "holds"


def test_a_command_that_needs_an_extra_names_it(bare: Path, tmp_path: Path) -> None:
    script = bare.parent / "dprl"
    result = subprocess.run(
        [script, "sweep", "smoke", "--set", "episodes=300"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "ray must be installed for this, got no such package; run: pip install 'dprl[ray]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.cluster
@pytest.mark.timeout(1500)
def test_sweeps_and_rllib_work_with_the_newest_versions_that_pip_finds(root: Path, wheel: Path, tmp_path: Path) -> None:
    """Of torch the version installed here: the newest one may bring gigabytes of CUDA."""
    folder = tmp_path / "newest"
    run(sys.executable, "-m", "venv", folder, cwd=tmp_path)
    python, torch = folder / "bin" / "python", f"torch=={Version(importlib.metadata.version('torch')).public}"
    install = ("-m", "pip", "install", "--quiet", "--no-compile", "--no-input", f"{wheel}[all]", torch)
    try:
        run(python, *install, cwd=tmp_path, seconds=1000)
        small = ("--set", "episodes=300", "--set", "seeds=2", "--set", "privacy={model: jdp, epsilon: 10}", "--json")
        [row] = json.loads(run(python.parent / "dprl", "sweep", "smoke", *small, cwd=tmp_path))["cells"]
        assert row["verdict"] == "holds"
        shutil.copy(root / "tests" / "on_ray.py", tmp_path)
        (tmp_path / "train.py").write_text(RLLIB_PROBE)
        assert run(python, tmp_path / "train.py", cwd=tmp_path).splitlines()[-1] == "holds"
    finally:
        shutil.rmtree(folder)
