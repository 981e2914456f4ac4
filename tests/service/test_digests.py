"""Digests: they prove that two folds were the same, and they are the same in every process."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from explain_client.chain import body_of, chained
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.pinned import PINNED
from explain_sidecar.snapshots.snapshot import Versions
from tests.folds import fold, messages, new_state, settings, values


def test_every_message_includes_the_one_before_in_its_digest():
    outputs = fold(new_state(), values(60))
    digest = hashlib.blake2b(b"explanation-sidecar/records/3/0/explanations", digest_size=16).digest()
    for output in outputs:
        digest = chained(digest, body_of(output.value))
        assert json.loads(output.value)["digest"] == digest.hex()


def test_the_fold_digest_depends_on_every_record_and_not_on_what_is_published():
    def digest(given, **sections):
        state = new_state(**sections)
        fold(state, given)
        return state.fold_digest

    given = values(60)
    known = digest(given)
    assert digest(given) == digest(given, emit={"every": 1}) == known
    for i in (0, 30, 59):
        changed = [*given[:i], {**given[i], "label": not given[i]["label"]}, *given[i + 1 :]]
        assert digest(changed) != known
    assert digest(given[:-1]) != known


def test_partitions_epochs_and_seeds_have_streams_of_their_own():
    known = settings()
    states = [
        PartitionState(known, 0),
        PartitionState(known, 1),
        PartitionState(known, 0, epoch=1),
        PartitionState(settings(seed=1), 0),
        PartitionState(settings(app_id="other"), 0),
    ]
    last = [messages(fold(state, values(60)))[-1] for state in states]
    assert len({message["digest"] for message in last}) == 5
    assert len({message["importance"]["ipfi"]["cross_entropy"]["a"]["value"] for message in last}) == 5


FOLDS = [(task, {"name": "mixture"}) for task in ("binary", "multiclass", "regression")] + [
    ("multiclass", {"factory": "river.tree:HoeffdingAdaptiveTreeClassifier"}),
    ("regression", {"factory": "river.forest:AMFRegressor"}),
]


def folded():
    """Digest over messages and fold digests, and the CPU features that a snapshot would name."""
    digest = hashlib.sha256()
    for task, model in FOLDS:
        state = new_state(task=task, model=model)
        for output in fold(state, values(250, task, numeric="factory" in model)):
            digest.update(output.value)
        digest.update(state.fold_digest)
    return f"{digest.hexdigest()} {Versions.here().cpu}".split()


def folded_elsewhere(**environment):
    """The same in another process."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests.service.test_digests import folded; print(*folded())"],
        env={**os.environ, **PINNED, **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_other_hash_seeds_and_cpu_features_give_the_same_bytes():
    digest, features = folded()
    elsewhere, fewer = folded_elsewhere(
        PYTHONHASHSEED="7",
        NPY_DISABLE_CPU_FEATURES="X86_V4 X86_V3",
        OPENBLAS_CORETYPE="Prescott",
        OPENBLAS_NUM_THREADS="2",
    )
    assert elsewhere == digest
    assert fewer != features


COMMAND = """
import os
from explain_sidecar.cli import cli, main

@cli.command()
def probe():
    from explain_sidecar.snapshots.snapshot import Versions
    print(os.environ.get("OMP_NUM_THREADS"), Versions.here().cpu)

main()
"""


def test_a_command_computes_as_the_workers_do():
    """A reset and an import store states under its name, and an upgrade's check folds what workers have published."""
    bare = {name: value for name, value in os.environ.items() if name not in PINNED}
    alike = [
        subprocess.run(
            [sys.executable, "-c", COMMAND, "probe"], env=env, capture_output=True, text=True, timeout=60
        )
        for env in (bare, bare | PINNED)
    ]
    assert alike[0].stdout == alike[1].stdout != "", alike[0].stderr
