"""``python -m tests.crash.tokens``: tokens of an OIDC server that live for a minute, while a worker folds for ten; every byte is compared.

The broker ends a connection that shows no new token in time.
"""

import json
import time
from itertools import islice

import click

from tests.broker.harness import Pipeline, mixed_records
from tests.broker.tokens import LISTENER, come, guarded_broker, oidc_server

RECORDS = 50
"""Each time before the worker is waited for."""


@click.command(help=__doc__)
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--seconds", default=60.0, show_default=True, help="How long a token lives.")
def main(minutes: float, seconds: float) -> None:
    asked, fed, slowest = list[str](), 0, 0.0
    records = mixed_records(2, 10_000_000, bad_every=50)
    with guarded_broker(seconds) as broker, oidc_server(seconds, asked.append) as config:
        line = Pipeline(broker, "tokens", 2)
        worker = line.worker(**come(broker.servers[LISTENER], None, **config))
        began = time.monotonic()
        while time.monotonic() < began + 60 * minutes:
            line.feed(list(islice(records, RECORDS)))
            fed, at = fed + RECORDS, time.monotonic()
            line.wait_for(line.folded)
            slowest = max(slowest, time.monotonic() - at if fed > RECORDS else 0.0)
            time.sleep(1.0)
        took = time.monotonic() - began
        if status := worker.stop():
            raise SystemExit(f"the worker ended with {status}:\n{worker.log()[-4_000:]}")
        line.verify()
    click.echo(
        json.dumps(
            {
                "minutes": round(took / 60, 1),
                "seconds of a token": seconds,
                "tokens": len(asked),
                "records": fed,
                f"slowest {RECORDS} records, s": round(slowest, 1),
                "lines of the log that warn": sum(
                    " warning " in f" {text.lower()} " for text in worker.log().splitlines()
                ),
                "bytes that differ": 0,
            }
        )
    )


if __name__ == "__main__":
    main()
