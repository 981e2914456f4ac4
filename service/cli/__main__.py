"""``python -m service.cli``: ``explain-sidecar``."""

from service.cli import main

main()
