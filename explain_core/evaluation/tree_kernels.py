"""iPFI and iSAGE of the learners made of trees in one compiled call, tree by tree instead of copy by copy.

A walk is that of a drawn row that takes on the record's values: it has the record's value of a column from the step ``since`` on.
All walks go down a tree together; the steps of one part where a branch sends the row's value and the record's elsewhere. The bits are
those of predicting each copy by itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import allocating, compiled, inlined, inner
from explain_core.evaluation import learned_kernels as slots
from explain_core.kernels import draw_order, draw_rows, put
from explain_core.learners import layout as at
from explain_core.learners.adaptive import scale_votes, share
from explain_core.learners.arrays import f8, held, held_integers, i1, i8, u8
from explain_core.learners.forest import favourite
from explain_core.learners.forest_regression import aggregate
from explain_core.learners.leaves import is_regression, majority, uses_bayes, weight_of
from explain_core.learners.naive_bayes import factors, normalise, priors
from explain_core.learners.regression_leaves import asks_all, predict_target
from explain_core.learners.walks import next_node
from explain_core.sums import total

WALK, FROM, TO, TIMES, REACHED, N_PART = range(6)
"""Of a part of a walk: the walk, the steps from and to which it is, how often river's walk came by its node, and to how many leaves."""

AT, FIRST, END, N_FRAME = range(4)
"""Of parts that wait at a node: the node, and where they stand in the stack of parts."""

NODE, VOTES, OBSERVERS, MIXES, READY, N_LEAF = range(6)
"""Of the leaf that was met last: its node; how many votes it has, and how many observers they depend on; whether they depend on all
columns at once; whether the votes for the record's values are there. Then for each observer: itself, its column, and whether its terms for the record's value are there."""

# The last rows of ``terms``: the votes for the record's values, the votes for others, and the classes' priors.
OWN, OTHER, PRIOR, N_TERM = -3, -2, -1, 3


@inlined
def bit(column: int) -> Any:
    """A column in a set of bits; from the 65th on columns share theirs."""
    return 1 << (column & 63)


@inner
def meet(table: Any, node: int, met: Any, places: Any, terms: Any) -> None:
    """Make ready for the parts that come to a node that is a leaf: its votes, or what they are made of."""
    leaf, room = i8(table, at.NODES)[node, at.LEAF_OF], (len(met) - N_LEAF) // 3
    leaves, stats, classes = i8(table, at.LEAVES), f8(table, at.STATS), i8(table, at.CLASSES)
    met[NODE], met[VOTES], met[OBSERVERS], met[MIXES], met[READY] = node, 0, 0, 0, 1
    if is_regression(table):
        met[VOTES], met[MIXES] = 1, 1 if asks_all(table, leaf) else 0
        terms[OWN, 0] = f8(table, at.WEIGHTS)[leaf, at.TARGET]
        return
    n = leaves[leaf, at.COUNT]
    if not uses_bayes(table, leaf):
        met[VOTES] = n
        majority(leaf, n, stats, classes, terms[OWN])
        if len(i8(table, at.ALTERNATES)) > 0:
            scale_votes(table, node, n, terms[OWN])
        return
    whole = weight_of(leaf, n, stats, classes)
    if n == 0 or whole == 0.0:
        return
    met[VOTES], met[READY] = n, 0
    priors(leaf, n, whole, stats, classes, places, terms[PRIOR])
    observers, k = i8(table, at.OBSERVERS), 0
    observer = leaves[leaf, at.FIRST]
    while observer >= 0:
        met[N_LEAF + k], met[N_LEAF + 2 * room + k] = observer, 0
        met[N_LEAF + room + k] = observers[observer, at.FEATURE]
        k += 1
        observer = observers[observer, at.NEXT_OBSERVER]
    met[OBSERVERS] = k


@inlined
def add_votes(
    table: Any, node: int, walk: int, a: int, b: int, times: int, x: Any, rows: Any, since: Any, met: Any, places: Any, terms: Any,
    others: Any, mixed: Any, parts: Any, out: Any, first: int, stride: int,
) -> None:  # fmt: skip
    """Add the votes of the leaf met last to those of a walk's steps from a to b: ``leaves.predict_leaf``."""
    leaf, room, n, k_end = i8(table, at.NODES)[node, at.LEAF_OF], len(x), met[VOTES], met[OBSERVERS]
    classes, two = i8(table, at.CLASSES), f8(table, at.NUMBERS)[0, at.TWO]
    observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
    step = a
    while step < b:
        end, of = b, OWN
        if met[MIXES] == 1:
            end, of = step + 1, OTHER
            for c in range(room):
                mixed[c] = rows[c, walk] if since[c, walk] > step else x[c]
            terms[OTHER, 0] = predict_target(table, leaf, mixed)
        else:
            for k in range(k_end):
                until = since[met[N_LEAF + room + k], walk]
                if until > step:
                    end, of = min(end, until), OTHER
        if met[MIXES] == 0 and (of == OTHER or met[READY] == 0):
            put(terms[PRIOR, :n], terms[of])
            for k in range(k_end):
                c = met[N_LEAF + room + k]
                if since[c, walk] > step:
                    if step == a:
                        factors(
                            observers, cells, links, met[N_LEAF + k], rows[c, walk], two, places, others[k], n
                        )
                    for i in range(n):
                        if others[k, i] > -math.inf:
                            terms[of, i] += others[k, i]
                    continue
                if met[N_LEAF + 2 * room + k] == 0:
                    met[N_LEAF + 2 * room + k] = 1
                    factors(observers, cells, links, met[N_LEAF + k], x[c], two, places, terms[k], n)
                for i in range(n):
                    if terms[k, i] > -math.inf:
                        terms[of, i] += terms[k, i]
            normalise(terms[of], n, parts)
            if len(i8(table, at.ALTERNATES)) > 0:
                scale_votes(table, node, n, terms[of])
            if of == OWN:
                met[READY] = 1
        for s in range(step, end):
            for _ in range(times):
                for i in range(n):
                    out[first + s * stride, classes[leaf, i]] += terms[of, i]
        step = end


@inlined
def part_ways(
    table: Any, node: int, first: int, end: int, x: Any, rows: Any, since: Any, stack: Any, goals: Any, on: Any, ways: Any, known: int
) -> Any:  # fmt: skip
    """Send the parts at a branch on: those that do not go with the record stay in their place of the stack, with their goals, the others
    come behind them. Returns where those begin and end, the child that the record goes to, and how many parts there are now.
    """
    nodes, splits = i8(table, at.NODES), f8(table, at.SPLITS)
    c, threshold = nodes[node, at.COLUMN], splits[node, at.THRESHOLD]
    left, right = nodes[node, at.LEFT], nodes[node, at.RIGHT]
    compares = nodes[node, at.KIND] == at.THRESHOLDED
    mine, by = next_node(table, nodes, splits, node, x[c])
    off, n = first, 0
    for i in range(first, end):
        part = stack[i]
        walk, until = ways[part, WALK], since[c, ways[part, WALK]]
        if until > ways[part, FROM]:
            value, child, times = rows[c, walk], left, 1
            if not compares or value != value:
                child, times = next_node(table, nodes, splits, node, value)
            elif not value <= threshold:
                child = right
            if child != mine or times != by:
                stack[off], goals[off] = part, child
                off += 1
                ways[part, TIMES] = times
                if until >= ways[part, TO]:
                    continue
                put(ways[part], ways[known])
                ways[known, FROM], ways[part, TO] = until, until
                part = known
                known += 1
        ways[part, TIMES] = by
        on[n] = part
        n += 1
    for i in range(n):
        stack[off + i] = on[i]
    return off, off + n, mine, known


@inner
def predict_walks(
    table: Any, root: int, plan: Any, x: Any, steps: int, own_rows: Any, own_since: Any, own_stacks: Any, own_ways: Any,
    own_frames: Any, met: Any, places: Any, own_terms: Any, own_others: Any, mixed: Any, parts: Any, own_out: Any,
) -> None:  # fmt: skip
    """A tree's votes for the record, iPFI's copies of it and, step by step, those of iSAGE: rows × codes."""
    rows, since, ways = held(own_rows), held_integers(own_since), held_integers(own_ways)
    stacks, frames = held_integers(own_stacks), held_integers(own_frames)
    terms, others, out = held(own_terms), held(own_others), held(own_out)
    stack, goals, on = stacks[0], stacks[1], stacks[2]
    nodes, alternates = i8(table, at.NODES), i8(table, at.ALTERNATES)
    starts, columns = i8(plan, slots.STARTS), i8(plan, slots.COLUMNS)
    m, sage_m = i8(plan, slots.COUNTS)[0, slots.PFI_DRAWS], i8(plan, slots.COUNTS)[0, slots.SAGE_DRAWS]
    copies, adaptive, asked = 1 + (starts.shape[1] - 1) * m, len(alternates) > 0, 0
    out[:, :] = 0.0
    # The record itself; then those of iPFI's copies that may be predicted otherwise, and iSAGE's.
    for turn in range(2):
        known = 0
        for walk in range(turn, 1 if turn == 0 else copies):
            goes = turn == 0
            for i in range(
                0 if goes else starts[0, (walk - 1) // m], 0 if goes else starts[0, (walk - 1) // m + 1]
            ):
                goes = goes or (asked & bit(columns[0, i]) != 0 and since[columns[0, i], walk] > 0)
            if goes:
                ways[known, WALK], ways[known, FROM], ways[known, TO] = walk, 0, 1
                known += 1
            else:
                put(out[0], out[walk])
        for k in range(sage_m if turn == 1 and steps > 0 else 0):
            ways[known, WALK], ways[known, FROM], ways[known, TO] = copies + k, 0, steps
            known += 1
        for part in range(known):
            ways[part, TIMES], ways[part, REACHED], stack[part] = 1, 1, part
        frames[0, AT], frames[0, FIRST], frames[0, END], n = root, 0, known, 1 if known > 0 else 0
        while n > 0:
            n -= 1
            node, first, end = frames[n, AT], frames[n, FIRST], frames[n, END]
            while first < end:
                is_leaf = nodes[node, at.KIND] == at.LEAF
                leaf = node
                if not is_leaf:
                    leaf = alternates[node, 0] if adaptive else -1
                if leaf >= 0:
                    if met[NODE] != leaf:
                        meet(table, leaf, met, places, terms)
                    for k in range(met[OBSERVERS] if turn == 0 else 0):
                        asked |= bit(met[N_LEAF + len(x) + k])
                    if turn == 0 and met[MIXES] == 1:
                        asked = -1
                    for i in range(first, end):
                        part = stack[i]
                        walk, a, b = ways[part, WALK], ways[part, FROM], ways[part, TO]
                        stride, times = 1 if walk < copies else sage_m, 1 if is_leaf else ways[part, TIMES]
                        ways[part, REACHED] += 0 if is_leaf else times
                        add_votes(
                            table, leaf, walk, a, b, times, x, rows, since, met, places, terms, others, mixed, parts, out, walk, stride
                        )  # fmt: skip
                        if is_leaf and adaptive:
                            for s in range(a, b):
                                share(table, ways[part, REACHED], parts, out[walk + s * stride])
                if is_leaf:
                    break
                if turn == 0:
                    asked |= bit(nodes[node, at.COLUMN])
                begin = first
                first, end, mine, known = part_ways(
                    table, node, first, end, x, rows, since, stack, goals, on, ways, known
                )
                while begin < first:
                    frames[n, AT], frames[n, FIRST] = goals[begin], begin
                    while begin < first and goals[begin] == frames[n, AT]:
                        begin += 1
                    frames[n, END] = begin
                    n += 1
                node = mine


@allocating
def draw_walks(plan: Any) -> Any:
    """The drawn row of each walk: 0 for the record itself, iPFI's for each player, and iSAGE's; ``state`` and ``order`` change."""
    counts, state, n_rows = i8(plan, slots.COUNTS)[0], u8(plan, slots.STATE)[0], f8(plan, slots.ROWS).shape[0]
    players, m = i8(plan, slots.STARTS).shape[1] - 1, counts[slots.PFI_DRAWS]
    copies, sage_m = players * m, counts[slots.SAGE_DRAWS] if players > 0 else 0
    drawn = np.zeros(1 + copies + sage_m, np.int64)
    rows = draw_rows(state, n_rows, m)
    for p in range(players):
        put(rows, drawn[1 + p * m :])
    if sage_m > 0:
        put(draw_order(state[1:], n_rows, sage_m, i8(plan, slots.ORDER)[0]), drawn[1 + copies :])
    return drawn


@allocating
def predict_copies(plan: Any, table: Any, x: Any, drawn: Any, steps: int, out: Any) -> Any:
    """What a tree learner predicts for the record, iPFI's copies and iSAGE's: probabilities, rows × codes, or numbers, rows × 1.

    Returns whether the plan has the classes in the order of the prediction.
    """
    columns, size, walks = len(x), out.shape[1], len(drawn)
    starts, order = i8(plan, slots.STARTS)[0], i8(plan, slots.ORDER)[0]
    of_players, matrix = i8(plan, slots.COLUMNS)[0], f8(plan, slots.ROWS)
    m = i8(plan, slots.COUNTS)[0, slots.PFI_DRAWS]
    copies, empty = 1 + (len(starts) - 1) * m, len(order) - steps
    # Columns × walks: the drawn rows, and the step from which on it is the record's value; 0 where they are the same.
    rows, since = np.empty((columns, walks)), np.zeros((columns, walks), np.int64)
    for place in range(len(starts) - 1):
        for i in range(starts[place], starts[place + 1]):
            c = of_players[i]
            for walk in range(1 + place * m, 1 + (place + 1) * m):
                rows[c, walk], since[c, walk] = matrix[drawn[walk], c], 1
    for place in range(len(order) if steps > 0 else 0):
        for i in range(starts[order[place]], starts[order[place] + 1]):
            c = of_players[i]
            for walk in range(copies, walks):
                rows[c, walk], since[c, walk] = matrix[drawn[walk], c], place + 1 - empty
    for c in range(columns):
        for walk in range(walks):
            z = rows[c, walk]
            if z == x[c] or (z != z and x[c] != x[c]):
                since[c, walk] = 0
    stacks, ways = np.empty((3, len(out)), np.int64), np.empty((len(out), N_PART), np.int64)
    frames = np.empty((len(out) + 1, N_FRAME), np.int64)
    met, places = np.empty(N_LEAF + 3 * columns, np.int64), np.empty(size, np.int64)
    terms, others = np.empty((columns + N_TERM, size)), np.empty((columns, size))
    mixed, parts = np.empty(columns), np.empty(size)
    met[NODE] = -1
    members, trees = i8(table, at.MEMBERS), i8(table, at.TREES)
    out[:, :] = 0.0
    if len(members) == 0:
        if trees[0, at.ROOT] >= 0:
            predict_walks(
                table, trees[0, at.ROOT], plan, x, steps, rows, since, stacks, ways, frames, met, places, terms, others, mixed, parts, out,
            )  # fmt: skip
        return True
    regression, vote = is_regression(table), np.empty((len(out), size))
    predicted = np.zeros((len(out) if regression else 0, len(members)))
    accuracy, numbers, labels = f8(table, at.ACCURACY), f8(table, at.NUMBERS), i8(table, at.ORDER)
    seen, n, guesses, known = i1(table, at.SEEN), 0, i8(table, at.GUESSES), i8(plan, slots.LABELS)
    entered, codes = np.zeros(size, np.int64), np.empty(size, np.int64)
    for member in range(len(members)):
        tree = members[member, at.FOREGROUND]
        for i in range(0 if regression else labels.shape[1]):
            if seen[tree, labels[0, i]] == 1 and entered[labels[0, i]] == 0:
                entered[labels[0, i]] = 1
                codes[n] = labels[0, i]
                n += 1
        if trees[tree, at.ROOT] < 0:
            vote[0, :] = 0.0
        else:
            predict_walks(
                table, trees[tree, at.ROOT], plan, x, steps, rows, since, stacks, ways, frames, met, places, terms, others, mixed, parts,
                vote,
            )  # fmt: skip
        if not regression:
            guesses[0, member] = favourite(labels, seen, tree, vote[0])
        if trees[tree, at.ROOT] < 0:
            continue
        if regression:
            for c in range(len(out)):
                predicted[c, member] = vote[c, 0]
            continue
        asked = accuracy[member, at.ALL]
        right = accuracy[member, at.CORRECT] / asked if asked != 0.0 else 0.0
        weight = right if right > 0.0 and numbers[0, at.WEIGHTED] != 0.0 else 1.0
        for c in range(len(out)):
            for i in range(n):
                out[c, codes[i]] += vote[c, codes[i]] * weight
    if regression:
        for c in range(len(out)):
            out[c, 0] = aggregate(table, predicted[c])
        return True
    values = np.empty(n)
    for c in range(len(out)):
        for i in range(n):
            values[i] = out[c, codes[i]]
        whole = total(values, n)
        if whole > 0.0:
            for i in range(n):
                out[c, codes[i]] /= whole
    as_known = n == known.shape[1]
    for i in range(n):
        as_known = as_known and codes[i] == known[0, i]
    return as_known


@compiled
def explain_trees(plan: Any, table: Any, x: Any, y: float) -> Any:
    """iPFI and iSAGE of the learners made of trees; see ``explain_core.evaluation.learned_kernels.explained``."""
    drawn, sage_m = draw_walks(plan), i8(plan, slots.COUNTS)[0, slots.SAGE_DRAWS]
    players = i8(plan, slots.STARTS).shape[1] - 1
    copies, steps = 1 + players * i8(plan, slots.COUNTS)[0, slots.PFI_DRAWS], 0
    if sage_m > 0 and players > 0:
        steps = players - (1 if f8(plan, slots.EMPTY).shape[1] > 0 else 0)
    out = np.empty((copies + steps * sage_m, i8(table, at.HEAD)[0, at.N_CLASSES]))
    if not predict_copies(plan, table, x, drawn, steps, out):
        return False
    return slots.explained(plan, out[:copies], out[copies:], y)
