# iPFI and iSAGE of a model whose predictions compiled code makes: draws before them, losses and smoothing after them.

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from explain_core.engine.arithmetic cimport SQUARED, below, finite, loss_from, total
from explain_core.engine.layout cimport point_to_arrays, rows_of, width_of
from explain_core.engine.smoothing cimport smooth


cdef struct Plan:
    # The arrays of ``explain_core.evaluation.learned`` in their order: what estimators ask, and where their state lies.
    uint64_t* state  # of the generators of iPFI and iSAGE
    double* rows  # of the reservoir
    int64_t* starts  # of each player among the columns
    int64_t* columns
    int64_t* outside  # the columns that are no player's
    int64_t* codes  # of the losses
    int64_t* pairs  # of the losses that are estimated from pairs
    int64_t* counts  # m, sage_m, n_losses, n_players and n_sage_players
    int64_t* order  # in which the players joined
    double* empty  # weight and mean of the model of the empty coalition
    int64_t* labels  # the codes of the classes in the order of a prediction
    double* delta
    double* cells
    double* sums
    double* rates
    double* sage_delta
    double* sage_cells
    double* sage_sums
    double* sage_rates
    double* prediction  # the record's own
    double* after  # ``empty`` once it has seen the record
    double* found  # predictions for the copies, for losses that Python knows alone; NULL where there are none
    int64_t m, sage_m  # inner draws of iPFI and of iSAGE, 0 for none
    Py_ssize_t n_losses, n_players, n_sage_players, n_deltas  # of what they smooth
    Py_ssize_t players, n_rows, width, n_outside, n_labels
    bint with_empty  # whether a model stands for the empty coalition
    # Sizes that follow.
    Py_ssize_t copies  # the record, and iPFI's copies
    Py_ssize_t steps  # coalitions of iSAGE that are predicted
    Py_ssize_t n_predicted  # predictions: of the record, iPFI's copies and iSAGE's
    Py_ssize_t first  # the players of the smallest of them, 0 or 1


cdef inline void open_plan(const int64_t* table, Plan* p) noexcept nogil:
    """The arrays behind a table, and their sizes."""
    cdef const int64_t* counts
    point_to_arrays(p, table, 22)
    counts = p.counts
    p.m, p.sage_m, p.n_losses = counts[0], counts[1], counts[2]
    p.n_players, p.n_sage_players = counts[3], counts[4]
    p.n_deltas = p.n_losses * (p.n_players + p.n_sage_players)
    p.n_rows, p.width, p.players = rows_of(table, 1), width_of(table, 1), width_of(table, 2) - 1
    p.n_outside, p.n_labels, p.with_empty = width_of(table, 4), width_of(table, 10), width_of(table, 9) > 0
    p.copies = 1 + p.players * p.m
    p.first = 1 if p.with_empty else 0
    p.steps = p.players - p.first if p.sage_m > 0 and p.players > 0 else 0
    p.n_predicted = p.copies + p.steps * p.sage_m


cdef inline void draw_rows(uint64_t* state, Py_ssize_t n_rows, int64_t m, int64_t* drawn) noexcept nogil:
    """m rows of the reservoir."""
    cdef int64_t k
    for k in range(m):
        drawn[k] = below(state, n_rows)


cdef inline int64_t* draw(Plan* p) noexcept nogil:
    """The m rows of iPFI and then those of iSAGE, for the caller to free; and the players' permutation into ``order``."""
    cdef int64_t* drawn = <int64_t*> malloc((p.m + p.sage_m) * sizeof(int64_t) + 8)
    cdef Py_ssize_t i
    cdef int64_t j
    draw_rows(p.state, p.n_rows, p.m, drawn)
    if p.sage_m == 0 or p.players < 1:
        return drawn
    draw_rows(p.state + 1, p.n_rows, p.sage_m, drawn + p.m)
    for i in range(p.players):
        p.order[i] = i
    for i in range(p.players - 1, 0, -1):
        j = below(p.state + 1, i + 1)
        p.order[i], p.order[j] = p.order[j], p.order[i]
    return drawn


cdef inline void take_over(Plan* p, Py_ssize_t player, const double* source, double* copy) noexcept nogil:
    """Give a copy what the source has in the player's columns."""
    cdef Py_ssize_t i
    for i in range(p.starts[player], p.starts[player + 1]):
        copy[p.columns[i]] = source[p.columns[i]]


cdef inline double* mixed(Plan* p, const double* own, const double* others) noexcept nogil:
    """The record and its copies, for the caller to free, from what it has in each column, and what the rows that were drawn have there.

    iPFI's are m for each player: the record with the player's columns from each of the rows. iSAGE's are m for each coalition from that of ``first`` players
    up to all but one: the rows with the columns of the coalition, and those that are no player's, from the record.
    """
    cdef Py_ssize_t width = p.width, player, step, i
    cdef int64_t k
    cdef double* copies = <double*> malloc(p.n_predicted * width * sizeof(double) + 8)
    cdef double* copy = copies
    memcpy(copy, own, width * sizeof(double))
    for player in range(p.players if p.m > 0 else 0):
        for k in range(p.m):
            copy += width
            memcpy(copy, own, width * sizeof(double))
            take_over(p, player, others + k * width, copy)
    for step in range(p.steps):
        for k in range(p.sage_m):
            copy += width
            memcpy(copy, others + (p.m + k) * width if step == 0 else copy - p.sage_m * width, width * sizeof(double))
            for i in range(p.n_outside if step == 0 else 0):
                copy[p.outside[i]] = own[p.outside[i]]
            if step + p.first > 0:
                take_over(p, p.order[step + p.first - 1], own, copy)
    return copies


cdef inline double* draw_copies(Plan* p, const double* x) noexcept nogil:
    """Draw; the record and its copies, for the caller to free."""
    cdef int64_t* drawn = draw(p)
    cdef Py_ssize_t n = p.m + (p.sage_m if p.steps > 0 else 0), k
    cdef double* others = <double*> malloc(n * p.width * sizeof(double) + 8)
    cdef double* copies
    for k in range(n):
        memcpy(others + k * p.width, p.rows + drawn[k] * p.width, p.width * sizeof(double))
    copies = mixed(p, x, others)
    free(others)
    free(drawn)
    return copies


cdef inline bint replaced_delta(Plan* p, const double* predictions, double y, Py_ssize_t n) noexcept nogil:
    """iPFI's Δ, losses × players, of predictions of the record and its copies; whether all is finite."""
    cdef Py_ssize_t row, player
    cdef int64_t k
    cdef double value, own
    for row in range(p.n_losses):
        if p.codes[row] < 0:  # Python's
            continue
        own = loss_from(p.codes[row], y, predictions, predictions, n)
        for player in range(p.players):
            value = 0.0
            for k in range(1 + player * p.m, 1 + (player + 1) * p.m):
                value += loss_from(p.codes[row], y, predictions, predictions + k * n, n) - own  # exactly 0 where the player changes nothing
            p.delta[row * p.n_players + player] = value / p.m
            if not isfinite(p.delta[row * p.n_players + player]):
                return False
    return True


cdef inline double mean_loss(
    int64_t code, double y, const double* own, const double* predictions, int64_t m, Py_ssize_t n, bint pairs, double* scratch
) noexcept nogil:
    """``IncrementalSAGE._losses_of``: the loss of the mean of m predictions; ``scratch`` has room for n + m numbers."""
    cdef double* mean = scratch
    cdef double* single = scratch + n
    cdef double value
    cdef Py_ssize_t i, k
    if m == 1:
        return loss_from(code, y, own, predictions, n)
    for i in range(n):
        if code >= SQUARED:
            mean[i] = total(predictions + i, m, n)
        else:
            mean[i] = 0.0
            for k in range(m):
                mean[i] += predictions[k * n + i]
        mean[i] /= m
    value = loss_from(code, y, own, mean, n)
    if pairs:
        for k in range(m):
            single[k] = loss_from(code, y, own, predictions + k * n, n)
        value = (m * value - total(single, m, 1) / m) / (m - 1)
    return value


cdef inline bint joined_delta(
    Plan* p, const double* predictions, const double* base, const double* before, double y, Py_ssize_t n
) noexcept nogil:
    """iSAGE's Δ, losses × players; ``before`` are the losses of the empty coalition where the copies start after it."""
    cdef Py_ssize_t row, step, player, first = p.steps - (p.players - 1)
    cdef double* scratch
    cdef double last, value
    cdef double* delta
    scratch = <double*> malloc((n + p.sage_m) * sizeof(double))
    for row in range(p.n_losses):
        if p.codes[row] < 0:
            continue
        delta, last = p.sage_delta + row * p.n_sage_players, before[row]
        for step in range(p.steps):
            value = mean_loss(
                p.codes[row], y, base, predictions + step * p.sage_m * n, p.sage_m, n, p.pairs[row] != 0, scratch
            )
            if step >= first:
                delta[p.order[step - first]] = last - value
            last = value
        delta[p.order[p.players - 1]] = last - loss_from(p.codes[row], y, base, base, n)
    free(scratch)
    for row in range(p.n_losses):
        for player in range(p.players):
            if not isfinite(p.sage_delta[row * p.n_sage_players + player]):
                return False
    return True


cdef inline void empty_losses(
    const double* empty, double decay, const double* base, Py_ssize_t n, double y, const int64_t* codes, Py_ssize_t n_losses,
    double* after, double* losses, double* mean
) noexcept nogil:
    """``EmptyModel.after`` of the prediction, weight and mean in a row, and its losses; ``mean`` is room for n numbers."""
    cdef double step, rest, whole
    cdef Py_ssize_t i
    after[0] = 1.0 + decay * empty[0]
    step = 1.0 / after[0]
    rest = 1.0 - step
    for i in range(n):
        if codes[0] >= SQUARED:
            after[1 + i] = empty[1 + i] + step * (base[i] - empty[1 + i])
        else:
            after[1 + i] = rest * empty[1 + i] + step * base[i]
        mean[i] = after[1 + i]
    if codes[0] < SQUARED:
        whole = total(mean, n, 1)
        if whole > 0.0:
            for i in range(n):
                mean[i] /= whole
    for i in range(n_losses):
        losses[i] = loss_from(codes[i], y, base, mean, n)


cdef inline bint settle(Plan* p, const double* found, double y) noexcept nogil:
    """Δ from the predictions for the record and its copies, rows × classes in the order of the labels. ``take_in`` smooths them.

    Nothing has changed but ``state``, ``order``, ``prediction``, ``after`` and Δ; False where something is not finite.
    """
    cdef Py_ssize_t n = p.n_labels, k
    cdef double* scratch
    cdef bint good = True
    for k in range(p.n_predicted):
        if not finite(found + k * n, n):
            return False
    memcpy(p.prediction, found, n * sizeof(double))
    if p.m > 0 and not replaced_delta(p, found, y, n):
        return False
    scratch = <double*> malloc((n + p.n_losses) * sizeof(double))
    if p.with_empty:
        empty_losses(p.empty, p.sage_rates[0], found, n, y, p.codes, p.n_losses, p.after, scratch + n, scratch)
    if p.sage_m > 0 and p.players > 0:
        good = joined_delta(p, found + p.copies * n, found, scratch + n, y, n)
    free(scratch)
    return good


cdef inline void take_in(Plan* p) noexcept nogil:
    """Smooth the Δ that ``settle`` found, and let the model of the empty coalition see the prediction."""
    if p.m > 0:
        smooth(p.cells, p.sums, p.rates[0], p.delta, p.n_losses, p.n_players, p.n_players)
    if p.sage_m > 0:
        smooth(p.sage_cells, p.sage_sums, p.sage_rates[0], p.sage_delta, p.n_losses, p.n_sage_players, p.n_sage_players)
        if p.with_empty:
            memcpy(p.empty, p.after, (1 + p.n_labels) * sizeof(double))


cdef inline bint settle_codes(Plan* p, const double* out, Py_ssize_t width, double y) noexcept nogil:
    """``settle``, of predictions rows × classes in the order of their codes."""
    cdef double* found = p.found
    cdef Py_ssize_t c, i
    cdef bint good
    if found == NULL:
        found = <double*> malloc(p.n_predicted * p.n_labels * sizeof(double) + 8)
    for c in range(p.n_predicted):
        for i in range(p.n_labels):
            found[c * p.n_labels + i] = out[c * width + p.labels[i]]
    good = settle(p, found, y)
    if p.found == NULL:
        free(found)
    return good
