"""Stories: what has one cause is told once, in one sentence, as long as it lasts, and with what people know of it."""

import random

import pytest

from explain_client import Acknowledged, Expected, SchemaError, Stories, control_of
from explain_client.periods import Mean, Period
from explain_client.stories import Why
from tests.told import NOON, alarm_of, drift_of

LOSS = {"subject": "loss", "feature": None, "estimator": None, "loss": "cross_entropy", "cause": 1}
PRO = {"feature": "plan", "value": "pro"}


def messages():
    """A change of the concept at record 1,000, mostly in one segment, and a feature that then matters more."""
    return [
        alarm_of(**LOSS, seq=0, before=0.41, after=0.46, least=0.0311, onset=1_000, evidence=1.1),
        alarm_of(**LOSS, seq=1, before=0.40, after=0.90, onset=1_010, segment=PRO, evidence=3.0),
        alarm_of(
            **LOSS | {"segment": {"feature": "plan", "value": "free"}},
            seq=2,
            before=0.41,
            after=0.43,
            evidence=1.4,
        ),
        alarm_of(**LOSS | {"subject": "gain"}, seq=3, before=0.2, after=0.1, evidence=2.0),
        alarm_of(seq=4, cause=1, feature="usage", estimator="ipfi", before=0.03, after=0.09, evidence=1.2),
        alarm_of(seq=5, cause=1, feature="usage", estimator="isage", before=0.02, after=0.08, evidence=1.1),
        drift_of(0),
    ]


def told(*given):
    stories = Stories()
    for message in given:
        stories.add(message)
    return [story.sentence() for story in stories]


SENTENCE = (
    "Since Wednesday 2023-11-15 14:53 UTC the model's log loss rose by at least 7.5 % (0.410 → 0.460 ± 0.020): "
    "the concept changed, mostly where plan is pro; usage matters more, by at least 0.030 (0.030 → 0.090 ± 0.020); "
    "nothing else raised an alarm."
)


def test_what_has_one_cause_is_told_in_one_sentence_whatever_topic_is_read_first():
    assert told(*messages()) == [SENTENCE]
    *alarms, drift = messages()
    assert told(drift, *alarms) == [SENTENCE]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"causes": ["inputs", "concept"]}, "the inputs and the concept changed"),
        ({"causes": ["inputs", "concept"], "joint": {"hypothesis": None, "concept": {"value": 0.7}, "inputs": [{"value": -0.02}, {"value": 0.01}]}}, "the concept changed"),
        ({"causes": ["inputs", "concept"], "joint": {"hypothesis": None, "concept": {"value": 0.1}, "inputs": [{"value": -0.02}, {"value": 0.01}]}}, "the inputs and the concept changed"),
        ({"causes": ["inputs"], "differences": [{"feature": "temp"}]}, "the inputs changed, first of all temp"),
        ({"causes": ["inputs"], "differences": [{"feature": "temp", "words": "temp is missing in 30% of the rows (before: 0%)"}]}, "the inputs changed, first of all temp, which is missing in 30% of the rows (before: 0%)"),
        ({"differences": [{"feature": "temp", "fault": True}]}, "this looks like a fault of temp"),
        ({"differences": [{"feature": "temp", "fault": True, "words": "temp is higher by 3.1 throughout"}]}, "this looks like a fault of temp, which is higher by 3.1 throughout"),
        ({"causes": [], "joint": {"hypothesis": {"low": 0.1, "high": 0.2}}}, "the model itself changed"),
        ({"causes": []}, "no cause stands out"),
        ({"causes": [], "verdict": "not attributable"}, "the records before and since have too little in common to say why"),
    ],
)  # fmt: skip
def test_the_cause_is_that_of_the_drift_message(change, words):
    ((sentence),) = told(messages()[0], drift_of(0, **change))
    assert f"(0.410 → 0.460 ± 0.020): {words}; nothing else raised an alarm." in sentence


@pytest.mark.parametrize(("subject", "before", "after"), [("loss", 0.4, 0.5), ("gain", 0.2, 0.1), ("loss", 0.5, 0.4), ("gain", 0.1, 0.2)])  # fmt: skip
@pytest.mark.parametrize("raised", [True, False])
def test_the_model_itself_is_no_cause_of_what_it_worked_against(subject, before, after, raised):
    alarm = alarm_of(**LOSS | {"subject": subject}, seq=0, before=before, after=after)
    band = {"low": 0.1, "high": 0.2} if raised else {"low": -0.2, "high": -0.1}
    (sentence,) = told(alarm, drift_of(0, causes=[], joint={"hypothesis": band}))
    worse = "rose" in sentence if subject == "loss" else "fell" in sentence
    cause = "the model itself changed" if worse == raised else "no cause stands out"
    assert f": {cause}; nothing else raised an alarm." in sentence


@pytest.mark.parametrize("late", [False, True])
def test_a_cause_that_was_looked_for_at_another_onset_than_the_one_told_says_so(late):
    loss, *_, own = messages()[0], drift_of(3)
    gain = alarm_of(**LOSS | {"subject": "gain"}, seq=3, before=0.2, after=0.1, onset=1_100)
    (sentence,) = told(own, loss, gain) if late else told(loss, gain, own)
    assert "Since Wednesday 2023-11-15 14:53 UTC the model's log loss rose" in sentence
    assert (
        "the concept changed, compared before and since Wednesday 2023-11-15 16:33 UTC; nothing" in sentence
    )


def test_records_of_one_minute_are_told_apart_by_their_offsets():
    at = [{"offset": offset, "timestamp": NOON} for offset in (1_000, 3_000)]
    loss = alarm_of(**LOSS, seq=0, before=0.4, after=0.9, onset=at[0], timestamp=NOON + 30_000)
    back = alarm_of(**LOSS | {"cause": 2}, seq=1, before=0.9, after=0.4, onset=at[1], timestamp=NOON)
    (sentence,) = told(loss, back)
    assert sentence.startswith("Since Tuesday 2023-11-14 22:13 UTC (offset 1000) the model's log loss rose")
    assert sentence.endswith(
        " It is over: nearer to its old level since Tuesday 2023-11-14 22:13 UTC (offset 3000)."
    )


@pytest.mark.parametrize("change", [{"joint": []}, {"joint": None}])
def test_a_cause_that_cannot_be_read_is_left_out(change):
    ((sentence),) = told(messages()[0], drift_of(0, **change))
    assert "± 0.020); nothing else" in sentence


def test_figures_that_overlap_are_left_out_and_what_was_shown_is_told():
    overlapping = alarm_of(seq=0, feature="a", before=-0.01, after=0.0, least=0.004, onset=1_000)
    ((sentence),) = told(overlapping)
    assert (
        " a matters more, by at least 0.0040; nothing else raised an alarm." in sentence
        and "→" not in sentence
    )
    against = alarm_of(seq=0, feature="a", before=0.1, after=0.0, direction="up", least=0.004)
    assert "→" not in told(against)[0]


def test_a_story_is_over_with_the_alarm_that_takes_its_subject_back():
    back = alarm_of(**LOSS | {"cause": 2}, seq=9, before=0.46, after=0.42, onset=3_000)
    (sentence,) = told(*messages(), back)
    assert (
        sentence
        == f"{SENTENCE} It is over: nearer to its old level since Friday 2023-11-17 00:13 UTC, but for usage."
    ), "a feature that matters more still is not as before"
    half = alarm_of(**LOSS | {"cause": 2}, seq=9, before=0.46, after=0.45, onset=3_000)
    assert [text.count("over") for text in told(*messages(), half)] == [0, 0]
    other = alarm_of(**LOSS | {"cause": 2, "segment": PRO}, seq=9, before=0.9, after=0.4, onset=3_000)
    assert told(*messages(), other) == [SENTENCE]  # what is told first lasts
    farther = alarm_of(**LOSS | {"cause": 2}, seq=9, before=0.46, after=0.2, onset=3_000)
    first, second = told(*messages(), farther)
    assert first.startswith(SENTENCE) and first.endswith("00:13 UTC, but for usage.")
    assert "log loss fell by at least 28 %" in second


@pytest.mark.parametrize("late", [False, True])
def test_why_a_subject_came_back_is_told_with_the_end(late):
    """The alarm that takes it back is of a cause of its own, and the drift message answers that one."""
    back = alarm_of(**LOSS | {"cause": 2}, seq=9, before=0.46, after=0.42, onset=3_000)
    feature = alarm_of(seq=8, cause=2, feature="usage", estimator="ipfi", before=0.09, after=0.03, onset=3_000)  # fmt: skip
    why = drift_of(8, causes=["inputs"], differences=[{"feature": "temp"}])
    answered = [why, feature, back] if late else [feature, back, why]
    (sentence,) = told(*messages(), *answered)
    end = " It is over: nearer to its old level since Friday 2023-11-17 00:13 UTC; what ended it: the inputs changed, first of all temp."
    assert sentence == SENTENCE + end
    own = drift_of(8, causes=[], learning={"low": -0.2, "high": -0.1})
    assert told(*messages(), feature, back, own)[0].endswith("; what ended it: the model itself changed.")
    assert told(*messages(), feature, why) == [SENTENCE]  # the loss has not come back


def test_an_alarm_that_finds_its_subject_back_is_a_story_of_its_own_and_the_one_before_was_over():
    spike = alarm_of(**LOSS, seq=0, before=0.4, after=1.4, onset=1_000, offset=1_100)
    later = alarm_of(**LOSS | {"cause": 2}, seq=5, before=0.42, after=0.3, onset=9_000)
    for end, since in (([], 9_000), ([period(4_000, 0.41), period(5_000, 0.41)], 4_000)):
        for order in (0, 1):
            stories = Stories()
            for one in end if order else ():
                stories.add_period(one, "explanation-sidecar", 0, 0)
            stories.add(spike)
            stories.add(later)
            for one in () if order else end:
                stories.add_period(one, "explanation-sidecar", 0, 0)
            first, second = stories
            assert first.over.offset == since and second.over is None


def period(first_offset, value, half=0.01):
    mean = Mean(1_000, value, value - half, value + half, 0.0, 0.0, 0.0, 0.0)
    begin = NOON + 60_000 * first_offset
    return Period(
        "1000",
        1_000,
        first_offset,
        first_offset + 999,
        begin,
        begin + 1,
        {"cross_entropy": {"loss": mean}},
        {},
    )


@pytest.mark.parametrize("first", ["alarms", "periods"])
def test_a_story_is_over_with_a_period_in_which_its_subject_was_as_before(first):
    lasts = [period(40_000, 0.46), period(41_000, 0.43, half=0.1), period(42_000, 0.45)]
    for periods, over in (
        (lasts, False),
        ([*lasts, period(43_000, 0.41)], True),
        ([period(43_000, 0.41), *(period(44_000 + 1_000 * later, 0.45) for later in range(100))], True),
        ([period(500, 0.41)], False),
    ):
        stories = Stories()
        steps = [
            lambda s: [s.add(one) for one in messages()],
            lambda s, p=periods: [s.add_period(one, "explanation-sidecar", 0, 0) for one in p],
        ]
        for step in steps if first == "alarms" else reversed(steps):
            step(stories)
        (story,) = stories
        assert (story.over is not None) == over
        assert not over or story.over.offset == 43_000


@pytest.mark.parametrize("first", ["alarms", "periods"])
@pytest.mark.parametrize(
    ("app_id", "partition", "epoch", "version", "over"),
    [
        ("explanation-sidecar", 0, 1, None, True),
        ("another", 0, 1, None, False),
        ("explanation-sidecar", 1, 1, None, False),
        ("explanation-sidecar", 0, 1, "b", False),
    ],
)
def test_a_story_is_over_with_a_period_of_a_later_epoch_of_its_partition_and_version(
    first, app_id, partition, epoch, version, over
):
    stories = Stories()
    steps = [
        lambda: [stories.add(one) for one in messages()],
        lambda: stories.add_period(period(43_000, 0.41), app_id, partition, epoch, version),
    ]
    for step in steps if first == "alarms" else reversed(steps):
        step()
    (story,) = stories
    assert (story.over is not None) == over


def test_what_is_kept_of_periods_for_later_alarms_is_bounded(monkeypatch):
    monkeypatch.setattr("explain_client.stories.MOST_BANDS", 10)
    stories = Stories()
    for later in range(100):
        stories.add_period(period(43_000 + 1_000 * later, 0.41), "explanation-sidecar", 0, 0)
    for one in messages():
        stories.add(one)
    (story,) = stories
    assert story.over is not None and story.over.offset == 43_000 + 90_000


def test_what_is_expected_or_acknowledged_marks_its_story_whenever_it_comes():
    since, until = NOON + 60_000 * 900, NOON + 60_000 * 1_100
    expected = Expected(since, until, "the new price list.")
    seen = Acknowledged(0, 0, None, 1, "on it")
    given = [*messages(), expected, seen, expected]
    sentences = set()
    for seed in range(20):
        order = random.Random(seed).sample(range(3), 3)
        parts = [messages(), [expected, expected], [seen]]
        sentences |= set(told(*(message for at in order for message in parts[at])))
    assert sentences == {*told(*given)} == {f"{SENTENCE} Expected: the new price list. Acknowledged: on it."}
    for other in (
        Expected(since, until - 1 - 60_000 * 120, "x"),
        Expected(since, until, "x", 5),
        Acknowledged(0, 0, None, 2, "x"),
    ):
        assert told(*messages(), other) == [SENTENCE]


@pytest.mark.parametrize(
    "value",
    [
        b"", b"[]", b'{"expected": 1}', b'{"expected": ["x", "2013-12-21", "why"]}', b'{"expected": [2, 1, "why"]}',
        b'{"expected": [1, 2, 3]}', b'{"expected": [1, 2, "why"], "partition": "a"}', b'{"acknowledged": {"partition": 0}}',
        b'{"acknowledged": [1]}', b'{"expected": [1e400, 2, "why"]}',
    ],
)  # fmt: skip
def test_what_is_no_control_message_is_refused_with_what_one_is(value):
    with pytest.raises(SchemaError, match="expected"):
        control_of(value)


def test_stories_of_versions_and_partitions_are_told_apart_and_their_number_is_bounded():
    apart = [
        alarm_of(**LOSS, seq=0, version=name, partition=number)
        for name in ("a", "b", None)
        for number in (0, 1)
    ]
    assert len(told(*apart)) == 6
    assert (
        len(told(*(alarm_of(**LOSS | {"cause": cause}, seq=cause, onset=cause) for cause in range(1, 700))))
        == 500
    )


def test_where_the_concept_changed_is_in_the_clause():
    both = Why(("concept", "inputs"), feature="usage", place=("plan", "pro"))
    assert both.words() == (
        "the concept changed, mostly where plan is pro, and the inputs did, first of all usage"
    )
    assert Why(("inputs",), feature="usage", place=("plan", "pro")).words() == (
        "the inputs changed, first of all usage"
    )


def test_a_subject_of_a_later_version_is_told_behind_those_that_are_known():
    unknown = alarm_of(seq=0, cause=1, subject="tides", feature=None, before=0.1, after=0.4)
    assert told(unknown)[0].count("tides rose") == 1
    (sentence,) = told(unknown, alarm_of(seq=1, cause=1, feature="moon"))
    assert "moon matters more" in sentence
