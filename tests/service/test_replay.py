"""What a replay has to show before a partition goes on. The same with workers: tests/driver/test_past.py."""

import pytest

from explain_sidecar.errors import RecoveryError
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.kafka.checkpoints import Location, Pointer, point
from explain_sidecar.kafka.lifecycle import OwnedPartition
from explain_sidecar.kafka.recovery import Cluster, Target
from explain_sidecar.kafka.sent import Ends
from explain_sidecar.snapshots.signatures import Keys
from tests.folds import fold, settings, values


def replayed(state, published, **recovery):
    """A partition whose replay has ended in one state, while the committed offset is of the other."""
    pointer = Pointer.decode(point("id", published, Location(Ends(0, 1), 0, {})).encode())
    chosen = settings(recovery=recovery)
    partition = OwnedPartition(Cluster(chosen, "id", Keys(), *[None] * 7), published.partition)
    partition.phase, partition.state = "replaying", state
    partition.location = Location(Ends(0, 1), 0, {})
    partition._target = Target(published.next_offset, pointer.fold_digest, pointer.chains)
    partition._after_replay(state.next_offset)
    return partition


@pytest.fixture
def states():
    """Two states that differ in nothing but what has been explained."""
    here, there = PartitionState(settings(), 3), PartitionState(settings(), 3)
    fold(here, values(60))
    there.explained._estimator_groups[0].explain_one = lambda *_: None
    fold(there, values(60))
    assert here.fold_digest == there.fold_digest
    return here, there


def test_the_replay_of_the_state_that_published_goes_on(states):
    for state in states:
        partition = replayed(state, state)
        assert (partition.phase, partition.committed_offset) == ("running", 60)


def test_explanations_that_alone_differ_are_a_divergence_that_names_both_sides(states):
    here, there = states
    chains = [state.chains["explanations"].digest.hex() for state in states]
    with pytest.raises(
        RecoveryError, match=f"chain of explanations {chains[0]} of 6 .* {chains[1]} of 6"
    ) as caught:
        replayed(here, there)
    assert "recovery.on_divergence=continue, recovery.partition=3, recovery.offset=60" in str(caught.value)
    assert "fold digest" not in str(caught.value)


def test_a_divergence_of_the_chains_is_accepted_by_name_and_the_chain_goes_on_unbroken(states):
    here, there = states
    partition = replayed(here, there, on_divergence="continue", partition=3, offset=60)
    assert partition.phase == "running" and partition.location is None
    assert here.chains["explanations"].digest == there.chains["explanations"].digest
    assert here.notices == ["an operator accepted that the replay up to offset 60 diverged"]
