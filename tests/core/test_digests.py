"""The compiled digest of a stream's records, against that of Python's library."""

import hashlib

import numpy as np
import pytest

from explain_core.engine.stream import chain


@pytest.mark.parametrize("width", [1, 7, 14, 15, 30, 31, 100])
def test_a_chain_of_digests_is_the_librarys(width):
    rng = np.random.default_rng(width)
    rows, digest = rng.normal(size=(9, width)), rng.bytes(16)
    expected = digest
    for row in rows:
        expected = hashlib.blake2b(expected + row.tobytes(), digest_size=16).digest()
    assert chain(digest, rows) == expected


def test_no_records_leave_the_digest():
    assert chain(bytes(range(16)), np.empty((0, 3))) == bytes(range(16))


def test_a_digest_of_another_length_is_refused():
    with pytest.raises(ValueError, match="digest: 15 bytes instead of 16"):
        chain(bytes(15), np.empty((1, 3)))
