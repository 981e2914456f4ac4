"""``python -m tests.crash.late_ends --trials 1000``: ends of transactions that come out of the network late, and whether every message is there once.

A proxy keeps an EndTxn and cuts its connection; librdkafka asks again and is answered. Once the next transaction has sent messages, the
one that was kept is handed to the broker. ``--then kill`` kills the worker there, ``--then abort`` makes its transaction fail.
``--without-new-producer`` switches the protection off, so that Kafka takes the late request for the end of the next transaction: what is left is
the repair. In the end every byte is compared.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from functools import partial

import click

from explain_sidecar.kafka.operators import release
from tests.crash.proxy import proxied_broker
from tests.crash.sabotage import no_new_producer
from tests.crash.torn import COMMIT_OFFSETS, END_TXN, Line, answer
from tests.crash.worker import SABOTAGE_VARIABLE

PRODUCE = 0
ILLEGAL_GENERATION = 22
INVALID_PRODUCER_EPOCH = 47


class LateLine(Line):
    command, pause = ("tests.crash.worker", "--slot", "0"), 0.005

    def trial(self, then: str) -> int:
        """The error code with which the broker answers the late request."""
        proxy = self.proxy
        asked = proxy.asked[END_TXN]
        proxy.held, proxy.hold = b"", END_TXN
        self.feed(4)
        self.until(lambda: proxy.held)
        self.until(lambda: proxy.asked[END_TXN] >= asked + 2)  # librdkafka has asked again
        sent = proxy.asked[PRODUCE]
        self.feed(8)
        self.until(lambda: proxy.asked[PRODUCE] > sent)
        if then == "abort":
            proxy.instead = COMMIT_OFFSETS, partial(answer, error=ILLEGAL_GENERATION)
        error = proxy.late()
        if then == "kill":
            self.worker.kill()
            release(self.pipeline.settings, 0)  # as its supervisor does
            self.worker = self.start()
        elif then == "abort":
            self.feed(2)  # where the offsets were already committed, the next transaction fails
            self.until(lambda: proxy.instead is None)
        self.until(self.pipeline.folded)
        return error


def main(trials: int, then: str, without: bool) -> None:
    answers: Counter[int] = Counter()
    broker, proxy = proxied_broker(None)
    with broker:
        sabotage = {SABOTAGE_VARIABLE: no_new_producer.__name__} if without else {}
        line = LateLine(broker, proxy, "late", EXPLAIN_COMMIT__INTERVAL_MS="200", **sabotage)
        line.feed(20)
        line.until(line.pipeline.folded)
        began = time.monotonic()
        for number in range(1, trials + 1):
            answers[line.trial(then)] += 1
            if number % (1 if then == "kill" else 25) == 0:
                click.echo(f"{number}: {dict(answers)}, {time.monotonic() - began:.0f} s", err=True)
        line.worker.stop()
        line.pipeline.verify()
        proxy.close()
    click.echo(
        json.dumps(
            {
                "late ends": trials,
                "then": then,
                "new producers": not without,
                "refused": answers[INVALID_PRODUCER_EPOCH],
                "taken for the end of another transaction": answers[0],
                "refused for another reason": trials - answers[INVALID_PRODUCER_EPOCH] - answers[0],
                "bytes that differ": 0,
            }
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--then", choices=["nothing", "abort", "kill"], default="nothing")
    parser.add_argument("--without-new-producer", action="store_true")
    arguments = parser.parse_args()
    main(arguments.trials, arguments.then, arguments.without_new_producer)
