"""The generator: known stream, uniform draws, seeds that depend on their parts alone."""

import collections
import itertools
import pickle

import pytest
from scipy import stats

from explain_core.random import Generator, derive_seed


def test_the_stream_is_that_of_splitmix64():
    rng = Generator(1234567)
    assert [rng.next() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_draws_and_permutations_are_uniform():
    rng = Generator(5)
    below = collections.Counter(rng.below(7) for _ in range(7_000))
    orders = collections.Counter(tuple(rng.permutation(3)) for _ in range(6_000))
    assert stats.chisquare([below[i] for i in range(7)]).pvalue > 1e-3
    assert stats.chisquare([orders[order] for order in itertools.permutations(range(3))]).pvalue > 1e-3
    assert stats.kstest([rng.uniform() for _ in range(5_000)], "uniform").pvalue > 1e-3


def test_the_state_is_the_whole_of_the_generator():
    rng = Generator(3)
    rng.below(10)
    other, copy = Generator(0), pickle.loads(pickle.dumps(rng))
    other.state = rng.state
    assert (
        [rng.next() for _ in range(4)] == [other.next() for _ in range(4)] == [copy.next() for _ in range(4)]
    )


@pytest.mark.parametrize("other", [(1, "b"), (2, "a"), ("1", "a", ""), (1, "a", 0)])
def test_a_derived_seed_depends_on_every_part(other):
    assert derive_seed(1, "a") == 17830588005661422861
    assert derive_seed(*other) != derive_seed(1, "a")
