"""What the service runs on is listed completely, and an audit that could not be made is never taken for a good one."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.loopback import serving

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "service.txt"
PINNED = dict(re.findall(r"^(\S+)==(\S+)", LOCK.read_text(), re.MULTILINE))


@contextmanager
def database(known: Mapping[str, list[dict[str, Any]]]) -> Iterator[str]:
    """A database of vulnerabilities on this machine that speaks OSV's protocol; yields its address."""

    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        found = known.get(json.loads(body)["package"]["name"])
        return 200, json.dumps({"vulns": found} if found else {}).encode()

    with serving(answer) as address:
        yield f"{address}/v1/query"


def audit(address: str) -> tuple[int, str]:
    done = subprocess.run(
        [
            sys.executable,
            ROOT / ".ci" / "audit.py",
            LOCK,
            "--vulnerability-service",
            "osv",
            "--osv-url",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_an_audit_of_every_package_without_a_finding_says_so() -> None:
    with database({}) as address:
        status, output = audit(address)
    assert (status, output) == (0, f"audited: {LOCK}: {len(PINNED)} packages, no known vulnerability\n")


def test_a_vulnerable_package_fails_the_audit_and_is_named_with_the_release_that_corrects_it() -> None:
    advisory = {
        "id": "PYSEC-0000-1",
        "affected": [
            {
                "package": {"name": "river", "ecosystem": "PyPI"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}],
            }
        ],
    }
    with database({"river": [advisory]}) as address:
        status, output = audit(address)
    assert status == 1
    assert output.splitlines() == [
        f"VULNERABLE: {LOCK}",
        f"river {PINNED['river']}: PYSEC-0000-1, corrected in 99.1",
    ]


def test_a_database_that_cannot_be_reached_or_read_means_not_audited() -> None:
    with database({"river": [{"id": "PYSEC-0000-1", "affected": [], "published": "?"}]}) as address:
        unreadable = audit(address)
    for status, output in (unreadable, audit(address)):  # the second finds nobody at that address
        assert status == 3
        assert output.startswith(f"NOT AUDITED: {LOCK}: ") and output.count("\n") == 1
        assert "no known vulnerability" not in output


def test_the_bill_of_materials_lists_what_is_locked_with_its_hashes_and_holds_nothing_of_its_run(
    tmp_path: Path,
) -> None:
    makefile = (ROOT / "Makefile").read_text()
    (command,) = re.findall(r"^\t\$\(BIN\)/(cyclonedx-py .*)$", makefile, re.MULTILINE)
    file = tmp_path / "bill.json"
    words = [str(file) if word == "build/sbom.json" else word for word in command.split()]
    subprocess.run(
        [Path(sys.executable).parent / words[0], *words[1:]], cwd=ROOT, check=True, capture_output=True
    )
    bill = json.loads(file.read_bytes())
    assert "serialNumber" not in bill and "timestamp" not in bill["metadata"]
    assert [component["name"] for component in bill["components"]] == sorted(PINNED)
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "explanation-sidecar")
    assert {component["name"]: component["version"] for component in bill["components"]} == PINNED
    for component in bill["components"]:
        assert component["purl"].startswith(f"pkg:pypi/{component['name']}@")
        (distribution,) = component["externalReferences"]
        assert {digest["alg"] for digest in distribution["hashes"]} == {"SHA-256"}


def test_the_full_image_holds_the_same_versions_and_what_its_extras_need() -> None:
    full = dict(re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements" / "full.txt").read_text(), re.MULTILINE))
    assert full.items() >= PINNED.items()
    assert {
        "fastavro",
        "onnxruntime",
        "opentelemetry-sdk",
        "protobuf",
        "rocksdict",
        "skops",
    } <= full.keys() - PINNED.keys()
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert "ARG REQUIREMENTS=service" in dockerfile and "${REQUIREMENTS}.txt" in dockerfile
