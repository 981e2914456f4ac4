"""``python .ci/audit.py LOCK [options of pip-audit]``: the known vulnerabilities of what a lock file pins.

Exit status: 0 none, 1 some, 3 not audited, as where the database cannot be reached: that is never taken for none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

SOUND, VULNERABLE, NOT_AUDITED = 0, 1, 3


def audit(lock: str, options: Sequence[str] = ()) -> tuple[int, str]:
    """The exit status and what to say."""
    command = ["pip_audit", "--strict", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--format", "json", "--requirement", lock, *options],
        capture_output=True,
        text=True,
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        why = (done.stderr.strip() or f"pip-audit ended with status {done.returncode}").splitlines()[-1]
        return NOT_AUDITED, f"NOT AUDITED: {lock}: {why}"
    skipped = [package["name"] for package in packages if "vulns" not in package]
    if skipped or not packages:
        return NOT_AUDITED, f"NOT AUDITED: {lock}: {', '.join(skipped) or 'no package in it'}"
    found = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"corrected in {', '.join(vulnerability['fix_versions']) or 'no release'}"
        for package in packages
        for vulnerability in package["vulns"]
    ]
    if found:
        return VULNERABLE, "\n".join([f"VULNERABLE: {lock}", *found])
    return SOUND, f"audited: {lock}: {len(packages)} packages, no known vulnerability"


if __name__ == "__main__":
    status, message = audit(sys.argv[1], sys.argv[2:])
    sys.stderr.write(message + "\n")
    sys.exit(status)
