"""The process of the join: what it loads."""

from __future__ import annotations

import subprocess
import sys


def test_the_join_does_without_the_models() -> None:
    """Its process would otherwise take 200 MB more, and seconds longer to start."""
    program = "import sys, explain_sidecar.worker, explain_sidecar.join.copies; print([n for n in ('river', 'scipy') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"
