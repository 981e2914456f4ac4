"""Trees as plain values, node by node: those of river, and those in a learner's arrays."""

from collections.abc import Iterator
from typing import Any

from river.stats import Var
from river.tree.nodes import branch as branches
from river.tree.splitter import EBSTSplitter, GaussianSplitter, QOSplitter

from explain_core.learners import layout as at
from explain_core.learners.tree import TreeLearner


def of_river(node: Any) -> Any:
    """A river tree from this node down."""
    if node is None:
        return None
    if isinstance(node, branches.DTBranch):
        return (*of_branch(node), of_monitor(node), of_river(getattr(node, "_alternate_tree", None)))
    return (*of_leaf(node), of_monitor(node))


def assert_same(learner: TreeLearner, model: Any) -> list[int]:
    """A tree or forest is river's node by node, with what grows in the background and all that was drawn; returns the counts of what happened to it."""
    reader, arrays = (TargetReader if learner.task == "regression" else Reader)(learner), learner.arrays
    found = []
    if hasattr(model, "_root"):
        assert reader.tree(0) == of_river(model._root)
        if hasattr(model, "_rng"):
            found = [model.n_alternate_trees, model.n_switch_alternate_trees, model.n_pruned_alternate_trees]
    else:
        for i, member in enumerate(model):
            for row, tree in zip(
                arrays["members"][i], (member, model._background and model._background[i]), strict=True
            ):
                assert reader.tree(row) == of_river(tree._root) if tree else row < 0
        found = [model.n_warnings_detected(), model.n_drifts_detected()]
        for norm, own in zip(getattr(model, "_drift_norm", ()), arrays["norms"].tolist(), strict=True):
            assert own == list(of_var(norm))
    if hasattr(model, "_rng"):
        words = model._rng.getstate()[1]
        assert (*arrays["generator"].ravel().tolist(), int(arrays["head"][0, at.POSITION])) == words
        assert arrays["counters"].sum(axis=0).tolist()[: len(found)] == found
    return found


def of_monitor(node: Any) -> Any:
    """What an adaptive tree's node knows of its error."""
    if hasattr(node, "_error_tracker"):
        error, detector = node._error_tracker, node.drift_detector
        return error.n, error.mean.get(), error._S, detector.total, detector.width, detector.variance
    if not hasattr(node, "_mean_error"):
        return None
    error, detector = node._mean_error, node.drift_detector
    return error.n, error.get(), detector.total, detector.width, detector.variance


def of_branch(node: Any) -> Any:
    if isinstance(node, branches.DTBranch):
        children = [of_river(child) for child in node.children]
        if isinstance(node, branches.NumericBinaryBranch):
            return node.feature, "<=", node.threshold, node.depth, children
        if isinstance(node, branches.NominalBinaryBranch):
            return node.feature, "==", node.value, node.depth, children
        keys = sorted(node._mapping, key=node._mapping.__getitem__)
        return node.feature, "in", keys, node.depth, children
    raise AssertionError(node)


def of_var(var: Var) -> Any:
    return var.n, var.mean.get(), var._S


def of_search_tree(node: Any) -> Any:
    """A binary search tree of targets: point, target, what is below and what is above."""
    if node is None:
        return None
    below, above = of_search_tree(node._left), of_search_tree(node._right)
    return node.att_val, *of_var(node.estimator), below, above


def of_target_leaf(node: Any) -> Any:
    """A leaf of a regression tree."""
    observers = []
    for name, splitter in (node.splitters or {}).items():
        if isinstance(splitter, EBSTSplitter):
            found = of_search_tree(splitter._root)
        elif isinstance(splitter, QOSplitter):
            slots = splitter._quantizer.hash
            found = [(key, slots[key].x_stats.get(), *of_var(slots[key].y_stats)) for key in sorted(slots)]
        else:
            found = [(category, *of_var(var)) for category, var in splitter._statistics.items()]
        observers.append((name, found))
    errors = getattr(node, "_fmse_mean", 0.0), getattr(node, "_fmse_model", 0.0)
    model = getattr(node, "_leaf_model", None)
    weights = {name: value for name, value in model.weights.items() if value} if model else {}
    lines = model.intercept if model else 0.0, weights
    return *of_any(node), of_var(node.stats), errors, lines, observers


def of_any(node: Any) -> Any:
    return node.is_active(), node.depth, node.last_split_attempt_at, getattr(node, "feature_indices", [])


def of_observer(splitter: Any) -> Any:
    """Of a numeric feature by class the distribution and its range, of another its categories."""
    known = splitter._att_dist_per_class.items()
    if isinstance(splitter, GaussianSplitter):
        least, most = splitter._min_per_class, splitter._max_per_class
        return [(label, *of_var(found._var), least[label], most[label]) for label, found in known]
    return [(label, list(found.items())) for label, found in known if found]


def of_leaf(node: Any) -> Any:
    if isinstance(node.stats, Var):
        return of_target_leaf(node)
    observers = [(name, of_observer(splitter)) for name, splitter in (node.splitters or {}).items()]
    right = getattr(node, "_mc_correct_weight", 0.0), getattr(node, "_nb_correct_weight", 0.0)
    return *of_any(node), list(node.stats.items()), right, observers


class Reader:
    """Reads a learner's trees."""

    def __init__(self, learner: TreeLearner) -> None:
        self.names, self.labels = learner.columns.names, learner.labels
        self.categories = {name: list(codes) for name, codes in learner.columns.codes.items()}
        self.arrays = {name: array.tolist() for name, array in learner.arrays.items().items()}

    def tree(self, row: int) -> Any:
        return self.node(self.arrays["trees"][row][at.ROOT])

    def node(self, index: int) -> Any:
        if index < 0:
            return None
        node = self.arrays["nodes"][index]
        monitor, alternate = None, None
        if self.arrays["alternates"]:
            total, variance, width = self.arrays["windows"][index]
            monitor = *self.arrays["errors"][index], total, width, variance
            alternate = self.node(self.arrays["alternates"][index][0])
        if node[at.KIND] == at.LEAF:
            return (*self.leaf(node[at.LEAF_OF], node[at.DEPTH]), monitor)
        return (*self.branch(index, node), monitor, alternate)

    def branch(self, index: int, node: list[int]) -> Any:
        children, keys, child = [], [], node[at.LEFT]
        while child >= 0:
            children.append(self.node(child))
            keys.append(self.arrays["splits"][child][at.KEY])
            child = self.arrays["nodes"][child][at.NEXT]
        name, point = self.names[node[at.COLUMN]], self.arrays["splits"][index][at.THRESHOLD]
        depth = node[at.DEPTH]
        if node[at.KIND] == at.THRESHOLDED:
            return name, "<=", point, depth, children
        if node[at.KIND] == at.EQUAL:
            return name, "==", self.categories[name][int(point)], depth, children
        return name, "in", [self.categories[name][int(key)] for key in keys], depth, children

    def leaf(self, index: int, depth: int) -> Any:
        leaf, weights = self.arrays["leaves"][index], self.arrays["weights"][index]
        observers, observer = [], leaf[at.FIRST]
        while observer >= 0:
            column, nominal, cell, following = self.arrays["observers"][observer]
            found: list[Any] = []
            while cell >= 0:
                of, after, value = self.arrays["links"][cell]
                if nominal:
                    pairs = []
                    while value >= 0:
                        weight, category = self.arrays["cells"][value][:2]
                        pairs.append((self.categories[self.names[column]][int(category)], weight))
                        value = self.arrays["links"][value][at.NEXT_CELL]
                    if pairs:
                        found.append((self.labels[of], pairs))
                else:
                    found.append((self.labels[of], *self.arrays["cells"][cell][: at.HALF_LOG]))
                cell = after
            observers.append((self.names[column], found))
            observer = following
        labels = [self.labels[code] for code in self.arrays["classes"][index][: leaf[at.COUNT]]]
        stats = list(zip(labels, self.arrays["stats"][index], strict=False))
        right = weights[at.MC_RIGHT], weights[at.NB_RIGHT]
        return *self.of_any(leaf, weights, depth), stats, right, observers

    def of_any(self, leaf: list[int], weights: list[float], depth: int) -> Any:
        drawn = [self.names[column] for column in leaf[at.N_LEAF : at.N_LEAF + leaf[at.SAMPLED]]]
        return leaf[at.ACTIVE] == 1, depth, weights[at.ATTEMPTED], drawn


class TargetReader(Reader):
    """Reads the trees of a regression."""

    def search_tree(self, cell: int) -> Any:
        if cell < 0:
            return None
        _, above, below = self.arrays["links"][cell]
        n, mean, squares, point = self.arrays["cells"][cell][:4]
        return point, n, mean, squares, self.search_tree(below), self.search_tree(above)

    def slots(self, cell: int) -> list[Any]:
        if cell < 0:
            return []
        _, above, below = self.arrays["links"][cell]
        n, mean, squares, point, place = self.arrays["cells"][cell]
        return [*self.slots(below), (point, place, n, mean, squares), *self.slots(above)]

    def categories_of(self, name: str, cell: int) -> Iterator[Any]:
        while cell >= 0:
            n, mean, squares, point = self.arrays["cells"][cell][:4]
            yield self.categories[name][int(point)], n, mean, squares
            cell = self.arrays["links"][cell][at.ABOVE]

    def leaf(self, index: int, depth: int) -> Any:
        leaf, weights = self.arrays["leaves"][index], self.arrays["weights"][index]
        observers: list[Any] = []
        observer = leaf[at.FIRST]
        while observer >= 0:
            column, nominal, cell, observer = self.arrays["observers"][observer]
            name = self.names[column]
            if nominal:
                observers.append((name, list(self.categories_of(name, cell))))
            else:
                slots = self.arrays["numbers"][0][at.RADIUS] > 0.0
                observers.append((name, self.slots(cell) if slots else self.search_tree(cell)))
        models = self.arrays["models"][index] if self.arrays["models"] else []
        target = self.arrays["stats"][index][0], weights[at.TARGET], weights[at.TARGET_SQUARES]
        errors = weights[at.MEAN_ERROR], weights[at.MODEL_ERROR]
        lines = weights[at.INTERCEPT], {name: w for name, w in zip(self.names, models, strict=False) if w}
        return *self.of_any(leaf, weights, depth), target, errors, lines, observers
