# Predictions of a tree for a record and all its copies at once, tree by tree instead of copy by copy.
#
# A walk is that of a drawn row that takes on the record's values: it has the record's value of a column from the step ``since`` on.
# All walks go down a tree together; the steps of one part where a branch sends the row's value and the record's elsewhere. The bits
# are those of predicting each copy by itself.

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from explain_core.engine.adaptive cimport scale_votes, share
from explain_core.engine.bayes cimport factors, majority, normalise, priors, weight_of
from explain_core.engine.explaining cimport Plan, draw
from explain_core.engine.forests cimport aggregate, count_votes, enter, favourite, share_votes, vote_weight
from explain_core.engine.layout cimport *
from explain_core.engine.leaves cimport uses_bayes
from explain_core.engine.targets cimport asks_all, predict_target
from explain_core.engine.walks cimport next_node


cdef struct Part:  # of a walk
    int64_t walk
    int64_t begin  # the steps from here
    int64_t end  # to here
    int64_t times  # how often river's walk came by its node
    int64_t reached  # and to how many leaves


cdef struct Waiting:  # parts that wait at a node
    int64_t node
    int64_t first  # of them in the stack
    int64_t end


cdef struct Walks:
    Trees* t
    Plan* p
    const double* x
    Py_ssize_t columns, n, copies  # n: walks
    int64_t* drawn  # the row of each walk
    double* rows  # columns × walks: the drawn rows
    int64_t* since  # and the step from which on a walk has the record's value; 0 where they are the same
    Part* parts
    int64_t* stack
    int64_t* goals
    int64_t* on
    Waiting* waiting
    # The leaf that was reached last.
    int64_t node
    int64_t n_votes
    int64_t n_observers  # that they depend on
    bint mixes  # whether they depend on all columns at once
    bint ready  # whether the votes for the record's values are there
    int64_t* observers
    int64_t* features  # theirs
    int64_t* done  # whether an observer's terms for the record's value are there
    double* terms  # observers × classes: for the record's values
    double* others  # and for other values
    double* own  # votes for the record's values
    double* other  # and for others
    double* prior
    double* mixed  # a row of values
    void* memory


cdef inline void get_walks(Walks* w, Trees* t, Plan* p, const double* x) noexcept nogil:
    """Draw the walks' rows, and lay out what predictions need."""
    cdef Py_ssize_t columns = t.n_columns, size = t.size, outputs = p.n_predicted, n
    w.t, w.p, w.x, w.columns, w.copies = t, p, x, columns, p.copies
    n = w.n = p.copies + (p.sage_m if p.players > 0 else 0)
    w.memory = malloc(
        8 * (n + 2 * columns * n + 5 * outputs + 3 * outputs + 3 * (outputs + 1) + 4 * columns + (2 * columns + 3) * size)
    )
    w.drawn = <int64_t*> w.memory
    w.rows = <double*> (w.drawn + n)
    w.since = <int64_t*> (w.rows + columns * n)
    w.parts = <Part*> (w.since + columns * n)
    w.stack = <int64_t*> (w.parts + outputs)
    w.goals, w.on = w.stack + outputs, w.stack + 2 * outputs
    w.waiting = <Waiting*> (w.on + outputs)
    w.observers = <int64_t*> (w.waiting + outputs + 1)
    w.features, w.done = w.observers + columns, w.observers + 2 * columns
    w.mixed = <double*> (w.observers + 3 * columns)
    w.terms = w.mixed + columns
    w.others = w.terms + columns * size
    w.own = w.others + columns * size
    w.other, w.prior = w.own + size, w.own + 2 * size
    w.node = -1
    draw_walks(w)


cdef inline void draw_walks(Walks* w) noexcept nogil:
    """The drawn row of each walk, and from which step on it is the record's."""
    cdef Plan* p = w.p
    cdef Py_ssize_t walk, player, place, i, c
    cdef int64_t* drawn = draw(p)
    w.drawn[0] = 0
    for player in range(p.players if p.m > 0 else 0):
        memcpy(w.drawn + 1 + player * p.m, drawn, p.m * sizeof(int64_t))
    memcpy(w.drawn + w.copies, drawn + p.m, (w.n - w.copies) * sizeof(int64_t))
    free(drawn)
    memset(w.since, 0, w.columns * w.n * sizeof(int64_t))
    for player in range(p.players if p.m > 0 else 0):
        for i in range(p.starts[player], p.starts[player + 1]):
            c = p.columns[i]
            for walk in range(1 + player * p.m, 1 + (player + 1) * p.m):
                lay(w, c, walk, 1)
    for place in range(p.players if p.steps > 0 else 0):
        for i in range(p.starts[p.order[place]], p.starts[p.order[place] + 1]):
            c = p.columns[i]
            for walk in range(w.copies, w.n):
                lay(w, c, walk, place + 1 - p.first)


cdef inline void lay(Walks* w, Py_ssize_t c, Py_ssize_t walk, int64_t step) noexcept nogil:
    cdef double z = w.p.rows[w.drawn[walk] * w.p.width + c]
    w.rows[c * w.n + walk] = z
    if not (z == w.x[c] or (z != z and w.x[c] != w.x[c])):
        w.since[c * w.n + walk] = step


cdef inline void reach(Walks* w, int64_t node) noexcept nogil:
    """Make ready for the parts that come to a node that is a leaf: its votes, or what they are made of."""
    cdef Trees* t = w.t
    cdef int64_t leaf = t.nodes[node].leaf, observer, n, k = 0
    cdef double whole
    w.node, w.n_votes, w.n_observers, w.mixes, w.ready = node, 0, 0, False, True
    if t.regression:
        w.n_votes, w.mixes = 1, asks_all(t, leaf)
        w.own[0] = target_at(t, leaf).mean
        return
    n = leaf_at(t, leaf).count
    if not uses_bayes(t, leaf):
        w.n_votes = n
        majority(t, leaf, w.own)
        if t.adaptive:
            scale_votes(t, node, n, w.own)
        return
    whole = weight_of(t, leaf)
    if n == 0 or whole == 0.0:
        return
    w.n_votes, w.ready = n, False
    priors(t, leaf, whole, w.prior)
    observer = leaf_at(t, leaf).first
    while observer >= 0:
        w.observers[k], w.features[k], w.done[k] = observer, t.observers[observer].feature, 0
        k += 1
        observer = t.observers[observer].next
    w.n_observers = k


cdef inline void add_terms(double* votes, const double* terms, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if terms[i] > -INFINITY:
            votes[i] += terms[i]


cdef inline void bayes_votes(Walks* w, int64_t walk, int64_t step, bint first, double* votes) noexcept nogil:
    """Votes of naive Bayes for a step of a walk; ``first`` of those that came together."""
    cdef Trees* t = w.t
    cdef int64_t n = w.n_votes, k, c
    memcpy(votes, w.prior, n * sizeof(double))
    for k in range(w.n_observers):
        c = w.features[k]
        if w.since[c * w.n + walk] > step:
            if first:
                factors(t, w.observers[k], w.rows[c * w.n + walk], w.others + k * t.size, n)
            add_terms(votes, w.others + k * t.size, n)
            continue
        if w.done[k] == 0:
            w.done[k] = 1
            factors(t, w.observers[k], w.x[c], w.terms + k * t.size, n)
        add_terms(votes, w.terms + k * t.size, n)
    normalise(t, votes, n)
    if t.adaptive:
        scale_votes(t, w.node, n, votes)


cdef inline void add_votes(Walks* w, Part* part, int64_t times, double* out, Py_ssize_t stride) noexcept nogil:
    """Add the votes of the leaf reached last to those of a part's steps: ``predict_leaf``; ``stride`` between steps of ``out``."""
    cdef Trees* t = w.t
    cdef int64_t leaf = t.nodes[w.node].leaf, n = w.n_votes, step = part.begin, end, until, k, s, turn, i
    cdef const int64_t* classes = classes_at(t, leaf)
    cdef double* votes
    cdef double* row
    cdef Py_ssize_t c
    while step < part.end:
        end, votes = part.end, w.own
        if w.mixes:
            end, votes = step + 1, w.other
            for c in range(w.columns):
                w.mixed[c] = w.rows[c * w.n + part.walk] if w.since[c * w.n + part.walk] > step else w.x[c]
            votes[0] = predict_target(t, leaf, w.mixed)
        else:
            for k in range(w.n_observers):
                until = w.since[w.features[k] * w.n + part.walk]
                if until > step:
                    end, votes = min(end, until), w.other
            if votes == w.other or not w.ready:
                bayes_votes(w, part.walk, step, step == part.begin, votes)
                if votes == w.own:
                    w.ready = True
        for s in range(step, end):
            row = out + s * stride
            for turn in range(times):
                for i in range(n):
                    row[classes[i]] += votes[i]
        step = end


cdef inline int64_t part_ways(
    Walks* w, int64_t node, int64_t first, int64_t end, int64_t* begin_on, int64_t* end_on, int64_t* known
) noexcept nogil:
    """Send the parts at a branch on; returns the child that the record goes to.

    The parts that go elsewhere stay in their place of the stack, with their goals, up to ``begin_on``; those that go with the record
    come behind them, up to ``end_on``. ``known`` parts there are afterwards.
    """
    cdef Trees* t = w.t
    cdef Node* own = &t.nodes[node]
    cdef int64_t c = own.column, left = own.left, right = own.right
    cdef double threshold = t.splits[node].threshold, value
    cdef bint compares = own.kind == THRESHOLDED
    cdef int64_t by, times, child, off = first, n = 0, i, index, until
    cdef int64_t mine = next_node(t, node, w.x[c], &by)
    cdef Part* part
    for i in range(first, end):
        index = w.stack[i]
        part = &w.parts[index]
        until = w.since[c * w.n + part.walk]
        if until > part.begin:
            value, child, times = w.rows[c * w.n + part.walk], left, 1
            if not compares or value != value:
                child = next_node(t, node, value, &times)
            elif not value <= threshold:
                child = right
            if child != mine or times != by:
                w.stack[off], w.goals[off] = index, child
                off += 1
                part.times = times
                if until >= part.end:
                    continue
                w.parts[known[0]] = part[0]
                w.parts[known[0]].begin, part.end = until, until
                index = known[0]
                known[0] += 1
        w.parts[index].times = by
        w.on[n] = index
        n += 1
    for i in range(n):
        w.stack[off + i] = w.on[i]
    begin_on[0], end_on[0] = off, off + n
    return mine


cdef inline int64_t bit(int64_t column) noexcept nogil:
    """A column in a set of bits; from the 65th on columns share theirs."""
    return <int64_t> 1 << (column & 63)


cdef inline int64_t go_down(Walks* w, int64_t root, int64_t known, double* out) noexcept nogil:
    """The votes of all parts in the stack; returns the columns that they asked for."""
    cdef Trees* t = w.t
    cdef Py_ssize_t size = t.size, stride
    cdef int64_t n = 1 if known > 0 else 0, node, first, end, leaf, begin, mine, asked = 0, k, i, s, times
    cdef Part* part
    cdef bint is_leaf
    w.waiting[0] = Waiting(root, 0, known)
    while n > 0:
        n -= 1
        node, first, end = w.waiting[n].node, w.waiting[n].first, w.waiting[n].end
        while first < end:
            is_leaf = t.nodes[node].kind == LEAF
            leaf = node if is_leaf else t.alternates[node] if t.adaptive else -1
            if leaf >= 0:
                if w.node != leaf:
                    reach(w, leaf)
                for k in range(w.n_observers):
                    asked |= bit(w.features[k])
                if w.mixes:
                    asked = -1
                for i in range(first, end):
                    part = &w.parts[w.stack[i]]
                    stride = size if part.walk < w.copies else w.p.sage_m * size
                    times = 1 if is_leaf else part.times
                    part.reached += 0 if is_leaf else times
                    add_votes(w, part, times, out + part.walk * size, stride)
                    if is_leaf and t.adaptive:
                        for s in range(part.begin, part.end):
                            share(t, part.reached, out + part.walk * size + s * stride)
            if is_leaf:
                break
            asked |= bit(t.nodes[node].column)
            begin = first
            mine = part_ways(w, node, first, end, &first, &end, &known)
            while begin < first:
                w.waiting[n].node, w.waiting[n].first = w.goals[begin], begin
                while begin < first and w.goals[begin] == w.waiting[n].node:
                    begin += 1
                w.waiting[n].end = begin
                n += 1
            node = mine
    return asked


cdef inline void predict_walks(Walks* w, int64_t root, double* out) noexcept nogil:
    """A tree's votes for the record, iPFI's copies of it and, step by step, those of iSAGE: rows × codes."""
    cdef Plan* p = w.p
    cdef Py_ssize_t size = w.t.size, walk, i
    cdef int64_t asked, known = 0, player, k
    cdef bint goes
    memset(out, 0, w.p.n_predicted * size * sizeof(double))
    w.stack[0] = 0
    w.parts[0] = Part(0, 0, 1, 1, 1)
    asked = go_down(w, root, 1, out)
    # iPFI's copies that may be predicted otherwise than the record.
    for walk in range(1, w.copies):
        goes, player = False, (walk - 1) // p.m
        for i in range(p.starts[player], p.starts[player + 1]):
            goes = goes or (asked & bit(p.columns[i]) != 0 and w.since[p.columns[i] * w.n + walk] > 0)
        if goes:
            w.parts[known], w.stack[known] = Part(walk, 0, 1, 1, 1), known
            known += 1
        else:
            memcpy(out + walk * size, out, size * sizeof(double))
    for k in range(p.sage_m if p.steps > 0 else 0):
        w.parts[known], w.stack[known] = Part(w.copies + k, 0, p.steps, 1, 1), known
        known += 1
    go_down(w, root, known, out)


cdef inline bint predict_copies(Walks* w, double* out) noexcept nogil:
    """What a tree learner predicts for the record, iPFI's copies and iSAGE's: probabilities, rows × codes, or numbers, rows × 1.

    Returns whether the plan has the classes in the order of the prediction.
    """
    cdef Trees* t = w.t
    cdef Py_ssize_t size = t.size, c, i
    cdef int64_t member, tree, n = 0, root
    cdef double* vote
    cdef double* values
    cdef int64_t* codes
    cdef int64_t* entered
    cdef bint as_known
    if t.n_members == 0:
        if t.trees[0].root >= 0:
            predict_walks(w, t.trees[0].root, out)
        else:
            memset(out, 0, w.p.n_predicted * size * sizeof(double))
        return True
    vote = <double*> malloc((w.p.n_predicted * size + 2 * size + size + 2 * t.n_members) * sizeof(double))
    codes = <int64_t*> (vote + w.p.n_predicted * size)
    entered = codes + size
    values = <double*> (entered + size)
    if t.regression:
        forest_numbers(w, out, vote, values)
        free(vote)
        return True
    memset(out, 0, w.p.n_predicted * size * sizeof(double))
    memset(entered, 0, size * sizeof(int64_t))
    for member in range(t.n_members):
        tree = t.members[member].foreground
        root = t.trees[tree].root
        n = enter(t, tree, entered, codes, n)
        if root < 0:
            memset(vote, 0, size * sizeof(double))
        else:
            predict_walks(w, root, vote)
        t.guesses[member] = favourite(t, tree, vote)
        if root < 0:
            continue
        for c in range(w.p.n_predicted):
            count_votes(vote + c * size, vote_weight(t, member), codes, n, out + c * size)
    for c in range(w.p.n_predicted):
        share_votes(out + c * size, codes, n, values)
    as_known = n == w.p.n_labels
    for i in range(n if as_known else 0):
        as_known = as_known and codes[i] == w.p.labels[i]
    free(vote)
    return as_known


cdef inline void forest_numbers(Walks* w, double* out, double* vote, double* scratch) noexcept nogil:
    """What a forest of regression trees predicts, rows × 1."""
    cdef Trees* t = w.t
    cdef Py_ssize_t c
    cdef int64_t member, root, n = t.n_members
    cdef double* predicted = <double*> malloc(w.p.n_predicted * n * sizeof(double))
    memset(predicted, 0, w.p.n_predicted * n * sizeof(double))
    for member in range(n):
        root = t.trees[t.members[member].foreground].root
        if root < 0:
            continue
        w.node = -1
        predict_walks(w, root, vote)
        for c in range(w.p.n_predicted):
            predicted[c * n + member] = vote[c]
    for c in range(w.p.n_predicted):
        out[c] = aggregate(t, predicted + c * n, scratch)
    free(predicted)
