"""``python -m tests.warm``: compile what most tests run, before they begin.

Else all processes of the tests, and the workers that they start and kill, do so at the same time: on two cores that takes minutes, in which Kafka's
sessions expire.
"""

import subprocess
import sys

from explain_core.importance.warm import warm, warm_ensembles
from explain_core.learners.choice import learner_of
from explain_core.models import wrap
from explain_sidecar.commands.supervisor import worker_environment
from explain_sidecar.settings import Settings
from explain_sidecar.warm import warm_up
from tests.crash.models import FAMILIES


def trees() -> None:
    """All trees and forests: they have much in common, which a process compiles once."""
    for task, families in FAMILIES.items():
        for name in ("hoeffding", "adaptive", "arf"):
            model, kind = families[name](0), "regression" if task == "regression" else "classification"
            warm(learner_of(model, kind) or wrap(model, kind))


def others() -> None:
    """The default models, trained ones, drift windows, alarms and segments."""
    by_segment = {"kind": "ipfi", "by": "a"}
    warm_up(Settings(drift={"enabled": True}, alarms={"enabled": True}, explainers=[by_segment]))
    warm_ensembles("classification")


PARTS = [trees, others]


def main() -> int:
    environment = worker_environment()
    command = [sys.executable, "-m", "tests.warm"]
    running = [subprocess.Popen([*command, part.__name__], env=environment) for part in PARTS]
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]]() if sys.argv[1:] else main())
