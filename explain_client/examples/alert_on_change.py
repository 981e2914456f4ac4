"""Say when another feature becomes the most important one: ``alert_on_change.py SERVERS TOPIC``.

Looks once in each memory of the smoothing, 2/α explained records, so that looks hardly depend on each other, and compares the
first feature with every other one. Over all looks, however many there will be, a leader among features that are equally
important is named with a probability of at most 1 %.
"""

import argparse
import sys
from collections.abc import Hashable
from itertools import count
from statistics import NormalDist

from explain_client import ClientError, Explanation, Explanations
from explain_client.words import second

LEVEL = 0.01
Z = NormalDist().inv_cdf(0.975)
"""Half a band of 95 % in standard errors."""


def leader(explanation: Explanation, look: int) -> str | None:
    """The first feature, if it is ahead of every other one by more than chance explains at this look (1, 2, ...).

    Look k may err with the probability LEVEL / k(k + 1), which adds up to LEVEL, over all ordered pairs of features. The errors
    of two features may depend on each other in any way: that of a difference is at most the sum of theirs. An error is that of the band,
    which allows for what the standard error does not know: dependence of neighbouring records, and extremes that come seldom.
    """
    cells = explanation.importance()
    known = [
        (cell.value, max(cell.std, (cell.high - cell.low) / 2.0 / Z), name)
        for name, cell in cells.items()
        if cell.value is not None and cell.std is not None and cell.low is not None and cell.high is not None
    ]
    if len(known) < 2 or len(known) < len(cells):
        return None
    (value, std, name), *others = sorted(known, reverse=True)
    width = -NormalDist().inv_cdf(LEVEL / (look * (look + 1)) / (len(known) * len(others)))
    return name if all(value - v > width * (std + s) for v, s, _ in others) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--until-caught-up", action="store_true")
    arguments = parser.parse_args()

    leaders: dict[Hashable, str] = {}
    looks: dict[Hashable, tuple[count[int], int]] = {}
    with Explanations(arguments.servers, arguments.topic, follow=not arguments.until_caught_up) as stream:
        for explanation in stream:
            model = (
                explanation.app_id,
                explanation.partition,
                explanation.version and explanation.version.name,
            )
            key = model, explanation.epoch
            numbers, due = looks.setdefault(key, (count(1), 0))
            if explanation.status == "warming" or explanation.explained < due:
                continue
            settings = next(iter(explanation.estimators.values()))
            looks[key] = numbers, explanation.explained + round(2 / settings["alpha"])
            first, before = leader(explanation, next(numbers)), leaders.get(model)
            if first is not None and first != before:
                leaders[model] = first
                where = f"{second(explanation.time)} {explanation.topic} partition {explanation.partition}"
                print(f"{where}: {first} leads{f' (it was {before})' if before else ''}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:  # such as a topic that is missing
        sys.exit(str(error))
