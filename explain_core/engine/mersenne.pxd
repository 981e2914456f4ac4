# CPython's random.Random: the Mersenne twister, random, sample, and river's Poisson draws.

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc

cdef enum:
    WORDS = 624


cdef inline uint32_t word(uint32_t* words, int64_t* position) noexcept nogil:
    """The next 32 bits."""
    cdef uint32_t y, value
    cdef int i
    if position[0] >= WORDS:
        for i in range(WORDS):
            y = (words[i] & <uint32_t> 0x80000000) | (words[(i + 1) % WORDS] & <uint32_t> 0x7FFFFFFF)
            value = words[(i + 397) % WORDS] ^ (y >> 1)
            if y & 1:
                value ^= <uint32_t> 0x9908B0DF
            words[i] = value
        position[0] = 0
    y = words[position[0]]
    position[0] += 1
    y ^= y >> 11
    y ^= (y << 7) & <uint32_t> 0x9D2C5680
    y ^= (y << 15) & <uint32_t> 0xEFC60000
    y ^= y >> 18
    return y


cdef inline double uniform(uint32_t* words, int64_t* position) noexcept nogil:
    """``random()``."""
    cdef uint32_t a = word(words, position) >> 5
    cdef uint32_t b = word(words, position) >> 6
    return (<double> a * 67108864.0 + <double> b) * (1.0 / 9007199254740992.0)


cdef inline int64_t poisson(double limit, uint32_t* words, int64_t* position) noexcept nogil:
    """``river.utils.random.poisson``; ``limit`` is exp(−rate)."""
    cdef int64_t k = 0
    cdef double p = 1.0
    while p > limit:
        k += 1
        p *= uniform(words, position)
    return k - 1


cdef inline int64_t randrange(int64_t n, uint32_t* words, int64_t* position) noexcept nogil:
    """``randrange(n)``."""
    cdef int bits = 0
    cdef int64_t rest = n, value
    while rest > 0:
        bits += 1
        rest >>= 1
    value = <int64_t> (word(words, position) >> (32 - bits))
    while value >= n:
        value = <int64_t> (word(words, position) >> (32 - bits))
    return value


cdef inline void sample(
    int64_t n, int64_t k, int64_t copied, int64_t* out, uint32_t* words, int64_t* position
) noexcept nogil:
    """``sample(range(n), k)`` into ``out``; a population of no more than ``copied`` is copied."""
    cdef int64_t i, j, other
    cdef int64_t* pool
    cdef bint again
    if n <= copied:
        pool = <int64_t*> malloc(n * sizeof(int64_t))
        for i in range(n):
            pool[i] = i
        for i in range(k):
            j = randrange(n - i, words, position)
            out[i] = pool[j]
            pool[j] = pool[n - i - 1]
        free(pool)
        return
    for i in range(k):
        again, j = True, 0
        while again:
            j = randrange(n, words, position)
            again = False
            for other in range(i):
                again = again or out[other] == j
        out[i] = j
