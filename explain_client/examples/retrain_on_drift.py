"""Run a command when the concept has changed, not just the inputs: ``retrain_on_drift.py SERVERS TOPIC -- COMMAND``.

The command gets the records topic, the partition and the offset from which the new concept holds. A member of a consumer group:
a message is committed once its command has succeeded, so that none is forgotten when this program stops.
"""

import argparse
import subprocess

from explain_client import Drifts

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("servers")
parser.add_argument("topic")
parser.add_argument("--until-caught-up", action="store_true")
parser.add_argument("command", nargs="+")
arguments = parser.parse_args()

follow = not arguments.until_caught_up
with Drifts(arguments.servers, arguments.topic, follow=follow, group_id="retrain-on-drift") as stream:
    for drift in stream:
        if "concept" in drift.causes:
            print(drift.time, drift.sentence, flush=True)
            where = (drift.topic, str(drift.partition), str(drift.target.first_offset))
            subprocess.run([*arguments.command, *where], check=True)
