"""``python -m explain_sidecar.cli``: ``explain-sidecar``."""

from explain_sidecar.cli import main

main()
