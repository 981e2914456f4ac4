import threading
from pathlib import Path

from service import warm


def test_the_first_compiles_and_the_others_wait_for_it_together(tmp_path):
    entered, leave = threading.Event(), threading.Event()
    inside = threading.Barrier(3)
    order = []

    def first():
        with warm._turn(tmp_path):
            order.append("first in")
            entered.set()
            leave.wait(30)
            order.append("first out")

    def other():
        with warm._turn(tmp_path):
            order.append("other in")
            inside.wait(30)  # all the others are within at the same time

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert entered.wait(30)
    threads += [threading.Thread(target=other) for _ in range(3)]
    for thread in threads[1:]:
        thread.start()
        thread.join(0.1)
    assert order == ["first in"]
    leave.set()
    for thread in threads:
        thread.join(30)
    assert order == ["first in", "first out", *["other in"] * 3] and not inside.broken


def test_a_folder_that_cannot_be_written_to_keeps_nobody_out():
    with warm._turn(Path("/dev/null/nowhere")), warm._turn(Path("/dev/null/nowhere")):
        pass
