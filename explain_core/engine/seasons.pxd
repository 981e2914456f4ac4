# Arithmetic of explain_core.alarms.seasons, whose docstring says what is computed.

from libc.stdint cimport int64_t

cdef enum:
    DAY = 24  # hours
    KNOWN = 2  # periods until a season is known, and is used in place of the one before

cdef extern from *:
    """
    #define HOUR 3600000LL
    #define NEVER (-(1LL << 62))
    """
    const int64_t HOUR  # milliseconds of a slot
    const int64_t NEVER  # the hour before the first record

cdef enum:  # of a slot and subject
    S_COUNT  # records learnt
    S_MEAN
    S_SQUARES
    S_NEW  # records since the slot came last
    S_MEAN_OF_NEW
    S_FIELDS

cdef enum:  # rows of ``seasons``
    IN_USE  # the season in use, −1 for none
    SINCE  # records since it began or since the last change
    MEAN_SINCE  # of what is watched of them
    FIRST_SEASON

cdef enum:  # rows of each season
    ELAPSED  # hours that it knows
    SEEN  # slots learnt
    LEVEL  # mean of their means
    OFFSET  # what the mean of all records is more
    N_ROWS


cdef struct Seasons:
    const int64_t* hours  # of the record before the block, and of its records
    const int64_t* lengths  # slots of each season
    double* profile  # slots × fields × subjects
    int64_t* visits  # the hour in which each slot came last
    double* rows  # rows × subjects
    double* age  # of each subject
    double* centre
    double* reach
    Py_ssize_t n, subjects, records


cdef inline double* slot_at(Seasons* s, int64_t slot, Py_ssize_t j) noexcept nogil:
    """The first field of a slot and subject; the next ones are ``subjects`` apart."""
    return s.profile + slot * S_FIELDS * s.subjects + j


cdef inline double* row_at(Seasons* s, int64_t row, Py_ssize_t j) noexcept nogil:
    return s.rows + row * s.subjects + j


cdef inline bint waits(Seasons* s, Py_ssize_t j) noexcept nogil:
    """Whether a subject's first season is not known yet."""
    return row_at(s, IN_USE, j)[0] < 0.0


cdef inline void learn_slot(Seasons* s, int64_t slot, int64_t row, int64_t k, Py_ssize_t j) noexcept nogil:
    """Add to a slot of season k what came since it came last."""
    cdef Py_ssize_t m = s.subjects
    cdef double* own = slot_at(s, slot, j)
    cdef double* level = row_at(s, row + LEVEL, j)
    cdef double new = own[S_NEW * m], count = own[S_COUNT * m], mean = own[S_MEAN_OF_NEW * m], more, step
    if new == 0.0:
        return
    if k == row_at(s, IN_USE, j)[0] and row_at(s, SINCE, j)[0] > 0.0:
        mean -= row_at(s, MEAN_SINCE, j)[0] - level[0] - row_at(s, row + OFFSET, j)[0]
    more = mean - own[S_MEAN * m]
    if count == 0.0:
        row_at(s, row + SEEN, j)[0] += 1.0
        own[S_MEAN * m] = mean
        level[0] += (mean - level[0]) / row_at(s, row + SEEN, j)[0]
    else:
        step = more * new / (count + new)
        own[S_MEAN * m] += step
        own[S_SQUARES * m] += more * more * count * new / (count + new)
        level[0] += step / row_at(s, row + SEEN, j)[0]
    own[S_COUNT * m] = count + new
    own[S_NEW * m] = 0.0
    own[S_MEAN_OF_NEW * m] = 0.0


cdef inline bint adopt(Seasons* s, Py_ssize_t j, double steps, double warm) noexcept nogil:
    """Choose a subject's season for a block that is so many hours long; whether it is another than before.

    A subject whose first season is not known yet does not age.
    """
    cdef int64_t at = 0, row = FIRST_SEASON, k, slot
    cdef double count, total
    cdef bint begun = False
    cdef Py_ssize_t m = s.subjects
    if s.age[j] < 0.0:
        return False
    for k in range(s.n):
        row_at(s, row + ELAPSED, j)[0] += steps
        if k == row_at(s, IN_USE, j)[0]:  # a clock that goes back takes hours away, but a season in use stays known
            row_at(s, row + ELAPSED, j)[0] = max(row_at(s, row + ELAPSED, j)[0], 1.0)
        if k > row_at(s, IN_USE, j)[0] and row_at(s, row + ELAPSED, j)[0] >= KNOWN * s.lengths[k]:
            count, total = 0.0, 0.0
            for slot in range(at, at + s.lengths[k]):
                learn_slot(s, slot, row, k, j)
                count += slot_at(s, slot, j)[S_COUNT * m]
                total += slot_at(s, slot, j)[S_COUNT * m] * slot_at(s, slot, j)[S_MEAN * m]
            row_at(s, row + OFFSET, j)[0] = total / max(count, 1.0) - row_at(s, row + LEVEL, j)[0]
            row_at(s, IN_USE, j)[0] = <double> k
            row_at(s, SINCE, j)[0] = 0.0
            row_at(s, MEAN_SINCE, j)[0] = 0.0
            begun = True
        at += s.lengths[k]
        row += N_ROWS
    if waits(s, j):
        s.age[j] = 0.0
    elif begun:
        s.age[j] = min(s.age[j], warm)
    return begun


cdef inline double hours_of(Seasons* s) noexcept nogil:
    """Hours of a block. A record with a wrong time goes there and back."""
    cdef double steps = 0.0
    cdef Py_ssize_t i
    for i in range(s.records):
        if s.hours[i] != NEVER:
            steps += <double> min(max(s.hours[i + 1] - s.hours[i], <int64_t> -DAY), <int64_t> DAY)
    return steps


cdef inline int64_t slot_of(int64_t hour, int64_t length) noexcept nogil:
    """The slot of an hour; before 1970 too."""
    cdef int64_t slot = hour % length
    return slot + length if slot < 0 else slot


cdef inline void remove_season(Seasons* s, double* pending, double* variance) noexcept nogil:
    """Take from the values of a block, records × subjects, what their season adds, and keep them for it.

    ``variance`` is that of the sum of the block's records, by the variances of their slots; zeros at first.
    """
    cdef Py_ssize_t m = s.subjects, i, j
    cdef int64_t hour, at, row, k, slot, in_use
    cdef double count, more, x, error
    cdef double* own
    for i in range(s.records):
        hour = s.hours[i + 1]
        at, row = 0, FIRST_SEASON
        for k in range(s.n):
            slot = at + slot_of(hour, s.lengths[k])
            if s.visits[slot] != hour:
                s.visits[slot] = hour
                for j in range(m):
                    learn_slot(s, slot, row, k, j)
            at += s.lengths[k]
            row += N_ROWS
        for j in range(m):
            if s.age[j] < 0.0:
                continue
            in_use, at, more = <int64_t> row_at(s, IN_USE, j)[0], 0, 0.0
            for k in range(s.n):
                own = slot_at(s, at + slot_of(hour, s.lengths[k]), j)
                count = own[S_COUNT * m]
                if k == in_use and count > 0.0:
                    row = FIRST_SEASON + N_ROWS * k
                    more = own[S_MEAN * m] - row_at(s, row + LEVEL, j)[0] - row_at(s, row + OFFSET, j)[0]
                    variance[j] += own[S_SQUARES * m] / (count + own[S_NEW * m])
                at += s.lengths[k]
            x = pending[i * m + j]
            pending[i * m + j] = x - more
            if s.reach[j] > 0.0:
                x = s.centre[j] + more + min(max(x - more - s.centre[j], -s.reach[j]), s.reach[j])
            row_at(s, SINCE, j)[0] += 1.0
            row_at(s, MEAN_SINCE, j)[0] += (x - more - row_at(s, MEAN_SINCE, j)[0]) / row_at(s, SINCE, j)[0]
            at = 0
            for k in range(s.n):
                if k >= in_use:
                    own = slot_at(s, at + slot_of(hour, s.lengths[k]), j)
                    error = x - own[S_MEAN_OF_NEW * m]
                    own[S_NEW * m] += 1.0
                    own[S_MEAN_OF_NEW * m] += error / own[S_NEW * m]
                    own[S_SQUARES * m] += error * (x - own[S_MEAN_OF_NEW * m])
                at += s.lengths[k]


cdef inline void begin_anew(Seasons* s, Py_ssize_t j, int64_t hour) noexcept nogil:
    """After a change from this hour on: forget what came since, which is of another level.

    The season in use then weighs as much as two periods, so that it follows where it changed too.
    """
    cdef Py_ssize_t m = s.subjects
    cdef int64_t in_use = <int64_t> row_at(s, IN_USE, j)[0], at = 0, row, k, slot
    cdef double share, count, kept
    cdef double* own
    if in_use < 0:
        return
    for k in range(in_use):
        at += s.lengths[k]
    row = FIRST_SEASON + N_ROWS * in_use
    share = min(KNOWN * s.lengths[in_use] / row_at(s, row + ELAPSED, j)[0], 1.0)
    row_at(s, row + ELAPSED, j)[0] *= share
    for slot in range(at, at + s.lengths[in_use]):
        own = slot_at(s, slot, j)
        if s.visits[slot] >= hour:
            count = own[S_COUNT * m]
            own[S_SQUARES * m] *= count / max(count + own[S_NEW * m], 1.0)
            own[S_NEW * m] = 0.0
            own[S_MEAN_OF_NEW * m] = 0.0
        learn_slot(s, slot, row, in_use, j)
        count = own[S_COUNT * m]
        if count > 1.0:
            kept = max(count * share, 1.0)
            own[S_SQUARES * m] *= kept / count
            own[S_COUNT * m] = kept
    row_at(s, SINCE, j)[0] = 0.0
    row_at(s, MEAN_SINCE, j)[0] = 0.0
