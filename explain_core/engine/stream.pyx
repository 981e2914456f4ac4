"""Records, one after another, through what is compiled of an explained model: predicted, explained, learnt, measured, and kept as rows."""

import numpy as np

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from explain_core.engine.arithmetic cimport below
from explain_core.engine.digests cimport digest_words
from explain_core.engine.ensembles cimport predict_ensemble, predict_ensemble_copies
from explain_core.engine.explaining cimport Plan, open_plan, settle_codes, take_in
from explain_core.engine.linear cimport learn_linear, predict_linear, predict_linear_copies
from explain_core.engine.mixture cimport learn_mixture, predict_mixture, predict_mixture_copies
from explain_core.engine.smoothing cimport Measured, measure
from explain_core.engine.trees cimport learn_trees, predict_tree_copies, predict_trees

cpdef enum:
    MOST = 8  # groups of estimators, and reservoirs
    LONGEST = 100  # records of a block


cdef bint explain_by(int family, Plan* p, const int64_t* table, const double* x, double y) noexcept nogil:
    """``settle`` of a record. False too where the plan has the classes in another order than the prediction."""
    cdef Py_ssize_t width
    cdef bint good = True
    cdef double* found
    if family == LINEAR:
        found = predict_linear_copies(table, p, x, &width)
    elif family == TREES:
        found = predict_tree_copies(table, p, x, &width, &good)
    elif family == MIXTURE:
        found = predict_mixture_copies(table, p, x, &width)
    else:
        found = predict_ensemble_copies(table, p, x, family == SHALLOW, &width)
    good = good and settle_codes(p, found, width, y)
    free(found)
    return good


cdef int learn_by(int family, const int64_t* table, const double* x, double y, double weight, bint explained, object room) except -1:
    if family == LINEAR:
        learn_linear(table, x, y, weight)
    elif family == TREES:
        learn_trees(table, x, y, weight, explained, room, 0)
    else:
        learn_mixture(table, x, y, weight, True, explained, room)
    return 0


def predict(int family, const int64_t[::1] table, const double[:, ::1] rows, double[:, ::1] out):
    """Predictions of rows: rows × classes by their codes, or rows × 1."""
    cdef Py_ssize_t n = rows.shape[0], width = rows.shape[1]
    cdef const double* first = &rows[0, 0] if n and width else NULL
    if n == 0 or out.shape[1] == 0:
        return
    if family == LINEAR:
        predict_linear(&table[0], first, n, width, &out[0, 0])
    elif family == TREES:
        predict_trees(&table[0], first, n, width, &out[0, 0], out.shape[1])
    elif family == MIXTURE:
        predict_mixture(&table[0], first, n, width, &out[0, 0])
    else:
        predict_ensemble(&table[0], first, n, width, &out[0, 0], family == SHALLOW)


def explain(int family, const int64_t[::1] plan, const int64_t[::1] table, const double[::1] x, double y):
    """iPFI and iSAGE of a record; ``y`` is the place of its class among the plan's labels, −1 for another one, or a number. See ``settle``.

    ``smooth`` follows where the plan has losses of Python's.
    """
    cdef Plan p
    open_plan(&plan[0], &p)
    if not explain_by(family, &p, &table[0], &x[0] if x.shape[0] else NULL, y):
        return False
    if p.found == NULL:
        take_in(&p)
    return True


def smooth(const int64_t[::1] plan):
    """Smooth the Δ of the record that ``explain`` explained."""
    cdef Plan p
    open_plan(&plan[0], &p)
    take_in(&p)


def learn(int family, const int64_t[::1] table, const double[::1] x, double y, double weight, bint explained, room):
    """Learn a record; ``y`` is the code of its class, or a number.

    ``explained``: whether the record is the one that was explained, or predicted, last, so that the arrays hold what was found of it.
    ``room`` makes room in trees: for so many leaves that learn, for a record of so many features, of the member at that place.
    """
    learn_by(family, &table[0], &x[0] if x.shape[0] else NULL, y, weight, explained, room)


cdef class Stream:
    """What is compiled of an explained model, for records that bring no label, feature, category or player that is new.

    Parameters
    ----------
    model
        Family, table, ``room`` (see ``learn``), and whether it learns.
    plans
        The table of each plan, and which of the reservoirs tells iPFI its slots, −1 for none.
    reservoirs
        The matrix of rows of each, and whether each record enters it: then the slot is drawn.
    performance
        ``numbers``, ``sizes``, ``cells``, ``sums`` and ``decay``, see ``measure``.
    labels
        Of each label its code, and its place in a prediction and among those before; nothing for numbers.
    every
        Of so many records the first is explained.
    leader
        The stream whose draws it repeats, of as many plans and the same reservoirs; each record that it explains, that one explains too.
    """

    cdef int family, n_plans, n_reservoirs, every
    cdef int slots_of[MOST]
    cdef bint enters[MOST]
    cdef bint learns, number, explains
    cdef object room, kept
    cdef Stream leader
    cdef const int64_t[::1] table
    cdef Plan plans[MOST]
    cdef Plan quiet  # the first one, which explains nothing
    cdef uint64_t before[2 * MOST]  # the states of the plans' generators before the record,
    cdef uint64_t drawing[2 * MOST]  # and those that it was explained from
    cdef double* rows[MOST]
    cdef int64_t sizes[MOST]
    cdef Measured measured
    cdef const int64_t[:, ::1] labels
    cdef readonly object predictions, losses, increments, slots, states
    cdef double[:, ::1] predicted, lost, added
    cdef int64_t[:, ::1] drawn
    cdef uint64_t[::1] generators
    cdef const double[:, ::1] records
    cdef const double[::1] ys, weights
    cdef Py_ssize_t taken

    def __init__(
        self, tuple model, list plans, list reservoirs, tuple performance, const int64_t[:, ::1] labels, int every, Stream leader=None
    ):
        cdef const int64_t[::1] plan, sizes
        cdef double[:, ::1] rows, sums
        cdef double[:, :, ::1] cells
        cdef double[::1] numbers
        cdef int i
        self.family, self.table, self.room, self.learns = model
        self.kept, self.labels, self.every, self.number = (plans, reservoirs, performance), labels, every, labels.shape[0] == 0
        self.leader, self.n_plans, self.n_reservoirs = leader, len(plans), len(reservoirs)
        for i in range(self.n_plans):
            plan, self.slots_of[i] = plans[i]
            open_plan(&plan[0], &self.plans[i])
        self.quiet = self.plans[0]
        self.quiet.m = self.quiet.sage_m = self.quiet.steps = 0
        self.quiet.copies = self.quiet.n_predicted = 1
        for i in range(self.n_reservoirs):
            rows, self.enters[i] = reservoirs[i]
            self.rows[i], self.sizes[i] = &rows[0, 0], rows.shape[0]
        numbers, sizes, cells, sums, self.measured.smoothing = performance
        self.measured.numbers, self.measured.sizes = &numbers[0], &sizes[0]
        self.measured.cells, self.measured.sums = &cells[0, 0, 0], &sums[0, 0]
        self.predictions = self.predicted = np.empty((LONGEST, sizes[0]))
        self.losses = self.lost = np.empty((LONGEST, 2 * sizes[2]))
        self.increments = self.added = np.empty((LONGEST, sum([self.plans[i].n_deltas for i in range(self.n_plans)])))
        self.slots = self.drawn = np.empty((LONGEST, self.n_reservoirs), np.int64)
        self.states = self.generators = np.empty(self.n_reservoirs, np.uint64)

    def begin(self, const double[:, ::1] records, const double[::1] ys, const double[::1] weights, Py_ssize_t taken):
        """The records that ``run`` takes in: rows, the places of their labels in ``labels``, or numbers, and weights; ``taken``: how many there were before."""
        self.records, self.ys, self.weights, self.taken = records, ys, weights, taken

    cdef bint explain(self, Py_ssize_t i) except -1:
        """Predict a record, and explain it where that is its turn; ``take_in`` or ``undo`` follows. False where something is not finite."""
        cdef const double* x = &self.records[i, 0]
        cdef double y = self.ys[i] if self.number else <double> self.labels[<Py_ssize_t> self.ys[i], 1]
        cdef Plan* p
        cdef int j
        self.explains = (self.taken + i) % self.every == 0
        if not self.explains:
            return explain_by(self.family, &self.quiet, &self.table[0], x, y)
        for j in range(self.n_plans):
            p = &self.plans[j]
            memcpy(self.before + 2 * j, p.state, 2 * sizeof(uint64_t))
            if self.leader is not None:
                memcpy(p.state, self.leader.drawing + 2 * j, 2 * sizeof(uint64_t))
            elif self.slots_of[j] >= 0:
                p.state[0] = self.generators[self.slots_of[j]]
            memcpy(self.drawing + 2 * j, p.state, 2 * sizeof(uint64_t))
        for j in range(self.n_plans):
            if not explain_by(self.family, &self.plans[j], &self.table[0], x, y):
                return False
        return True

    cdef void undo(self) noexcept:
        """Leave out the record of ``explain``."""
        cdef int j
        for j in range(self.n_plans if self.explains else 0):
            memcpy(self.plans[j].state, self.before + 2 * j, 2 * sizeof(uint64_t))

    cdef int take_in(self, Py_ssize_t i) except -1:
        """Smooth, learn, store and measure the record of ``explain``."""
        cdef Py_ssize_t n = self.measured.sizes[0], width = self.records.shape[1], at = 0
        cdef const double* x = &self.records[i, 0]
        cdef const int64_t* label = NULL
        cdef Plan* p
        cdef int j
        if not self.number:
            label = &self.labels[<Py_ssize_t> self.ys[i], 0]
        for j in range(self.n_plans if self.explains else 0):
            p = &self.plans[j]
            take_in(p)
            memcpy(&self.added[i, at], p.delta, p.n_losses * p.n_players * sizeof(double))
            memcpy(&self.added[i, at] + p.n_losses * p.n_players, p.sage_delta, p.n_losses * p.n_sage_players * sizeof(double))
            at += p.n_deltas
        if self.learns:
            learn_by(self.family, &self.table[0], x, self.ys[i] if self.number else <double> label[0], self.weights[i], True, self.room)
        for j in range(self.n_reservoirs):
            if self.enters[j]:
                self.drawn[i, j] = below(&self.generators[j], self.sizes[j]) if self.leader is None else self.leader.drawn[i, j]
                memcpy(self.rows[j] + self.drawn[i, j] * width, x, width * sizeof(double))
        memcpy(self.measured.numbers + 1, self.plans[0].prediction, n * sizeof(double))
        memcpy(&self.predicted[i, 0], self.plans[0].prediction, n * sizeof(double))
        measure(&self.measured, self.ys[i] if self.number else <double> label[1], 0 if self.number else label[2])
        memcpy(&self.lost[i, 0], self.measured.numbers + 1 + n, 2 * self.measured.sizes[2] * sizeof(double))
        return 0


def run(list streams, Py_ssize_t n):
    """Take in the n records that the streams have begun with, one after another, each by all of them; a leader comes before those that repeat its draws.

    Returns how many, up to one with a prediction or Δ that is not finite, of which nothing has changed. Afterwards ``predictions``, ``losses`` (of the model,
    and of the labels' frequencies), ``increments`` (Δ of iPFI and iSAGE of each plan, where a record is explained) and ``slots`` of a stream are those of the
    records, ``states`` of the leader those of the reservoirs' generators.
    """
    cdef Py_ssize_t i, k, done
    cdef Stream one
    for i in range(n):
        for done in range(len(streams)):
            one = streams[done]
            if not one.explain(i):
                for k in range(done + 1):
                    one = streams[k]
                    one.undo()
                return i
        for one in streams:
            one.take_in(i)
    return n


def chain(bytes digest, const double[:, ::1] rows):
    """``hashlib.blake2b(digest + row, digest_size=16).digest()`` row after row, of which each begins with the digest before."""
    cdef Py_ssize_t width = rows.shape[1], i
    cdef uint64_t[::1] words = np.zeros(2 + width + 16, np.uint64)
    if len(digest) != 16:
        raise ValueError(f"digest: {len(digest)} bytes instead of 16")
    memcpy(&words[0], <const char*> digest, 16)
    for i in range(rows.shape[0]):
        memcpy(&words[2], &rows[i, 0], width * sizeof(double))
        digest_words(&words[0], 2 + width, &words[0])
    return (<const char*> &words[0])[:16]
