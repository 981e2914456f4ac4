"""The plots show what the explanation says, and stay legible with 50 features."""

import itertools

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest

from explain_core import plots
from explain_core.explanation import Explanation

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    matplotlib.pyplot.close("all")


def explanation(values, std=0.1, n=100, **metadata):
    values = np.atleast_2d(values)
    names = tuple(f"a_rather_long_feature_name_{i}" for i in range(values.shape[1]))
    losses = tuple(f"loss_{i}" for i in range(len(values)))
    return Explanation(
        "ipfi", names, losses, values, np.full(values.shape, std), n, width=2.0, metadata=metadata
    )


def tick_names(axes):
    return [label.get_text()[-1] for label in axes.get_yticklabels()]


def test_bars_are_sorted_and_carry_their_band():
    axes = plots.bars(explanation([[1.0, 3.0, 2.0], [9.0, 8.0, 7.0]]))
    assert tick_names(axes) == ["1", "2", "0"]
    assert [bar.get_width() for bar in axes.patches] == [3.0, 2.0, 1.0]
    (band,) = axes.collections
    ends = np.array([segment[:, 0] for segment in band.get_segments()])
    assert ends == pytest.approx(np.array([[2.8, 3.2], [1.8, 2.2], [0.8, 1.2]]))
    assert [bar.get_width() for bar in plots.bars(explanation([[1.0], [9.0]]), "loss_1").patches] == [9.0]


def test_bars_of_exact_or_unknown_values_need_no_band():
    axes = plots.bars(explanation([1.0, np.nan], std=np.nan, kind="ratio"), top=1)
    assert len(axes.patches) == 1
    assert not axes.collections
    assert axes.lines[0].get_xdata()[0] == 1.0
    assert "ratio" in axes.get_xlabel()


def test_over_time_gives_the_largest_features_a_band_and_the_rest_a_grey_line():
    series = [explanation(np.arange(12.0) * (t + 1), n=100 * t) for t in range(5)]
    axes = plots.over_time(series, top=3)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [name[-2:] for name in names[:3]] == ["11", "10", "_9"]
    assert names[3] == "9 others"
    assert len(axes.collections) == 3
    line = next(line for line in axes.lines if line.get_label() == names[0])
    assert line.get_xdata().tolist() == [0, 100, 200, 300, 400]
    assert line.get_ydata().tolist() == [11.0 * (t + 1) for t in range(5)]


def test_a_feature_met_later_starts_where_it_was_met():
    axes = plots.over_time([explanation([1.0]), explanation([1.0, 5.0])], at=[7, 8])
    late = next(line for line in axes.lines if str(line.get_label()).endswith("_1"))
    assert np.isnan(late.get_ydata()[0])
    assert late.get_ydata()[1] == 5.0


def test_drift_puts_the_largest_change_on_top():
    axes = plots.drift(explanation([1.0, 2.0, 3.0]), explanation([1.1, 4.0, 2.0]))
    assert tick_names(axes) == ["1", "2", "0"]
    lines = [
        line.get_xdata() for line in axes.lines if line.get_color() == "black" and len(line.get_xdata()) == 2
    ]
    assert [list(xs) for xs in lines[:3]] == [[2.0, 4.0], [3.0, 2.0], [1.0, 1.1]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["before", "after"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda many: plots.bars(many),
        lambda many: plots.drift(many, many),
        lambda many: plots.over_time([many, many], at=[1, 2]),
    ],
    ids=["bars", "drift", "over_time"],
)
def test_fifty_features_are_legible(draw):
    axes = draw(explanation(np.linspace(1.0, 0.0, 50)))
    figure = axes.figure
    figure.canvas.draw()
    legend = axes.get_legend()
    texts = legend.get_texts() if legend and len(legend.get_texts()) > 2 else axes.get_yticklabels()
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) in (9, 50)
    for upper, lower in itertools.pairwise(boxes):
        assert not upper.overlaps(lower)
    edge = figure.bbox
    assert all(
        edge.x0 <= box.x0 and box.x1 <= edge.x1 and edge.y0 <= box.y0 and box.y1 <= edge.y1 for box in boxes
    )


def test_the_axes_given_are_the_axes_drawn_on():
    _, ax = matplotlib.pyplot.subplots()
    single = explanation([1.0])
    assert (
        plots.bars(single, ax=ax)
        is plots.drift(single, single, ax=ax)
        is plots.over_time([single], ax=ax)
        is ax
    )


def test_what_cannot_be_plotted_is_refused():
    with pytest.raises(ValueError, match="explanations: there are none to plot"):
        plots.over_time([])
    with pytest.raises(ValueError, match="at: 2 places for 1 explanations"):
        plots.over_time([explanation([1.0])], at=[1, 2])
    with pytest.raises(ValueError, match="loss: 'gini' was not estimated"):
        plots.bars(explanation([1.0]), "gini")
