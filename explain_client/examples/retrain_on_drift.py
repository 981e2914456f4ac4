"""Run a command when the model errs more because the concept changed: ``retrain_on_drift.py SERVERS TOPIC -- COMMAND``.

The command gets the records topic, the partition and the offset from which the new concept holds. With ``drift.on_alarm`` that is the onset.
Otherwise it is the first record after the window in which the change was found: nobody knows where in it, or in the one before, it happened.
Of a change that two windows share, the second finding is passed over, unless the program was started again between them. The program is
a member of a consumer group and commits a message once its command has succeeded, so none is lost when it stops.
"""

import argparse
import subprocess
import sys

from explain_client import ClientError, Drift, Drifts


def calls_for_training(drift: Drift) -> bool:
    """Whether the concept is a cause of the change, and made the model worse."""
    change = drift.change
    return (
        change is not None
        and "concept" in drift.causes
        and change["change"] > 0
        and change["joint"]["concept"]["value"] > 0
    )


def begins(drift: Drift) -> int:
    """The offset from which the new concept holds."""
    return drift.target.last_offset + 1 if drift.alarm is None else drift.target.first_offset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--until-caught-up", action="store_true")
    parser.add_argument(
        "--group",
        default="retrain-on-drift",
        help="whose offset says what is done; one of its own for each COMMAND",
    )
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()

    found: dict[tuple[int, int], int] = {}
    """The last window with a change that calls for training, by partition and epoch."""
    follow = not arguments.until_caught_up
    with Drifts(arguments.servers, arguments.topic, follow=follow, group_id=arguments.group) as stream:
        for drift in stream:
            key, window = (drift.partition, drift.epoch), drift.target.number
            if calls_for_training(drift) and found.get(key) != window - 1:
                print(drift.time, drift.told, flush=True)
                where = (drift.topic, str(drift.partition), str(begins(drift)))
                try:
                    subprocess.run([*arguments.command, *where], check=True)
                except (OSError, subprocess.CalledProcessError) as error:
                    sys.exit(f"{error}; the message comes again at the next start")
                found[key] = window


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:  # such as a topic that is missing
        sys.exit(str(error))
