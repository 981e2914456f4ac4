"""Fill numba's cache while the image is built."""

import os

from explain_sidecar.commands.supervisor import PINNED

os.environ.update(PINNED)

from river import forest, linear_model, naive_bayes, tree

from explain_core.alarms import detector
from explain_core.importance.warm import warm, warm_ensembles
from explain_core.learners.choice import learner_of
from explain_core.losses import Task
from explain_core.models import wrap
from explain_core.removal import conditional

# One model of each learner and task, and one that river itself learns.
MODELS: dict[Task, tuple[object, ...]] = {
    "classification": (
        linear_model.LogisticRegression(),
        tree.HoeffdingTreeClassifier(),
        tree.HoeffdingAdaptiveTreeClassifier(),
        forest.ARFClassifier(),
        naive_bayes.GaussianNB(),
    ),
    "regression": (
        linear_model.LinearRegression(),
        tree.HoeffdingTreeRegressor(),
        tree.HoeffdingAdaptiveTreeRegressor(),
        forest.ARFRegressor(),
    ),
}
for task, models in MODELS.items():
    for model in models:
        warm(learner_of(model, task) or wrap(model, task))
    warm_ensembles(task)
conditional.warm()
detector.warm()
