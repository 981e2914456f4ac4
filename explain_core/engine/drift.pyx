"""Trees on bin codes that grow on two windows of records, and samples of a game between them; see ``explain_core.drift``."""

import numpy as np

from libc.math cimport exp, log
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

ctypedef fused Code:
    unsigned char
    short
    unsigned short
    int
    int64_t


def walk(
    const Code[:, ::1] codes, const int64_t[::1] feature, const unsigned char[:, ::1] left, const int64_t[:, ::1] children, const int64_t[::1] leaf,
    int depth, int64_t[::1] found,
):
    """The leaf of each row of ``CodeTree``, without a branch that a processor could mistake: a leaf is its own child, whatever its code of feature 0 is."""
    cdef Py_ssize_t n = left.shape[0], width = left.shape[1], i, code
    cdef int64_t node
    cdef int level
    cdef int64_t* tested = <int64_t*> malloc((n + n * width) * sizeof(int64_t))
    cdef int64_t* following = tested + n
    for node in range(n):
        tested[node] = max(feature[node], 0)
        for code in range(width):
            following[node * width + code] = children[node, 0 if left[node, code] else 1] if feature[node] >= 0 else node
    for i in range(codes.shape[0]):
        node = 0
        for level in range(depth):
            node = following[node * width + <Py_ssize_t> codes[i, tested[node]]]
        found[i] = leaf[node]
    free(tested)


cdef bint split_classes(
    const double* sums, const int64_t* starts, Py_ssize_t k, Py_ssize_t n_classes, double least, int64_t* feature, int64_t* threshold, double* share,
    double* scratch
) noexcept nogil:
    """Whether a node is split, given the weights of its ranks and classes: where that decreases its weighted impurity most."""
    cdef double* whole = scratch
    cdef double* left = scratch + n_classes
    cdef double n = 0.0, squares = 0.0, before, best, n_left, n_right, on_left, on_right, right, gain
    cdef Py_ssize_t at, c, j
    memset(whole, 0, n_classes * sizeof(double))
    for at in range(starts[0], starts[1]):
        for c in range(n_classes):
            whole[c] += sums[at * n_classes + c]
    for c in range(n_classes):
        n += whole[c]
        squares += whole[c] * whole[c]
    before = squares / n
    best = 1e-9 * n
    for j in range(k):
        memset(left, 0, n_classes * sizeof(double))
        for at in range(starts[j], starts[j + 1] - 1):
            n_left = n_right = on_left = on_right = 0.0
            for c in range(n_classes):
                left[c] += sums[at * n_classes + c]
                right = whole[c] - left[c]
                n_left += left[c]
                n_right += right
                on_left += left[c] * left[c]
                on_right += right * right
            if n_left < least or n_right < least:
                continue
            gain = on_left / n_left + on_right / n_right - before
            if gain > best:
                best = gain
                feature[0], threshold[0], share[0] = j, at - starts[j], n_left / n
    return feature[0] >= 0


def grow(
    const Code[:, ::1] codes, const int64_t[:] y, const double[::1] weights, const int64_t[::1] ranks, const int64_t[::1] starts,
    const unsigned char[::1] lonely, int deepest, double least, int64_t[::1] feature, int64_t[::1] first, unsigned char[:, ::1] left, double[:, ::1] counts,
):
    """Grow ``CodeTree`` level by level; returns its nodes and its depth.

    Node i sends the codes in ``left[i]`` of ``feature[i]`` to node ``first[i]``, and the others to the next. ``counts`` are the weights of the
    classes in each node that is a leaf, ``lonely`` the flags of codes that lie between no others, if any.
    """
    cdef Py_ssize_t k = codes.shape[1], n_classes = counts.shape[1], n_rows = codes.shape[0], cells_of = starts[k], n = 0, row, i, j, at
    cdef int64_t begin = 0, end = 1, following, parent, own
    cdef int depth = 0
    cdef double weight
    cdef bint alone
    cdef double* sums
    cdef double* of_node
    cdef int64_t* rows = <int64_t*> malloc((n_rows * (k + 2) + feature.shape[0]) * sizeof(int64_t) + 8)
    cdef int64_t* cells = rows + n_rows
    cdef int64_t* node = cells + n_rows * k
    cdef int64_t* threshold = node + n_rows
    cdef double* share = <double*> malloc((feature.shape[0] + cells_of + 2 * n_classes) * sizeof(double) + 8)
    cdef double* found = share + feature.shape[0]
    cdef double* scratch = found + cells_of
    memset(share, 0, (feature.shape[0] + cells_of) * sizeof(double))
    memset(threshold, 0, feature.shape[0] * sizeof(int64_t))
    for row in range(n_rows):
        if weights[row] != 0.0:
            rows[n], node[n] = row, 0
            for j in range(k):
                at = starts[j] + ranks[starts[j] + <Py_ssize_t> codes[row, j]]
                cells[n * k + j] = at * n_classes + y[row]
                found[at] += weights[row]
            n += 1
    while k > 0 and depth < deepest and begin < end:
        sums = <double*> malloc((end - begin) * cells_of * n_classes * sizeof(double))
        memset(sums, 0, (end - begin) * cells_of * n_classes * sizeof(double))
        for i in range(n):
            if node[i] >= begin:
                of_node, weight = sums + (node[i] - begin) * cells_of * n_classes, weights[rows[i]]
                for j in range(k):
                    of_node[cells[i * k + j]] += weight
        following = end
        for parent in range(begin, end):
            if split_classes(
                sums + (parent - begin) * cells_of * n_classes, &starts[0], k, n_classes, least, &feature[parent], &threshold[parent], &share[parent], scratch
            ):
                first[parent] = following
                following += 2
                own = feature[parent]
                for at in range(starts[own], starts[own + 1]):
                    alone = lonely.shape[0] > 0 and lonely[at] and found[starts[own] + ranks[at]] == 0.0
                    left[parent, at - starts[own]] = share[parent] > 0.5 if alone else ranks[at] <= threshold[parent]
        free(sums)
        if following > end:
            depth += 1
            for i in range(n):
                own = feature[node[i]]
                if node[i] >= begin and own >= 0:
                    node[i] = first[node[i]] + (0 if left[node[i], <Py_ssize_t> codes[rows[i], own]] else 1)
        begin, end = end, following
    for i in range(n):
        counts[node[i], y[rows[i]]] += weights[rows[i]]
    free(rows)
    free(share)
    return end, depth


cdef extern from *:
    """
    /* Of explain_core.drift.boosting */
    #define GAIN 2.0
    #define LEAST 20.0
    #define SHRINKAGE 2.0
    #define MOST 2.0
    """
    const double GAIN  # log-likelihood, in nats, by which the fit to the other rows must get better for more trees to be kept
    const double LEAST  # rows on both sides of a split
    const double SHRINKAGE  # weight by which the value of a leaf is shrunk to 0
    const double MOST  # log-odds that a tree adds to a row: those of a hundred trees are still odds that a float can hold


cdef struct Terms:  # what a row adds to the sums of its cells
    double gradient
    double curvature
    double count


cdef double deviance(
    const double* state, const double* target, const double[::1] weights, const int64_t[::1] kinds, double* product, bint odds, Py_ssize_t n
) noexcept nogil:
    """``kinds`` are the positions of the rows' weights in ``weights``; ``product`` is as long, all ones."""
    cdef double total = 0.0, o
    cdef Py_ssize_t i
    cdef int64_t kind
    if not odds:
        for i in range(n):
            total += weights[kinds[i]] * ((target[i] - state[i]) * (target[i] - state[i]))
        return total
    # The logarithm of a product is the sum of logarithms, and rows of one weight need one.
    for i in range(n):
        o, kind = state[i], kinds[i]
        product[kind] *= 1.0 + (1.0 / o if target[i] > 0.5 else o)
        if product[kind] > 1e200:
            total += weights[kind] * log(product[kind])
            product[kind] = 1.0
    for kind in range(weights.shape[0]):
        total += weights[kind] * log(product[kind])
        product[kind] = 1.0
    return total


cdef void add_tree(
    const Code[:, ::1] codes, int depth, const int64_t* feature, const int64_t* threshold, const double* value, bint odds, double* state
) noexcept nogil:
    """Add the tree's prediction to that of each row, or multiply the odds by it."""
    cdef Py_ssize_t i, node, leaves = 1 << depth
    cdef int level
    for i in range(codes.shape[0]):
        node = 0
        for level in range(depth):
            node = 2 * node + 1 + (codes[i, feature[node]] > threshold[node])
        if odds:
            state[i] *= value[node - (leaves - 1)]
        else:
            state[i] += value[node - (leaves - 1)]


cdef void best_split(const Terms* sums, Py_ssize_t k, Py_ssize_t width, int64_t* feature, int64_t* threshold) noexcept nogil:
    """The best threshold from the sums, features × codes, of the rows in a node."""
    cdef double g = 0.0, h = 0.0, n = 0.0, best, left_g, left_h, left_n, right_g, left, right, gain
    cdef Py_ssize_t j, code
    for code in range(width):
        g += sums[code].gradient
        h += sums[code].curvature
        n += sums[code].count
    best = g * g / (h + SHRINKAGE) + 1e-9
    for j in range(k):
        left_g = left_h = left_n = 0.0
        for code in range(width - 1):
            left_g += sums[j * width + code].gradient
            left_h += sums[j * width + code].curvature
            left_n += sums[j * width + code].count
            if left_n < LEAST:
                continue
            if n - left_n < LEAST:
                break
            right_g = g - left_g
            left, right = left_h + SHRINKAGE, h - left_h + SHRINKAGE
            gain = left_g * left_g * right + right_g * right_g * left
            if gain > best * left * right:
                best = gain / (left * right)
                feature[0], threshold[0] = j, code


cdef void sum_rows(const Code[:, ::1] codes, const Terms* terms, const int64_t* rows, Py_ssize_t n, Py_ssize_t width, Terms* sums) noexcept nogil:
    cdef Py_ssize_t i, j, k = codes.shape[1]
    cdef Terms* cell
    cdef Terms own
    memset(sums, 0, k * width * sizeof(Terms))
    for i in range(n):
        own = terms[rows[i]]
        for j in range(k):
            cell = sums + j * width + <Py_ssize_t> codes[rows[i], j]
            cell.gradient += own.gradient
            cell.curvature += own.curvature
            cell.count += own.count


cdef void sum_level(
    const Code[:, ::1] codes, const Terms* terms, const int64_t* order, const int64_t* starts, Py_ssize_t nodes, Py_ssize_t width, Terms* cells
) noexcept nogil:
    """From the sums of the parents those of a level's nodes. Of two siblings the smaller is summed; the other is what is left."""
    cdef Py_ssize_t parent, i, size = codes.shape[1] * width
    cdef int64_t first, middle, last
    cdef Terms* left
    cdef Terms* right
    cdef Terms* whole
    cdef Terms own, other
    cdef bint small
    if nodes == 1:
        sum_rows(codes, terms, order, starts[1], width, cells)
        return
    for parent in range(nodes // 2 - 1, -1, -1):
        first, middle, last = starts[2 * parent], starts[2 * parent + 1], starts[2 * parent + 2]
        small = middle - first < last - middle
        left, right, whole = cells + 2 * parent * size, cells + (2 * parent + 1) * size, cells + parent * size
        if small:
            sum_rows(codes, terms, order + first, middle - first, width, right)
        else:
            sum_rows(codes, terms, order + middle, last - middle, width, right)
        for i in range(size):
            own = right[i]
            other = Terms(whole[i].gradient - own.gradient, whole[i].curvature - own.curvature, whole[i].count - own.count)
            left[i] = own if small else other
            right[i] = other if small else own


cdef void part_rows(
    const Code[:, ::1] codes, const int64_t* order, int64_t* rows, int64_t* starts, Py_ssize_t nodes, const int64_t* feature, const int64_t* threshold
) noexcept nogil:
    """Write the rows of each node to ``rows``, those of its left child first."""
    cdef Py_ssize_t node, i
    cdef int64_t first, last, split, most, left, right, row, goes
    for node in range(nodes - 1, -1, -1):
        first, last = starts[node], starts[node + 1]
        split, most = feature[nodes - 1 + node], threshold[nodes - 1 + node]
        left, right = first, last - 1
        for i in range(first, last):
            row = order[i]
            rows[left] = row
            rows[right] = row
            goes = codes[row, split] > most
            left += 1 - goes
            right -= goes
        starts[2 * node + 1], starts[2 * node + 2] = left, last


def boost(
    const Code[:, ::1] codes, const double[::1] target, const double[::1] weights, const Code[:, ::1] others, const double[::1] others_target,
    const double[::1] others_weights, const int64_t[::1] others_kinds, const Code[:, ::1] more, bint odds, Py_ssize_t width, int rounds, int patience,
    int depth, double rate, double[::1] found, double[::1] further,
):
    """Raise the predictions ``found`` of ``others`` and ``further`` of ``more``, which start from a constant; see ``explain_core.drift.boosting``."""
    cdef Py_ssize_t n = codes.shape[0], k = codes.shape[1], leaves = 1 << depth, n_others = others.shape[0], n_more = more.shape[0]
    cdef Py_ssize_t i, node, nodes, leaf
    cdef int level, turn, since = 0
    cdef double best, gain, now, p, g, h
    cdef double* memory = <double*> malloc((n + n_others + n_more + leaves + others_weights.shape[0]) * sizeof(double) + 8)
    cdef double* state = memory
    cdef double* trial = state + n
    cdef double* trial_further = trial + n_others
    cdef double* value = trial_further + n_more
    cdef double* product = value + leaves
    cdef Terms* terms = <Terms*> malloc(n * sizeof(Terms) + 8)
    cdef Terms* cells = <Terms*> malloc((leaves // 2) * k * width * sizeof(Terms) + 8)
    cdef int64_t* integers = <int64_t*> malloc((2 * n + 3 * leaves + 1) * sizeof(int64_t))
    cdef int64_t* order = integers
    cdef int64_t* rows = order + n
    cdef int64_t* feature = rows + n
    cdef int64_t* threshold = feature + leaves
    cdef int64_t* starts = threshold + leaves
    for i in range(n):
        state[i], order[i] = found[0], i
        terms[i].count = 1.0
    for i in range(others_weights.shape[0]):
        product[i] = 1.0
    memcpy(trial, &found[0], n_others * sizeof(double))
    if n_more:
        memcpy(trial_further, &further[0], n_more * sizeof(double))
    best = deviance(trial, &others_target[0], others_weights, others_kinds, product, odds, n_others)
    # In nats; of least squares by the variance that there is at first.
    gain = GAIN if odds else 2.0 * GAIN * best / n_others
    for turn in range(rounds):
        for i in range(n):
            if odds:
                p = 1.0 - 1.0 / (1.0 + state[i])
                terms[i].gradient = weights[i] * (target[i] - p)
                terms[i].curvature = weights[i] * p * (1.0 - p)
            else:
                terms[i].gradient = weights[i] * (target[i] - state[i])
                terms[i].curvature = weights[i]
        starts[0], starts[1] = 0, n
        for level in range(depth):
            nodes = 1 << level
            for node in range(nodes - 1, 2 * nodes - 1):
                feature[node], threshold[node] = 0, width  # not split: all rows go to the left
            sum_level(codes, terms, order, starts, nodes, width, cells)
            for node in range(nodes):
                best_split(cells + node * k * width, k, width, &feature[nodes - 1 + node], &threshold[nodes - 1 + node])
            part_rows(codes, order, rows, starts, nodes, feature, threshold)
            order, rows = rows, order
        for leaf in range(leaves):
            g = h = 0.0
            for i in range(starts[leaf], starts[leaf + 1]):
                g += terms[order[i]].gradient
                h += terms[order[i]].curvature
            value[leaf] = rate * g / (h + SHRINKAGE)
            if odds:
                value[leaf] = exp(min(max(value[leaf], -MOST), MOST))
            for i in range(starts[leaf], starts[leaf + 1]):
                if odds:
                    state[order[i]] *= value[leaf]
                else:
                    state[order[i]] += value[leaf]
        add_tree(others, depth, feature, threshold, value, odds, trial)
        add_tree(more, depth, feature, threshold, value, odds, trial_further)
        now = deviance(trial, &others_target[0], others_weights, others_kinds, product, odds, n_others)
        if now < best - gain:
            best, since = now, 0
            memcpy(&found[0], trial, n_others * sizeof(double))
            if n_more:
                memcpy(&further[0], trial_further, n_more * sizeof(double))
        else:
            since += 1
            if since == patience:
                break
    free(memory)
    free(terms)
    free(cells)
    free(integers)


cdef void shares(const int64_t[:, ::1] rows, const double[::1] weights, double[:, ::1] found) noexcept nogil:
    """The shares of a window's weighted rows in the cells of each factor, factors × cells, into zeros."""
    cdef double whole = 0.0
    cdef Py_ssize_t i, j, cell
    for i in range(weights.shape[0]):
        whole += weights[i]
    for j in range(rows.shape[0]):
        for i in range(weights.shape[0]):
            found[j, rows[j, i]] += weights[i]
        for cell in range(found.shape[1]):
            found[j, cell] /= whole


def play(
    const double[::1] times, const double[::1] node_weights, const int64_t[:, ::1] baseline_rows, const int64_t[:, ::1] target_rows,
    const double[::1] baseline_weights, const double[::1] target_weights, const double[:, :, ::1] drawn, const int64_t[:, :, ::1] draws,
    const int64_t[:, ::1] where, const double[:, :] before, const double[:, :] after, const double[:, :] first, const double[:, :] last, double[::1] values,
    double[::1] variances, double[::1] risks,
):
    """The players' ``values``, their ``variances`` if there is room for them, and the risk at each node; see ``explain_core.drift.routes``.

    ``drawn`` is the mixture of each factor that the draws are from, nodes × factors × cells, ``draws`` the cells, nodes × draws × factors, and
    ``where`` the place of each draw in ``before``, ``after``, ``first`` and ``last``: chances and losses, distinct draws × classes. The draws
    weigh as the mixtures of the weighted rows have them.
    """
    cdef Py_ssize_t nodes = draws.shape[0], n = draws.shape[1], factors = draws.shape[2], width = drawn.shape[2], classes = before.shape[1]
    cdef Py_ssize_t own = values.shape[0] - factors, node, i, j, cell, at, y, player
    cdef double t, mixed, risk, scale, mean, concept, hypothesis, chance, lost, whole, centred, spread
    cdef double[:, ::1] baseline = np.zeros((factors, width)), target = np.zeros((factors, width))
    cdef double[:, ::1] importance = np.empty((factors, width)), ratio = np.empty((factors, width)), parts = np.empty((values.shape[0], n))
    cdef double[::1] g = np.empty(n), weight = np.empty(n)
    shares(baseline_rows, baseline_weights, baseline)
    shares(target_rows, target_weights, target)
    for node in range(nodes):
        t = times[node]
        for j in range(factors):
            for cell in range(width):
                mixed = (1.0 - t) * baseline[j, cell] + t * target[j, cell]
                importance[j, cell] = mixed / max(drawn[node, j, cell], 1e-300)
                ratio[j, cell] = (target[j, cell] - baseline[j, cell]) / max(mixed, 1e-300)
        risk = 0.0
        for i in range(n):
            at, scale = where[node, i], 1.0
            for j in range(factors):
                scale *= importance[j, draws[node, i, j]]
            mean = concept = hypothesis = 0.0
            for y in range(classes):
                chance = (1.0 - t) * before[at, y] + t * after[at, y]
                lost = (1.0 - t) * first[at, y] + t * last[at, y]
                mean += chance * lost
                concept += (after[at, y] - before[at, y]) * lost
                hypothesis += chance * (last[at, y] - first[at, y])
            g[i], weight[i] = mean, scale
            parts[0, i] = concept * scale
            if own == 2:
                parts[1, i] = hypothesis * scale
            risk += scale * mean
        risks[node] = risk / n
        if node_weights[node] == 0.0:
            continue
        # The mean of g is of the same samples: what that takes off the covariance is given back.
        whole = n / (n - 1.0)
        for i in range(n):
            centred = (g[i] - risks[node]) * weight[i] * whole
            for j in range(factors):
                parts[own + j, i] = centred * ratio[j, draws[node, i, j]]
        for player in range(values.shape[0]):
            mean = spread = 0.0
            for i in range(n):
                mean += parts[player, i]
            mean /= n
            values[player] += node_weights[node] * mean
            if variances.shape[0] > 0:
                for i in range(n):
                    spread += (parts[player, i] - mean) * (parts[player, i] - mean)
                variances[player] += node_weights[node] * node_weights[node] * (spread / (n - 1.0)) / n
