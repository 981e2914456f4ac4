"""The image and the compose file, on a real engine; and a downstream project that tests its consumer with them."""

import json
import math
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from deploy.grafana.dashboard import PANELS, SOMETIMES, build
from explain_client import latest
from explain_client.testing import ExplainSidecarContainer
from explain_sidecar.broker.embedded import free_port
from explain_sidecar.fold.metrics import METRICS
from tests.deploy.conftest import ROOT, run

BASE = "python:3.11-slim-bookworm"
MAX_BYTES = 480_000_000
"""What the image may add to its base."""


def size(name: str) -> int:
    return int(run("docker", "image", "inspect", "--format", "{{.Size}}", name))


def test_the_image_is_small_runs_as_nobody_and_brings_no_build_tools(image: str) -> None:
    added = size(image) - size(BASE)
    assert added < MAX_BYTES, f"{added:,} bytes over the base"
    config = json.loads(run("docker", "image", "inspect", "--format", "{{json .Config}}", image))
    assert config["User"] == "65532:65532"
    listed = "import importlib.metadata as m; print(sorted(package.name for package in m.distributions()))"
    installed = run("docker", "run", "--rm", "--entrypoint", "/opt/sidecar/bin/python", image, "-c", listed)
    assert "'explanation-sidecar'" in installed
    assert not [name for name in ("'pip'", "'setuptools'", "'pytest'") if name in installed]


def test_every_image_of_the_compose_file_can_be_named_by_its_digest() -> None:
    digest = f"@sha256:{'0123456789abcdef' * 4}"
    tags = {
        "PYTHON_IMAGE": "python:3.11-slim-bookworm",
        "KAFKA_IMAGE": "apache/kafka:4.3.0",
        "PROMETHEUS_IMAGE": "prom/prometheus:v3.5.0",
        "GRAFANA_IMAGE": "grafana/grafana:12.1.0",
    }
    compose = ("docker-compose", "-f", "deploy/compose.yaml", "--profile", "monitoring", "config")
    for environment in ({}, {name: tag + digest for name, tag in tags.items()}):
        services = yaml.safe_load(run(*compose, **environment))["services"]
        built = {
            service["build"]["args"]["PYTHON_IMAGE"] for service in services.values() if "build" in service
        }
        pulled = {service["image"] for service in services.values() if "build" not in service}
        assert built | pulled == {environment.get(name, tag) for name, tag in tags.items()}
        assert len(built) == 1
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}


def test_compose_brings_up_a_broker_a_producer_and_a_sidecar_that_is_healthy_and_explains(
    image: str, tmp_path: Path
) -> None:
    kafka, http = str(free_port()), str(free_port())
    environment = {"KAFKA_PORT": kafka, "HTTP_PORT": http}
    compose = ("docker-compose", "-p", f"explain-test-{os.getpid()}", "-f", "deploy/compose.yaml")
    run("docker", "tag", image, "explanation-sidecar:latest")
    try:
        run(*compose, "up", "-d", "--no-build", **environment)
        deadline = time.monotonic() + 200
        ready: dict[str, Any] = {}
        while not (ready.get("ready") and ready.get("partitions") and explained(kafka)):
            assert time.monotonic() < deadline, run(*compose, "logs", "--tail", "50", **environment)
            time.sleep(0.5)
            ready = answer(http, "readyz")
        assert answer(http, "healthz", "sidecar:8080")["healthy"] is True
        assert answer(http, "healthz", "elsewhere:8080") == {}
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=5) as response:
            served = response.read().decode()
        for file in ("chart/files/alerts.yaml", "grafana/dashboard.json"):
            for name in re.findall(r"explain_sidecar_\w+", (ROOT / "deploy" / file).read_text()):
                assert name in served, f"{file} asks for {name}"
        scrape(http, tmp_path)
        newest = latest(f"127.0.0.1:{kafka}", "explanations")
        assert "https" in newest[0].importance("ipfi", "cross_entropy")
        container = run(*compose, "ps", "-q", "sidecar", **environment).strip()
        state = json.loads(run("docker", "inspect", container))[0]
        assert state["HostConfig"]["ReadonlyRootfs"]
        assert state["HostConfig"]["CapDrop"] == ["ALL"]
        assert state["Mounts"] == []
        while json.loads(run("docker", "inspect", container))[0]["State"]["Health"]["Status"] != "healthy":
            assert time.monotonic() < deadline, run(*compose, "logs", "sidecar", **environment)
            time.sleep(0.5)
        # Stopped in order: exit status 0, a snapshot at the committed offset.
        run(*compose, "stop", "sidecar", **environment)
        assert json.loads(run("docker", "inspect", container))[0]["State"]["ExitCode"] == 0
    finally:
        run(*compose, "down", "--timeout", "3", **environment)


def scrape(http: str, folder: Path) -> None:
    """Prometheus with the shipped configuration, its one target and file replaced by ours, sees the metrics and the rules."""
    shipped = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    ours = {
        "sidecar:8080": f"127.0.0.1:{http}",
        "/etc/prometheus/alerts.yaml": str(ROOT / "deploy/chart/files/alerts.yaml"),
    }
    for there, here in ours.items():
        assert there in shipped
        shipped = shipped.replace(there, here)
    (folder / "prometheus.yml").write_text(shipped)
    port = str(free_port())
    options = {
        "config.file": "prometheus.yml",
        "storage.tsdb.path": "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while (
            not answer(port, "api/v1/query?query=explain_sidecar_records_total").get("data", {}).get("result")
        ):
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.5)
        groups = answer(port, "api/v1/rules")["data"]["groups"]
        assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}
        written = (ROOT / "deploy/chart/files/alerts.yaml").read_text().count("- alert:")
        assert sum(len(group["rules"]) for group in groups) == written > 8
        # Grafana itself is not started: what its panels ask for, Prometheus must have.
        queries = [query for _, _, query, _ in PANELS]
        assert len(queries) >= 8
        while empty := [query for query in queries if not values(port, query)]:
            assert time.monotonic() < deadline, f"no data for {empty}"
            time.sleep(0.5)
    finally:
        process.terminate()
        process.wait(30)


def values(port: str, query: str) -> list[float]:
    """The numbers that Prometheus answers a query with now."""
    found = answer(port, f"api/v1/query?query={quote(query)}").get("data", {}).get("result", ())
    return [value for sample in found if not math.isnan(value := float(sample["value"][1]))]


def explained(port: str) -> bool:
    topics = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import explain_client as e; print(len(e.latest('127.0.0.1:{port}', 'explanations')))",
        ],
        capture_output=True,
        text=True,
    )
    return topics.stdout.strip() == "2"


def answer(port: str, path: str, host: str | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}", headers={"Host": host} if host else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            body: dict[str, Any] = json.load(response)
    except (OSError, ValueError):
        return {}
    return body


def test_the_dashboard_in_the_repository_is_that_of_the_code() -> None:
    assert (ROOT / "deploy/grafana/dashboard.json").read_text() == build()


def test_panels_that_may_be_without_data_ask_for_metrics_that_exist() -> None:
    names = {metric.name for metric in METRICS}
    asked = [set(re.findall(r"explain_sidecar_(\w+)", query)) for _, _, query, _ in SOMETIMES]
    assert all(asked) and set().union(*asked) <= names


@pytest.mark.parametrize("model", [{}, {"model.factory": "river.tree:HoeffdingAdaptiveTreeClassifier"}])
def test_models_are_explained_by_compiled_code_that_the_image_has(image: str, model: dict[str, str]) -> None:
    with ExplainSidecarContainer({**model, "emit.every": 100}, image=image) as sidecar:
        sidecar.send({"noise": i * 7 % 11, "age": i % 50, "label": i % 50 > 30} for i in range(300))
        last = sidecar.expect(3, timeout=200)[-1]
        assert {estimator["evaluator"] for estimator in last.estimators.values()} == {"arrays"}
        assert sidecar.container is not None
        there = sidecar.container.exec(["sh", "-c", "ls /opt/sidecar/lib/python*/site-packages"]).output
    assert b"explain_core" in there
    assert not {b"ziglang", b"Cython", b"numba", b"llvmlite"} & set(there.split())


DOWNSTREAM = """
from explain_client import Explanations

def first_feature(servers):
    with Explanations(servers, "explanations", follow=False) as stream:
        return [one.importance("ipfi").top(1)[0][0] for one in stream][-1]

def test_the_consumer_sees_what_drives_the_model(explain_sidecar):
    explain_sidecar.send({"noise": i * 7 % 11, "age": i % 50, "label": i % 50 > 30} for i in range(500))
    assert len(explain_sidecar.expect(5, timeout=200)) == 5
    assert first_feature(explain_sidecar.bootstrap_servers) == "age"
    print("KIND", type(explain_sidecar).__name__)
"""


@pytest.mark.parametrize(
    ("kind", "engine"),
    [("ExplainSidecarContainer", {}), ("InstalledSidecar", {"DOCKER_HOST": "unix:///nonexistent"})],
)
def test_a_downstream_project_tests_its_consumer_in_containers_or_with_the_installed_sidecar(
    image: str, tmp_path: Path, kind: str, engine: dict[str, str]
) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["explain_client.testing"]\n')
    (tmp_path / "test_consumer.py").write_text(DOWNSTREAM)
    before = run("docker", "ps", "--quiet", "--all")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "SIDECAR_IMAGE": image, **engine},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"KIND {kind}" in done.stdout
    assert run("docker", "ps", "--quiet", "--all") == before
