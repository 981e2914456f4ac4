"""What a section of the settings adds to the explanations leaves all else in them as it is without it."""

import pytest

from tests.folds import SMALL, fold, messages, new_state, values

ADDED = {
    "partial_dependence": ({"partial_dependence": {"features": ["a"], "every": 5}}, []),
    "segments": ({"explainers": [{**SMALL[0], "by": "colour", "segments": 2}, SMALL[1]]}, {}),
    "challenger": ({"challenger": {"name": "tree", "every": 1}}, None),
    "estimated_loss": ({"explain": {"estimated_loss": True}}, {}),
}


@pytest.mark.parametrize("field", ADDED)
def test_with_it_nothing_else_is_another(field):
    sections, nothing = ADDED[field]
    given = [value if i % 5 else {**value, "label": None} for i, value in enumerate(values(400))]
    (state, told), (without, plain) = (
        (state, messages(fold(state, given)))
        for state in (new_state(record={"unlabelled": "predict"}, **more) for more in (sections, {}))
    )
    assert all(message[field] == nothing for message in plain) and len(plain) == 32
    assert any(message[field] for message in told)
    for one, other in zip(told, plain, strict=True):
        assert {**one, "digest": 0, field: nothing} == {**other, "digest": 0}
    # What the challenger predicts is in the digest of the fold.
    assert (state.fold_digest == without.fold_digest) == (field != "challenger")
