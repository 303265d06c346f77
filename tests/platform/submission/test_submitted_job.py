"""The parts of a submission that need no cluster: its package, its Python, its log and its end."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray.job_submission import JobStatus

from dprl import __version__
from dprl.platform.configs.config import config_files, load_cells, read_config
from dprl.platform.errors import UserError
from dprl.platform.submission import jobs, requirements
from dprl.platform.submission.jobs import JobEnd, JobLog, end_of
from dprl.platform.submission.placement import check_tracking, is_this_machine, storage_on
from dprl.platform.submission.shipping import CONFIG_FILE, pack
from dprl.platform.submitted_job import interpreter_of_ray
from dprl.privacy import source_digest

OTHER_MACHINE = "192.0.2.77"  # RFC 5737: nobody's, unless a sandbox is numbered by it


def process(proc: Path, pid: int, parent: int, *words: str) -> None:
    """Write the files of a process in /proc."""
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")
    (proc / str(pid) / "stat").write_text(f"{pid} (a (strange) name) S {parent} 1 1 0")


def test_what_is_packed_is_what_runs_here(tmp_path: Path) -> None:
    package, job = pack(read_config("smoke"), tmp_path)
    asked = "import dprl.privacy as p, importlib.metadata as m; print(p.source_digest(), m.version('dprl'), p.__file__)"
    # -S: without the dprl of site-packages, but with its dependencies from there.
    paths = [str(package.parent), str(job), *sys.path]
    code = f"import sys; sys.path[:0] = {paths!r}; {asked}"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    digest, version, file = done.stdout.split()
    assert digest == source_digest()
    assert version == importlib.metadata.version("dprl")
    assert file.startswith(str(package))


@pytest.mark.parametrize("name", sorted(config_files()))
def test_a_packed_config_has_the_same_cells(name: str, tmp_path: Path) -> None:
    _, job = pack(read_config(name, ["seed=3"]), tmp_path)
    packed = load_cells(job / CONFIG_FILE)
    assert [cell.digest for cell in packed] == [cell.digest for cell in load_cells(name, ["seed=3"])]
    assert packed[0].name == name


def test_two_packings_are_one_package(tmp_path: Path) -> None:
    first, second = (pack(read_config("smoke"), tmp_path / name) for name in ("one", "two"))
    for ours, theirs in zip(first, second, strict=True):
        files = [{f.relative_to(top): f.read_bytes() for f in top.rglob("*") if f.is_file()} for top in (ours, theirs)]
        assert files[0] == files[1]
        assert len(files[0]) >= 2


def test_the_interpreter_of_ray_is_found(tmp_path: Path) -> None:
    process(tmp_path, 30, 20, "/bin/sh", "-c", "python3 -m ...")
    process(tmp_path, 20, 10, "ray::JobSupervisor")
    process(tmp_path, 10, 1, "/x/raylet", f"--python_worker_command={sys.executable} /x/worker.py --flag", "--more")
    assert interpreter_of_ray(tmp_path, 30) == sys.executable


@pytest.mark.parametrize("command", ["/no/such/python /x/worker.py", "python worker.py", ""])
def test_no_interpreter_of_ray(command: str, tmp_path: Path) -> None:
    process(tmp_path, 20, 10, "ray::JobSupervisor")
    process(tmp_path, 10, 1, "/x/raylet", f"--python_worker_command={command}")
    assert interpreter_of_ray(tmp_path, 20) is None
    assert interpreter_of_ray(tmp_path, 99) is None


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["no-such-library>=3.1", "ray[default]==1.*", "numpy>=2", 'ruff==0.0.1; extra == "dev"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: needed)
    ray = importlib.metadata.version("ray")
    assert requirements.unmet_requirements() == ["no-such-library>=3.1 (found none)", f"ray==1.* (found {ray})"]
    with pytest.raises(UserError, match=r"must have dprl's dependencies, got no-such-library>=3.1 \(found none\)"):
        requirements.require_dependencies()


def test_nothing_is_missing_here() -> None:
    assert requirements.unmet_requirements() == []


def test_the_log_is_shown_once_and_without_rays_lines() -> None:
    shown: list[str] = []
    log = JobLog(shown.append)
    text = (
        "2026-11-22 13:28:50,602\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
        "Running entrypoint for job x: python3 -m y\n"
        "one\n2026-11-22 13:28:50,602\tERROR what is wrong\ntwo\nlast"
    )
    for begin in (0, 40, 170):  # the connection breaks twice, and each new one starts the log from its beginning
        log.begin()
        for place in range(0, begin or len(text) // 2, 7):
            log.add(text[place : place + 7])
    log.begin()
    log.add(text)
    log.close()
    assert shown == ["one", "2026-11-22 13:28:50,602\tERROR what is wrong", "two", "last"]


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"status": JobStatus.SUCCEEDED, "driver_exit_code": 0}, JobEnd("SUCCEEDED", 0, "")),
        ({"status": "FAILED", "driver_exit_code": 1, "message": "m"}, JobEnd("FAILED", 1, "")),
        ({"status": "FAILED", "driver_exit_code": 2, "message": "m"}, JobEnd("FAILED", 2, "")),
        ({"status": "FAILED", "driver_exit_code": -9, "message": "killed"}, JobEnd("FAILED", 1, "killed")),
        ({"status": "FAILED", "driver_exit_code": None, "message": "no env"}, JobEnd("FAILED", 1, "no env")),
        ({"status": "STOPPED", "driver_exit_code": None}, JobEnd("STOPPED", 130, "")),
    ],
)
def test_how_a_job_ended(details: dict[str, Any], expected: JobEnd) -> None:
    assert end_of({**details, "status": str(JobStatus(details["status"]).value)}) == expected


def test_ray_s_own_addresses_do_not_override_the_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise job and token would go to another cluster."""
    found: list[tuple[object, ...]] = []

    def client(url: str, headers: dict[str, str]) -> None:
        found.append((url, headers, "RAY_ADDRESS" in os.environ, "RAY_API_SERVER_ADDRESS" in os.environ))

    monkeypatch.setattr(jobs, "JobSubmissionClient", client)
    monkeypatch.setenv("RAY_ADDRESS", "http://elsewhere:8265")
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    given: Any = SimpleNamespace(url="http://head:8265", headers={"Authorization": "Bearer word"})
    jobs._client(given)
    assert found == [("http://head:8265", {"Authorization": "Bearer word"}, False, False)]
    assert os.environ["RAY_ADDRESS"] == "http://elsewhere:8265"


def test_one_node_that_is_this_machine_needs_no_storage(tmp_path: Path) -> None:
    assert is_this_machine("127.0.0.1")
    assert storage_on(["127.0.0.1"], None, lambda: tmp_path) == str(tmp_path)
    check_tracking(["127.0.0.1"], str(tmp_path), None)
    with pytest.raises(UserError, match="--storage: must be given for a cluster of 2 nodes"):
        storage_on(["127.0.0.1", "127.0.0.1"], None, lambda: tmp_path)


@pytest.mark.parametrize("given", ["/shared/dprl", "file:///shared/dprl"])
def test_a_folder_of_the_nodes_need_not_be_here(given: str, tmp_path: Path) -> None:
    assert storage_on([OTHER_MACHINE], given, lambda: tmp_path) == "/shared/dprl"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("shared/dprl", "must be an absolute path, the same on every node, got 'shared/dprl'; write e.g. --storage /"),
        (
            "s3://bucket/dprl",
            "must be a folder that every node sees, got 's3://bucket/dprl'; mount it and give its path",
        ),
        ("file://", "must be a folder that every node sees, got 'file://'; mount it"),
    ],
)
def test_a_folder_that_the_nodes_cannot_share_is_refused(given: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^--storage: {re.escape(told)}"):
        storage_on([OTHER_MACHINE], given, lambda: tmp_path)


def test_an_address_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"^tracking-uri: must be an address \(.*\), got 'http://\[h'; write e\.g\. http"
    ):
        check_tracking(["127.0.0.1"], "/shared", "http://[h")


def test_a_database_without_a_folder_is_refused() -> None:
    with pytest.raises(UserError, match="tracking-uri: must have an absolute path"):
        check_tracking(["127.0.0.1"], "/shared", "sqlite:///runs.db")


def test_the_example_for_kubernetes(root: Path) -> None:
    documents = list(yaml.safe_load_all((root / "docs" / "kuberay.yaml").read_text()))
    (cluster,) = [one for one in documents if one["kind"] == "RayCluster"]
    assert cluster["apiVersion"] == "ray.io/v1"
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    claims = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "PersistentVolumeClaim"}
    for group in groups:
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        given = {one["name"]: one for one in container["env"]}
        assert container["image"].endswith(f"/dprl:{__version__}")
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"], "else /shared is root's"
        assert given["RAY_AUTH_MODE"]["value"] == "token"
        assert given["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "auth_token"
        (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/shared")
        assert claims[volume["persistentVolumeClaim"]["claimName"]]["accessModes"] == ["ReadWriteMany"]
    assert all(group["minReplicas"] <= group["replicas"] <= group["maxReplicas"] for group in groups[1:])
    (server,) = [one for one in documents if one["kind"] == "Deployment"]
    assert "fsGroup" in server["spec"]["template"]["spec"]["securityContext"]
    assert f"/dprl:{__version__} " in (root / "docs" / "Containerfile").read_text()
    (service,) = [one for one in documents if one["kind"] == "Service"]
    assert service["spec"]["selector"].items() <= server["spec"]["template"]["metadata"]["labels"].items()


def test_job_and_token_go_to_the_address_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would prefer these variables to the given address."""
    made: list[str | None] = []

    class Client:
        def __init__(self, address: str, headers: dict[str, str]) -> None:
            made.extend([address, os.environ.get("RAY_ADDRESS"), os.environ.get("RAY_API_SERVER_ADDRESS")])

    monkeypatch.setattr(jobs, "JobSubmissionClient", Client)
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.setenv(name, "http://192.0.2.9:8265")
    dashboard = SimpleNamespace(url="http://192.0.2.1:8265", headers={"Authorization": "Bearer x"})
    jobs._client(dashboard)  # type: ignore[arg-type]
    assert made == ["http://192.0.2.1:8265", None, None]
    assert os.environ["RAY_ADDRESS"] == "http://192.0.2.9:8265"


NO_AGENT = "Request failed with status code 500: No available agent to submit job, please try again later.."
BUSY = "Request failed with status code 500: something else"
DASHBOARD = SimpleNamespace(url="http://192.0.2.1:8265", headers={})
SHIPMENT = (Path("code"), Path("job"))


class Refusing:
    """A client that refuses a job once for each of `reasons`, and then accepts it."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)

    def submit_job(self, submission_id: str, **_: object) -> str:
        if self.reasons:
            raise RuntimeError(self.reasons.pop(0))
        return submission_id


def test_an_agent_that_is_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "_client", lambda _: Refusing(NO_AGENT, NO_AGENT))
    told: list[str] = []
    assert jobs.submit_job(DASHBOARD, "tiny", [], SHIPMENT, {}, told.append).startswith("tiny-")  # type: ignore[arg-type]
    assert told == [f"waiting    for {DASHBOARD.url} to start the agent for jobs"]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        ([NO_AGENT] * 9, "must have an agent that starts jobs, and has none; another Ray on that machine may hold its"),
        ([BUSY], "must take the job (Request failed with status code 500: something else); see the head's logs"),
        ([NO_AGENT, BUSY], "must take the job (Request failed with status code 500: something else)"),
    ],
)
def test_a_head_that_takes_no_job(reasons: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 0.1)
    client = Refusing(*reasons)
    monkeypatch.setattr(jobs, "_client", lambda _: client)
    with pytest.raises(UserError) as refused:
        jobs.submit_job(DASHBOARD, "tiny", [], SHIPMENT, {}, [].append)  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"--address: {DASHBOARD.url} {said}")
    assert "\n" not in str(refused.value)
    assert len(client.reasons) < max(2, len(reasons))


@pytest.mark.parametrize(
    "uri",
    [
        "http://me:hidden@h:5000",
        "http://hidden@h:5000",
        "postgresql://h/db?user=u&password=hidden",
        "https://h/mlflow?token=hidden",
        "postgresql+psycopg2:///db?sslpassword=hidden",
    ],
)
def test_no_secret_is_handed_in(uri: str) -> None:
    with pytest.raises(UserError, match="must have no user, password or token") as refused:
        check_tracking(["192.0.2.1"], "/shared", uri)
    assert "hidden" not in str(refused.value)
