# BLAKE2b of RFC 7693 without a key, on the little-endian processors that the engine is built for.

from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    static const uint64_t FRACTIONS[8] = {
        0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu, 0xA54FF53A5F1D36F1u,
        0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu, 0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u,
    };
    static const unsigned char ORDERS[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    };
    """
    const uint64_t FRACTIONS[8]
    const unsigned char ORDERS[10][16]


cdef inline uint64_t turned(uint64_t x, int by) noexcept nogil:
    return (x >> by) | (x << (64 - by))


cdef inline void mix(uint64_t* v, int a, int b, int c, int d, uint64_t x, uint64_t y) noexcept nogil:
    v[a] += v[b] + x
    v[d] = turned(v[d] ^ v[a], 32)
    v[c] += v[d]
    v[b] = turned(v[b] ^ v[c], 24)
    v[a] += v[b] + y
    v[d] = turned(v[d] ^ v[a], 16)
    v[c] += v[d]
    v[b] = turned(v[b] ^ v[c], 63)


cdef inline void compress(uint64_t* h, const uint64_t* words, uint64_t size, bint last) noexcept nogil:
    """Take 16 words in; ``size`` bytes there are with them."""
    cdef uint64_t v[16]
    cdef const unsigned char* at
    cdef int i
    memcpy(v, h, 64)
    memcpy(v + 8, FRACTIONS, 64)
    v[12] ^= size
    if last:
        v[14] = ~v[14]
    for i in range(12):
        at = ORDERS[i % 10]
        mix(v, 0, 4, 8, 12, words[at[0]], words[at[1]])
        mix(v, 1, 5, 9, 13, words[at[2]], words[at[3]])
        mix(v, 2, 6, 10, 14, words[at[4]], words[at[5]])
        mix(v, 3, 7, 11, 15, words[at[6]], words[at[7]])
        mix(v, 0, 5, 10, 15, words[at[8]], words[at[9]])
        mix(v, 1, 6, 11, 12, words[at[10]], words[at[11]])
        mix(v, 2, 7, 8, 13, words[at[12]], words[at[13]])
        mix(v, 3, 4, 9, 14, words[at[14]], words[at[15]])
    for i in range(8):
        h[i] ^= v[i] ^ v[8 + i]


cdef inline void digest_words(const uint64_t* words, Py_ssize_t n, uint64_t* digest) noexcept nogil:
    """The 16 bytes of n words, behind which zeros follow up to a multiple of 16."""
    cdef uint64_t h[8]
    cdef Py_ssize_t at = 0
    memcpy(h, FRACTIONS, 64)
    h[0] ^= 0x01010010
    while n - at > 16:
        compress(h, words + at, 8 * (at + 16), False)
        at += 16
    compress(h, words + at, 8 * n, True)
    memcpy(digest, h, 16)
