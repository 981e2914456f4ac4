"""A real container engine: the image is built once, from the working tree."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = "explanation-sidecar:test"

if os.environ.get("CI"):
    # Its own image, which removes what a killed test leaves behind, cannot be had everywhere.
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"


def run(*command: str, **environment: str) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def image() -> Iterator[str]:
    assert subprocess.run(["docker", "info"], capture_output=True).returncode == 0, (
        "no Docker engine answers: these tests build the image and run it; start one, or leave out tests/deploy"
    )
    # Through the machine's own network, so that the build reaches the package index that the machine uses.
    run("docker", "build", "--quiet", "--network", "host", "-f", "deploy/Dockerfile", "-t", IMAGE, ".")
    yield IMAGE
