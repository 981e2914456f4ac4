"""Which partition a key belongs to, as Kafka's Java clients choose it: murmur2, so that topics of theirs are co-partitioned."""

from __future__ import annotations

from functools import lru_cache

_M, _MASK = 0x5BD1E995, 0xFFFFFFFF


@lru_cache(maxsize=10_000)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key among so many. The values below are those of the tests of the Java client.

    >>> [partition_of(key, 1000) for key in (b"21", b"foobar", b"a-little-bit-long-string")]
    [340, 166, 112]
    """
    length = len(key)
    h = 0x9747B28C ^ length
    whole = length - length % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return (h & 0x7FFFFFFF) % partitions
