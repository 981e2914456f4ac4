"""Models of a user, for tests that name them in the settings."""

from river import (
    compose,
    ensemble,
    feature_selection,
    imblearn,
    linear_model,
    optim,
    preprocessing,
    stats,
    tree,
)

import explain_core.models


class Majority:
    """Counts classes by the sign of one feature; plain attributes, no river in it."""

    def __init__(self):
        self.counts = {True: {}, False: {}}

    def predict_proba_one(self, x):
        counts = self.counts[x["a"] > 0]
        total = sum(counts.values())
        return {label: n / total for label, n in counts.items()}

    def predict_one(self, x):
        p = self.predict_proba_one(x)
        return max(p, key=p.get) if p else None

    def learn_one(self, x, y):
        counts = self.counts[x["a"] > 0]
        counts[y] = counts.get(y, 0) + 1


def calibrated():
    """Knows that y is a > 1 in nine of ten records; cannot learn."""
    return lambda x: {0: 0.1, 1: 0.9} if x["a"] > 1 else {0: 0.9, 1: 0.1}


def in_words():
    """The same of labels that are texts."""
    return lambda x: {"no": 0.1, "yes": 0.9} if x["a"] > 1 else {"no": 0.9, "yes": 0.1}


def _tree():
    return tree.HoeffdingTreeClassifier(grace_period=20, delta=0.1)


def drawn_by_seed(seed):
    """A kind of model that the partition's seed decides."""
    return (_tree, bagging, adaboost)[seed % 3]()


def bagging():
    return ensemble.BaggingClassifier(_tree(), n_models=3, seed=1)


def adwin_bagging():
    return ensemble.ADWINBaggingClassifier(_tree(), n_models=3, seed=1)


def leveraging_bagging():
    return ensemble.LeveragingBaggingClassifier(_tree(), n_models=3, seed=1)


def boosting():
    return ensemble.ADWINBoostingClassifier(_tree(), n_models=3, seed=1)


def adaboost():
    return ensemble.AdaBoostClassifier(_tree(), n_models=3, seed=1)


def random_patches(seed):
    return ensemble.SRPClassifier(_tree(), n_models=3, seed=seed)


def stacking():
    numbers = compose.SelectType(int, float)
    members = [numbers | preprocessing.StandardScaler() | linear_model.LogisticRegression(), _tree()]
    return ensemble.StackingClassifier(members, linear_model.LogisticRegression())


def selected():
    return (
        compose.SelectType(int, float)
        | preprocessing.RobustScaler()
        | feature_selection.SelectKBest(stats.PearsonCorr(), k=2)
        | linear_model.LogisticRegression(optim.Adam(0.01))
    )


def one_hot():
    return preprocessing.OneHotEncoder(drop_zeros=True) | linear_model.LogisticRegression()


def floats_and_strings():
    """Whether a number is used depends on its type."""
    strings = compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)
    return (compose.SelectType(float) + strings) | linear_model.LogisticRegression()


def undersampled(seed):
    return imblearn.RandomUnderSampler(_tree(), {0: 0.5, 1: 0.5}, seed=seed)


def fitted():
    """A scikit-learn model, fitted on half of a plane; it does not check its matrix, which takes longer than all else."""
    import numpy as np
    from sklearn.tree import DecisionTreeClassifier

    class Unchecked(DecisionTreeClassifier):
        def predict_proba(self, X):
            return self.tree_.predict(X.astype(np.float32))

    points = np.random.default_rng(0).normal(size=(200, 2))
    model = Unchecked(max_depth=4, random_state=0).fit(points, points[:, 0] > 0)
    return explain_core.models.wrap(model, "classification", features=["a", "b"])
