"""``python -m service.kafka.child COMMAND …``: run a command that must not outlive whoever started this.

The parent holds the other end of our stdin. When it closes, because the parent closed it or was killed, the command is
ended. The command's process id is the first line on stdout.
"""

from __future__ import annotations

import subprocess
import sys
import threading

STOP_SECONDS = 20


def main(command: list[str]) -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    threading.Thread(target=_end_with_parent, args=(child,), daemon=True).start()
    return child.wait()


def _end_with_parent(child: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
