"""Say when another feature becomes the most important one, beyond doubt: ``alert_on_change.py SERVERS TOPIC``."""

import argparse

from explain_client import Explanation, Explanations


def leader(explanation: Explanation) -> str | None:
    """The first feature, if its band is above the value of every other one."""
    top = explanation.importance().top(2)
    if len(top) < 2 or top[1][1].value is None or top[0][1].low is None:
        return None
    return top[0][0] if top[0][1].low > top[1][1].value else None


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("servers")
parser.add_argument("topic")
parser.add_argument("--until-caught-up", action="store_true")
arguments = parser.parse_args()

leaders: dict[int, str] = {}
with Explanations(arguments.servers, arguments.topic, follow=not arguments.until_caught_up) as stream:
    for explanation in stream:
        first, before = leader(explanation), leaders.get(explanation.partition)
        if first is not None and first != before:
            leaders[explanation.partition] = first
            where = f"{explanation.time:%F %T} {explanation.topic} partition {explanation.partition}"
            print(f"{where}: {first} leads", f"(it was {before})" if before else "", flush=True)
