"""``python child.py FOLDER COMMAND …``: run a command that must not outlive the process that started this one.

That process, the owner, holds the other end of this one's stdin. At the first byte, or when it closes because the owner was
killed, the command is ended, and then FOLDER is removed, unless it is "". The command's process id is the first line on
stdout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time

STOP_SECONDS = 20


def main(folder: str, *command: str) -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    owner_gone = threading.Event()

    def end_with_owner() -> None:
        os.read(0, 1)  # not by sys.stdin: its lock would abort this process if the command ended first
        owner_gone.set()
        child.terminate()
        time.sleep(STOP_SECONDS)
        child.kill()

    threading.Thread(target=end_with_owner, daemon=True).start()
    status = child.wait()
    if owner_gone.is_set() and folder:
        shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
