"""Transactions that are torn, as by a broker that dies amid their end; ``python -m tests.crash.torn`` does it a hundred times."""

from tests.crash import torn


def test_what_a_torn_transaction_hides_is_published_again_and_what_is_visible_without_its_offsets_is_not() -> (
    None
):
    torn.main(2, seed=1, ways=["hidden", "uncommitted"])
