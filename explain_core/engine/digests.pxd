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
    typedef uint64_t four __attribute__((vector_size(32)));

    static inline four turned(four x, int by) {
        return (x >> by) | (x << (64 - by));
    }

    /* Take 16 words in; size bytes there are with them. The four columns of the state are mixed at a time, and then its four diagonals. */
    static inline void compress(uint64_t* h, const uint64_t* words, uint64_t size, int last) {
        four a, b, c, d, x, y;
        memcpy(&a, h, 32);
        memcpy(&b, h + 4, 32);
        memcpy(&c, FRACTIONS, 32);
        memcpy(&d, FRACTIONS + 4, 32);
        d ^= (four){size, 0, last ? ~(uint64_t)0 : 0, 0};
        for (int i = 0; i < 24; i++) {
            const unsigned char* at = ORDERS[i / 2 % 10] + i % 2 * 8;
            x = (four){words[at[0]], words[at[2]], words[at[4]], words[at[6]]};
            y = (four){words[at[1]], words[at[3]], words[at[5]], words[at[7]]};
            a += b + x;
            d = turned(d ^ a, 32);
            c += d;
            b = turned(b ^ c, 24);
            a += b + y;
            d = turned(d ^ a, 16);
            c += d;
            b = turned(b ^ c, 63);
            c = (four){c[2], c[3], c[0], c[1]};
            if (i % 2) {
                b = (four){b[3], b[0], b[1], b[2]};
                d = (four){d[1], d[2], d[3], d[0]};
            } else {
                b = (four){b[1], b[2], b[3], b[0]};
                d = (four){d[3], d[0], d[1], d[2]};
            }
        }
        for (int i = 0; i < 4; i++) {
            h[i] ^= a[i] ^ c[i];
            h[4 + i] ^= b[i] ^ d[i];
        }
    }
    """
    const uint64_t FRACTIONS[8]
    void compress(uint64_t* h, const uint64_t* words, uint64_t size, bint last) noexcept nogil


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
