"""One job on thousands of servers that fail and are repaired: the AIReSim set-up. Times are minutes.

Every server fails at a low rate while the job computes; some are bad and fail more often until a repair cures them. A failure
stops the job for the recovery; a warm standby takes the server's place. Without a standby hosts are selected anew.
"""

import random
from dataclasses import dataclass, field
from typing import Protocol

from controller.simulation.agenda import Agenda


@dataclass(frozen=True)
class Fleet:
    """The parameters of the reference."""

    job_size: int = 4096
    standbys: int = 16
    working: int = 4160
    spares: int = 200
    job_minutes: float = 368_640.0
    rate: float = 0.01 / 1440
    bad_factor: float = 5.0
    bad_share: float = 0.15
    recovery: float = 20.0
    selection: float = 3.0
    preemption: float = 20.0
    auto_repair: float = 120.0
    manual_repair: float = 2880.0
    auto_fails: float = 0.4
    escalates: float = 0.8
    manual_fails: float = 0.2


@dataclass(eq=False, slots=True)
class Server:
    number: int
    bad: bool
    failures: list[float] = field(default_factory=list)
    place: int = 0  # in the list of its like, while it computes


class Care(Protocol):
    """What an operator's policy decides: who of the idle becomes a standby when a place is free, and which standby takes
    over. It sees when servers failed, not which are bad."""

    def stand_by(self, idle: list[Server], now: float) -> int: ...

    def take_over(self, standbys: list[Server], now: float) -> int: ...


class FirstCome:
    """The reference: who comes from repair stands by, and who waits longest takes over."""

    def stand_by(self, idle: list[Server], now: float) -> int:
        return len(idle) - 1

    def take_over(self, standbys: list[Server], now: float) -> int:
        return 0


class Lemons:
    """Who has failed again and again of late is kept out of the job while there is anybody else."""

    WINDOW = 60 * 1440.0

    def stand_by(self, idle: list[Server], now: float) -> int:
        return self.take_over(idle, now)

    def take_over(self, standbys: list[Server], now: float) -> int:
        for place in reversed(range(len(standbys))):
            if not self._strikes(standbys[place], now):
                return place
        return min(range(len(standbys)), key=lambda place: self._strikes(standbys[place], now))

    def _strikes(self, server: Server, now: float) -> int:
        """Failures within the window, beyond the first: that one has been repaired."""
        return max(0, sum(now - at < self.WINDOW for at in server.failures) - 1)


@dataclass(frozen=True)
class Outcome:
    hours: float
    ratio: float
    failures: int
    systematic: int
    selections: int
    manual: int


class Crew:
    """The servers that compute, bad and good apart, so that the next to fail is found without looking at all."""

    def __init__(self) -> None:
        self.sides: tuple[list[Server], list[Server]] = ([], [])

    def add(self, server: Server) -> None:
        side = self.sides[server.bad]
        server.place = len(side)
        side.append(server)

    def remove(self, server: Server) -> None:
        side = self.sides[server.bad]
        last = side.pop()
        if last is not server:
            side[server.place] = last
            last.place = server.place


def simulate(fleet: Fleet, care: Care, seed: int) -> Outcome:
    return Run(fleet, care, seed).run()


class Run:
    def __init__(self, fleet: Fleet, care: Care, seed: int) -> None:
        self.fleet, self.care, self.draw = fleet, care, random.Random(seed)
        total = fleet.working + fleet.spares
        servers = [Server(number, number < int(total * fleet.bad_share)) for number in range(total)]
        self.draw.shuffle(servers)
        self.idle, self.spares = servers[: fleet.working], servers[fleet.working :]
        self.crew, self.standbys = Crew(), list[Server]()
        self.agenda: Agenda[tuple[Server, bool]] = Agenda()  # a server comes back, cured or not
        self.left = fleet.job_minutes
        self.failures = self.systematic = self.selections = self.manual = 0

    def run(self) -> Outcome:
        now = self._select(0.0)
        while True:
            computed, failed = self._next_failure()
            now += computed
            self.left -= computed
            self._returns(now)
            if failed is None:
                break
            self._repair(failed, now)
            now += self.fleet.recovery
            self._returns(now)
            if self.standbys:
                self.crew.add(self.standbys.pop(self.care.take_over(self.standbys, now)))
            else:
                now = self._select(now)
        return Outcome(
            now / 60,
            self.fleet.job_minutes / now,
            self.failures,
            self.systematic,
            self.selections,
            self.manual,
        )

    def _next_failure(self) -> tuple[float, Server | None]:
        good, bad = self.crew.sides
        each = 1 + self.fleet.bad_factor
        weight = len(good) + each * len(bad)
        after = self.draw.expovariate(weight * self.fleet.rate)
        if after >= self.left:
            return self.left, None
        side = bad if self.draw.random() * weight < each * len(bad) else good
        server = self.draw.choice(side)
        if server.bad and self.draw.random() < self.fleet.bad_factor / each:
            self.systematic += 1
        return after, server

    def _repair(self, server: Server, now: float) -> None:
        """Off to repair: first the automatic one, and some of those that it fails go to people."""
        fleet = self.fleet
        self.failures += 1
        server.failures.append(now)
        self.crew.remove(server)
        back = now + self.draw.expovariate(1 / fleet.auto_repair)
        cured = self.draw.random() >= fleet.auto_fails
        if not cured and self.draw.random() < fleet.escalates:
            self.manual += 1
            back += self.draw.expovariate(1 / fleet.manual_repair)
            cured = self.draw.random() >= fleet.manual_fails
        self.agenda.note(back, (server, cured))

    def _returns(self, now: float) -> None:
        while self.agenda.next_at <= now:
            self._return()

    def _return(self) -> None:
        server, cured = self.agenda.take()
        server.bad = server.bad and not cured
        self.idle.append(server)
        if len(self.standbys) < self.fleet.standbys:
            self.standbys.append(self.idle.pop(self.care.stand_by(self.idle, self.agenda.now)))

    def _select(self, now: float) -> float:
        """Hosts anew: who computes stays; the rest comes from the pool, then from the spares, then from repair. The time
        when the job computes again."""
        fleet = self.fleet
        active = sum(map(len, self.crew.sides))
        if active + len(self.idle) + len(self.standbys) < fleet.job_size:
            while active + len(self.idle) + len(self.standbys) < fleet.job_size + fleet.standbys:
                if self.spares:
                    now += fleet.preemption
                    self.idle.append(self.spares.pop(0))
                else:
                    now = max(now, self.agenda.next_at)
                    self._return()
                self._returns(now)
        pool, self.idle, self.standbys = self.standbys + self.idle, [], []
        while active < fleet.job_size:
            self.crew.add(pool.pop(self.care.take_over(pool, now)))
            active += 1
        self.standbys, self.idle = pool[: fleet.standbys], pool[fleet.standbys :]
        self.selections += 1
        return now + fleet.selection
