"""``python -m tests.fuzz.guided``: libFuzzer, by atheris, makes inputs that reach code which none before them reached.

The entries are those of the random fuzzing, each in a process of its own. An input on which one fails is left in the
state's folder; ``python -m tests.fuzz.guided --entry ENTRY FILE`` tries it again.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import atheris
import click

with atheris.instrument_imports(include=["explain_sidecar"]):
    from tests.fuzz import entries

SHARES = {
    "records": 0.1,
    "settings": 0.15,
    "snapshots": 0.05,
    "manifests": 0.5,
    "metadata": 0.2,
}
"""Of the inputs; one of ``records`` is a stream of some."""

MAX_SECONDS_AN_INPUT = 20
MAX_MEGABYTES = 2_000
RUNS = re.compile(r"Done (\d+) runs|stat::number_of_executed_units: (\d+)")


def records(data: bytes) -> None:
    """A byte for the task, then records, a line each: the value, and names of headers after tabs; an empty value is none."""
    tasks = sorted(entries.KNOWN)
    stream = [_record(line) for line in data[1:].split(b"\n")[:20]]
    entries.records(tasks[data[0] % len(tasks) if data else 0], stream)


def _record(line: bytes) -> tuple[bytes | None, list[bytes]]:
    value, *names = line.split(b"\t")
    return value or None, names


def settings(data: bytes) -> None:
    """Variables, a line each, without their prefix."""
    text = data.replace(b"\x00", b"").decode("utf-8", "ignore")
    pairs = (line.partition("=") for line in text.split("\n")[:5])
    entries.environment({f"EXPLAIN_{name}": value for name, _, value in pairs})


def metadata(data: bytes) -> None:
    entries.metadata(data.decode("utf-8", "replace"))


ENTRIES: dict[str, tuple[Callable[[bytes], None], Sequence[bytes]]] = {
    "records": (
        records,
        [
            bytes([task]) + b'{"a": 1.5, "c": "x", "label": true, "when": 7, "id": "i"}\n{"a": null, "label": 0, "weight": 2}\n{"a": 1'
            for task in range(len(entries.KNOWN))
        ],
    ),
    "settings": (
        settings,
        [
            *(name.removeprefix("EXPLAIN_").encode() + b"=1" for name in entries.VARIABLES),
            b'EXPLAINERS=[{"kind": "isage", "alpha": 0.1, "losses": ["brier"], "groups": {"g": ["a", "b"]}}]\nRECORD__FEATURES=a,b',
            b'KAFKA__CONFIG={"sasl.password": "x"}\nMODEL__PARAMS={"n_models": 3}\nTOPICS={"records": "a"}',
        ],
    ),
    "snapshots": (entries.chunk, [entries.chunk_of_it()]),
    "manifests": (entries.manifest, [entries.manifest_of_it()]),
    "metadata": (metadata, [entries.POINTER.encode()]),
}  # fmt: skip


def fuzz(entry: str, arguments: Sequence[str]) -> None:
    """Does not return: libFuzzer ends the process."""
    atheris.Setup([sys.argv[0], *arguments], ENTRIES[entry][0])
    atheris.Fuzz()


def explore(entry: str, inputs: int, seed: int, state: Path) -> tuple[int, bool]:
    """How many inputs were tried, and whether all of them held."""
    corpus = state / entry
    corpus.mkdir(parents=True, exist_ok=True)
    known = ENTRIES[entry][1]
    for number, value in enumerate(known):
        (corpus / f"known-{number}").write_bytes(value)
    limits = [
        f"-runs={inputs}",
        f"-seed={seed}",
        f"-max_len={max(1_000, 2 * max(map(len, known)))}",
        f"-timeout={MAX_SECONDS_AN_INPUT}",
        f"-rss_limit_mb={MAX_MEGABYTES}",
        f"-artifact_prefix={state / entry}-",
        "-print_final_stats=1",
    ]
    command = [sys.executable, "-m", "tests.fuzz.guided", "--entry", entry, *limits, str(corpus)]
    log = state / f"{entry}.log"
    with log.open("wb") as file:
        status = subprocess.run(command, stdout=file, stderr=file, check=False).returncode
    counts = [int(runs or other) for runs, other in RUNS.findall(log.read_text(errors="replace"))]
    return max(counts, default=0), status == 0


@click.command(help=__doc__, context_settings={"ignore_unknown_options": True})
@click.option("--inputs", default=300_000, show_default=True, help="How many in all.")
@click.option("--seed", default=1, show_default=True)
@click.option("--state", default=Path("build/guided"), show_default=True, type=click.Path(path_type=Path))
@click.option(
    "--entry", type=click.Choice(list(ENTRIES)), help="This one alone, with libFuzzer's own arguments."
)
@click.argument("arguments", nargs=-1)
def main(inputs: int, seed: int, state: Path, entry: str | None, arguments: tuple[str, ...]) -> None:
    if entry is not None:
        fuzz(entry, arguments)
    failed = []
    total = 0
    for name, share in SHARES.items():
        tried, held = explore(name, round(share * inputs), seed, state)
        total += tried
        click.echo(
            f"{name}: {tried:,} inputs{'' if held else ', and one that fails: ' + str(state / name) + '.log'}"
        )
        failed += [] if held else [name]
    click.echo(f"{total:,} inputs in all; {len(failed)} entries failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
