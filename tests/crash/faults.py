"""What goes wrong in a campaign: each fault is a function of the campaign and of a seeded generator, and says what it did."""

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from explain_sidecar.crash_points import POINTS
from tests.crash.proxy import SESSION_SECONDS

if TYPE_CHECKING:
    from tests.crash.campaign import Campaign

MIN_WORKERS, MAX_WORKERS = 2, 4
"""Of a stage; of each of two stages one fewer at the most."""
REACH_SECONDS = 60.0
"""How long a worker has to come to its crash point."""

BY_OTHERS = ("restore", "replay", "rebalance.assign", "rebalance.revoke")
"""Crash points that a worker comes to by what happens to other members of the group."""

OF_THE_FOLD = ("replay",)
"""Crash points that no other stage comes to."""

Fault = Callable[["Campaign", random.Random], str]


class Recovery(NamedTuple):
    """Seconds after a SIGKILL, for the partition that came back last: until it was assigned, restored, and running."""

    takeover: float
    restore: float
    replay: float
    dark: float


def kill(campaign: "Campaign", rng: random.Random) -> str:
    fleet, slot = campaign.fleet, _victim(campaign, rng)
    partitions = fleet.owned(fleet.live[slot])
    fleet.kill(slot)
    killed = time.time()
    fleet.wait(rng.uniform(0, 1.5))
    fleet.start(slot)
    stage = fleet.stage(slot)
    back = campaign.until(lambda: partitions <= _running_since(campaign, killed, stage), 60)
    recovery = _recovery(campaign, partitions, killed, stage) if partitions and back else None
    if recovery:
        campaign.recoveries.append(recovery)
    return f"SIGKILL worker {slot} with {len(partitions)} partitions{'' if back else '; not all came back in 60 s'}"


def terminate(campaign: "Campaign", rng: random.Random) -> str:
    slot = _victim(campaign, rng)
    campaign.fleet.stop(slot)
    campaign.fleet.wait(rng.uniform(0, 1))
    campaign.fleet.start(slot)
    return f"SIGTERM worker {slot} and start it again"


def freeze(campaign: "Campaign", rng: random.Random) -> str:
    """Away for longer than the session timeout: its partitions go to others, and it wakes up as a zombie."""
    slot, seconds = _victim(campaign, rng), SESSION_SECONDS + rng.uniform(1, 3)
    return _freeze(campaign, slot, seconds)


def nap(campaign: "Campaign", rng: random.Random) -> str:
    return _freeze(campaign, _victim(campaign, rng), rng.uniform(0.3, SESSION_SECONDS - 1))


def _freeze(campaign: "Campaign", slot: int, seconds: float) -> str:
    campaign.fleet.freeze(slot)
    campaign.fleet.wait(seconds)
    campaign.fleet.thaw(slot)
    return f"SIGSTOP worker {slot} for {seconds:.1f} s"


def add(campaign: "Campaign", rng: random.Random) -> str:
    stages = len(campaign.fleet.stages)
    most = stages * (MAX_WORKERS + 1 - stages)
    free = [slot for slot in range(most) if slot not in campaign.fleet.live]
    if not free:
        return remove(campaign, rng)
    campaign.fleet.start(free[0])
    return f"add worker {free[0]}"


def remove(campaign: "Campaign", rng: random.Random) -> str:
    fleet = campaign.fleet
    enough = [slot for slot in sorted(fleet.live) if len(fleet.peers(slot)) > MIN_WORKERS]
    if not enough:
        return add(campaign, rng)
    slot = rng.choice(sorted(set(enough) - campaign.spared))
    fleet.stop(slot)
    return f"remove worker {slot}"


def broker_kill(campaign: "Campaign", rng: random.Random) -> str:
    campaign.broker.kill()
    campaign.fleet.wait(rng.uniform(0, 2))
    campaign.start_broker()
    return "SIGKILL the broker and start it again"


def slow_broker(campaign: "Campaign", rng: random.Random) -> str:
    seconds, campaign.proxy.delay = rng.uniform(2, 4), rng.uniform(0.05, 0.4)
    campaign.fleet.wait(seconds)
    delay, campaign.proxy.delay = campaign.proxy.delay, 0.0
    return f"{1000 * delay:.0f} ms of delay for {seconds:.1f} s"


def cut_off(campaign: "Campaign", rng: random.Random) -> str:
    seconds = rng.uniform(0.5, 1.5 * SESSION_SECONDS)
    campaign.proxy.cut(True)
    campaign.fleet.wait(seconds)
    campaign.proxy.cut(False)
    return f"no worker reaches the broker for {seconds:.1f} s"


def coordinator_down(campaign: "Campaign", rng: random.Random) -> str:
    """The broker, which is the coordinator of group and transaction, dies while a worker is about to commit."""
    slot, reached = _armed(campaign, rng, f"commit.before:{rng.randint(1, 9)}:stop")
    campaign.broker.kill()
    campaign.fleet.thaw(slot)
    campaign.start_broker()
    return f"SIGKILL the broker in the middle of a commit of worker {slot}{reached}"


def zombie_commit(campaign: "Campaign", rng: random.Random) -> str:
    """A worker is away for longer than the session timeout between its offsets and its commit."""
    point = rng.choice(["send_offsets.before", "send_offsets.after", "produce.after"])
    slot, reached = _armed(campaign, rng, f"{point}:{rng.randint(1, 9)}:stop")
    campaign.fleet.wait(SESSION_SECONDS + rng.uniform(1, 2))
    campaign.fleet.thaw(slot)
    return f"SIGSTOP worker {slot} at {point}{reached}"


def full_disk(campaign: "Campaign", rng: random.Random) -> str:
    """The broker's disk is full: it ends by itself; there is room again, and it is started again."""
    ballast = campaign.broker.data / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**20))
        except OSError:
            pass
    campaign.fleet.wait(rng.uniform(2, 6))
    ballast.unlink()
    campaign.broker.kill()
    campaign.start_broker()
    return "the broker's disk is full, and has room again"


def crash_point(point: str) -> Fault:
    """SIGKILL at a named place in the service."""
    most = {"restore": 2, "replay": 3, "rebalance.assign": 2, "rebalance.revoke": 1}.get(point, 20)

    def crash(campaign: "Campaign", rng: random.Random) -> str:
        slot, reached = _armed(campaign, rng, f"{point}:{rng.randint(1, most)}")
        return f"SIGKILL worker {slot} at {point}{reached}"

    return crash


def kill_supervisor(campaign: "Campaign", rng: random.Random) -> str:
    """Its workers see that it is gone and leave, while their successors start under the same names."""
    slot = _victim(campaign, rng)
    campaign.fleet.kill(slot)
    campaign.fleet.wait(rng.uniform(0, 1.5))
    campaign.fleet.start(slot)
    campaign.fleet.wait(rng.uniform(1, 5))
    return f"SIGKILL supervisor {slot}"


def kill_supervised(campaign: "Campaign", rng: random.Random) -> str:
    """The supervisor starts another in its place; it may be the process that forks the workers, and then all of them."""
    slot = _victim(campaign, rng)
    pid = campaign.fleet.shoot(slot, rng)
    campaign.fleet.wait(rng.uniform(1, 6))
    return f"SIGKILL process {pid} of supervisor {slot}"


KINDS: dict[str, Fault] = {
    "SIGKILL": kill,
    "SIGTERM": terminate,
    "SIGSTOP past the session timeout": freeze,
    "SIGSTOP within the session timeout": nap,
    "worker added": add,
    "worker removed": remove,
    "broker SIGKILL": broker_kill,
    "slow broker": slow_broker,
    "broker cut off": cut_off,
    "coordinator down during commit": coordinator_down,
    "zombie at commit": zombie_commit,
    "full disk": full_disk,
    **{f"crash point {point}": crash_point(point) for point in POINTS},
}

SUPERVISED: dict[str, Fault] = {
    "supervisor SIGKILL": kill_supervisor,
    "supervised worker SIGKILL": kill_supervised,
    "broker SIGKILL": broker_kill,
}
"""Where supervisors are started in place of workers."""

SUPERVISED_KINDS = (
    *["supervisor SIGKILL", "supervised worker SIGKILL"] * 10,
    *["broker SIGKILL"] * 2,
)


def _victim(campaign: "Campaign", rng: random.Random, stage: str | None = None) -> int:
    fleet = campaign.fleet
    return rng.choice(
        [
            slot
            for slot in sorted(fleet.live)
            if slot not in campaign.spared and stage in (None, fleet.stage(slot))
        ]
    )


def _armed(campaign: "Campaign", rng: random.Random, point: str) -> tuple[int, str]:
    """Replace a worker by one that comes to a crash point; whatever is needed to get it there is done on the way."""
    fleet, name = campaign.fleet, point.partition(":")[0]
    slot = _victim(campaign, rng, "fold" if name in OF_THE_FOLD else None)
    fleet.kill(slot)
    process = fleet.start(slot, point)
    deadline = time.monotonic() + REACH_SECONDS
    others = [other for other in fleet.peers(slot) if other != slot]
    while f"crash point {name} reached" not in process.log():
        if time.monotonic() > deadline or fleet.live.get(slot) is not process:
            if fleet.live.get(slot) is process:
                fleet.kill(slot)
                fleet.start(slot)
            return slot, " (did not come to it)"
        if name in BY_OTHERS and fleet.owned(process):
            # A member that leaves, or whose partitions come with something to fold again; and later one that comes.
            other, leaves = rng.choice(others), name.startswith("rebalance")
            (fleet.stop if leaves else fleet.kill)(other)
            fleet.wait(1.0 if leaves and not campaign.static else SESSION_SECONDS + 1.0)
            fleet.start(other)
        fleet.wait(0.5)
    if not point.endswith(":stop"):
        campaign.until(lambda: fleet.live[slot] is not process, 5)
    return slot, ""


def _running_since(campaign: "Campaign", moment: float, stage: str) -> set[int]:
    return {e.partition for e in campaign.fleet.events(stage=stage) if e.what == "running" and e.at > moment}


def _recovery(campaign: "Campaign", partitions: set[int], killed: float, stage: str) -> Recovery | None:
    """None where the partition that came back last was on its way to another worker before the kill."""
    events = [e for e in campaign.fleet.events(stage=stage) if e.at > killed and e.partition in partitions]
    running = {p: next(e.at for e in events if e.what == "running" and e.partition == p) for p in partitions}
    last = max(running, key=lambda p: running[p])
    mine = [e for e in events if e.partition == last and e.at <= running[last]]
    assigned = next((e.at for e in reversed(mine) if e.what == "assigned"), None)
    if assigned is None:
        return None
    restored = [e.at for e in mine if e.what == "restored"][-1:] or [running[last]]
    return Recovery(
        assigned - killed, restored[0] - assigned, running[last] - restored[0], running[last] - killed
    )
