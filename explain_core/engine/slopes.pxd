# Gradients of the losses that linear models learn by.

from libc.math cimport exp
from libc.stdint cimport int64_t

cdef enum:  # Slope
    LOG_SLOPE
    SQUARED_SLOPE
    ABSOLUTE_SLOPE


cdef inline double slope(int64_t loss, double y, double r, double positive, double negative) noexcept nogil:
    """Gradient of the loss by the sum r; ``positive`` and ``negative`` are the weights of the classes y = 1 and −1."""
    cdef double weight, z
    if loss == SQUARED_SLOPE:
        return 2.0 * (r - y)
    if loss == ABSOLUTE_SLOPE:
        return 1.0 if r > y else -1.0
    weight = negative if y < 0.0 else positive
    z = r * y
    if z > 18.0:
        return weight * exp(-z) * -y
    if z < -18.0:
        return weight * -y
    return weight * -y / (exp(z) + 1.0)
