"""``python -m benchmarks.renewal``: what it costs to look for a broken connection before each transaction.

A worker does so, and then begins with a new producer, lest a late request ends another transaction. Here no connection
breaks. The CPU time of the look is compared with that of the whole transaction, all threads of the client among it, and with the time that passes.
"""

from __future__ import annotations

import time

import click
from confluent_kafka import Consumer, TopicPartition
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.pipeline import Pipeline
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.fold.messages import Output
from explain_sidecar.kafka.clients import ErrorLog
from explain_sidecar.kafka.transaction import Transaction

VALUE = b"x" * 1_000


class Timed(Transaction):
    """Counts the CPU time of its looks."""

    looks, seconds = 0, 0.0

    def _renew(self) -> None:
        began = time.thread_time()
        super()._renew()
        self.seconds += time.thread_time() - began
        self.looks += 1


@click.command(help=__doc__)
@click.option("--transactions", default=500, show_default=True)
def main(transactions: int) -> None:
    table = Table("messages in a transaction", "CPU of the look, µs", "CPU of the transaction, ms", "its time, ms", "look / CPU, %", "look / time, %", box=MARKDOWN)  # fmt: skip
    with Broker() as broker:
        for count in (1, 100):
            line = Pipeline(broker, f"renewal-{count}", 1)
            line.create(line.topics["explanations"])
            group = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": line.name})
            transaction = Timed(line.settings, f"{line.name}-0", ErrorLog())
            outputs = [Output("explanations", b"key", VALUE, ())] * count

            def one(number: int, line: Pipeline = line, group: Consumer = group, transaction: Timed = transaction, outputs: list[Output] = outputs) -> None:  # fmt: skip
                transaction.publish(0, outputs)
                transaction.commit([TopicPartition(line.topics["records"], 0, number)], group)

            for number in range(20):
                one(number)
            transaction.looks, transaction.seconds = 0, 0.0
            cpu, began = time.process_time(), time.perf_counter()
            for number in range(transactions):
                one(number)
            cpu, took = (time.process_time() - cpu) / transactions, (time.perf_counter() - began) / transactions  # fmt: skip
            assert transaction.looks == transactions
            look = transaction.seconds / transactions
            table.add_row(str(count), f"{1e6 * look:.1f}", f"{1e3 * cpu:.2f}", f"{1e3 * took:.2f}", f"{100 * look / cpu:.2f}", f"{100 * look / took:.3f}")  # fmt: skip
            group.close()
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
