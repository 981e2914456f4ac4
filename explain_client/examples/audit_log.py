"""Append what is new on the explanations topic to a folder of Parquet files: ``audit_log.py SERVERS TOPIC FOLDER``; with ``--rows`` on a topic of rows.

Each file carries the position that it reaches, and appears as a whole or not at all. After a run that was killed, the next one goes on from there,
and nothing is in the log twice. The digests prove later that nothing was taken out.
"""

import argparse
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from explain_client import ClientError, Explanations, Position, Rows, Start, to_pandas

KEY = b"explain_client.position"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("servers")
parser.add_argument("topic")
parser.add_argument("folder", type=Path)
parser.add_argument(
    "--rows", action="store_true", help="TOPIC has the rows that the sidecar publishes with rows.enabled"
)
arguments = parser.parse_args()

arguments.folder.mkdir(parents=True, exist_ok=True)
files = sorted(arguments.folder.glob("*.parquet"))
start: Start = Position.from_json(pq.read_schema(files[-1]).metadata[KEY]) if files else "earliest"
kind = Rows if arguments.rows else Explanations
try:
    with kind(arguments.servers, arguments.topic, start=start, follow=False) as stream:
        frame = to_pandas(stream)
except ClientError as error:  # such as a topic that is missing
    sys.exit(str(error))
if not frame.empty:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**table.schema.metadata, KEY: stream.position.to_json()})
    written = arguments.folder / ".part"
    pq.write_table(table, written)
    written.rename(arguments.folder / f"{len(files):08d}.parquet")
    print(f"{frame.digest.nunique()} messages, {len(frame)} rows")
