"""``python -m tests.warm``: compile what most tests run, before they begin.

Else all processes of the tests, and the workers that they start and kill, do so at the same time: on two cores that takes minutes, in which Kafka's
sessions expire.
"""

import subprocess
import sys

from service.commands.run import worker_environment

PARTS = ["tests.crash.models", "benchmarks.preloaded"]


def main() -> int:
    environment = worker_environment()
    running = [subprocess.Popen([sys.executable, "-m", part], env=environment) for part in PARTS]
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
