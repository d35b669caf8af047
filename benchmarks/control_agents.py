"""What agents cost: starts handed to them, exchanges, and a fleet that has to keep its leases."""

import argparse
import asyncio
import time

from sqlalchemy import create_engine, text

from benchmarks.control_jobs import JOBS, LIST
from benchmarks.figures import Figure, at_least, below, beside, percentile
from benchmarks.lab import Lab, Site
from benchmarks.swarm import Agent, gather, renew_every
from benchmarks.wires import Http
from muster.protocol import Lease

NODES, DEVICES = 250, 8
EXCHANGING = 200


async def starts(lab: Lab, given: argparse.Namespace) -> list[Figure]:
    """Jobs wait; then there is a leader. Until the last of them was planned, committed and told to its agent."""
    url = lab.database("bench_starts")
    told: dict[str, float] = {}
    with lab.site(url) as site:
        agents = await gather(
            NODES,
            site.urls[0],
            site.agent_token,
            devices=DEVICES,
            started=lambda job: told.setdefault(job, time.monotonic()),
        )
        renewing = asyncio.create_task(renew_every(agents, 5.0))
        wanted = min(given.starts, NODES * DEVICES)
        await _fill(site, wanted)
        site.lead()
        leading = await _led(url)
        deadline = time.monotonic() + 180
        while len(told) < wanted and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        renewing.cancel()
        for agent in agents:
            agent.close()
    times = sorted(told.values())
    rate = len(times) / (times[-1] - leading) if times else 0.0
    return [
        at_least("starts", f"{len(times)} starts planned, committed and told to {NODES} agents", rate, "/s", 200),
        beside("starts", "  jobs that were not started", wanted - len(times), ""),
    ]


async def _led(url: str) -> float:
    """When there was a leader: from then on it reads, plans and starts."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        while not connection.execute(text("SELECT holder FROM leader")).scalar():
            await asyncio.sleep(0.01)
    engine.dispose()
    return time.monotonic()


async def _fill(site: Site, count: int) -> None:
    http = Http(site.urls[0], site.token)
    spec = {"command": ["true"], "workers": 1, "accelerators": [{"type": "h100", "count": 1}]}
    for first in range(0, count, LIST):
        items = [{"metadata": {"name": f"s-{n}"}, "spec": spec} for n in range(first, min(count, first + LIST))]
        await http.json("POST", JOBS, {"apiVersion": "muster.dev/v1", "kind": "JobList", "items": items})
    http.close()


async def exchange(lab: Lab, given: argparse.Namespace) -> list[Figure]:
    """Each agent renews again as soon as its renewal is acknowledged: as many exchanges as one API process gives."""
    url = lab.database("bench_exchange")
    with lab.site(url) as site:
        agents = await gather(EXCHANGING, site.urls[0], site.agent_token)
        for agent in agents:
            agent.again = agent.renew
            agent.renew()
        await asyncio.sleep(1)
        before = sum(len(agent.took) for agent in agents)
        await asyncio.sleep(given.seconds)
        count = sum(len(agent.took) for agent in agents) - before
        took = [one * 1000 for agent in agents for one in agent.took]
        for agent in agents:
            agent.again = None
            agent.close()
    return [
        at_least(
            "exchange", f"exchanges of {EXCHANGING} agents with one API process", count / given.seconds, "/s", 1000
        ),
        beside("exchange", "  99th percentile", percentile(took, 0.99), "ms"),
    ]


async def fleet(lab: Lab, given: argparse.Namespace) -> list[Figure]:
    """Agents renew at the period of a production cluster while the controller watches them."""
    url, lease, seconds = lab.database("bench_fleet"), Lease(), given.fleet_minutes * 60
    memory: dict[str, list[float]] = {"api-0": [], "controller": []}
    with lab.site(url, lease=lease) as site:
        site.lead()
        agents: list[Agent] = []
        renewing = asyncio.create_task(renew_every(agents, lease.renew))
        await gather(given.agents, site.urls[0], site.agent_token, devices=1, into=agents)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(min(5.0, max(0.1, end - time.monotonic())))
            for name, samples in memory.items():
                samples.append(site.memory(name))
        renewing.cancel()
        silent = await _silent(site)
        gap, took = max(agent.gap for agent in agents), [one * 1000 for agent in agents for one in agent.took]
        for agent in agents:
            agent.close()
    missed = silent + sum(agent.gap > lease.unknown for agent in agents)
    figures = [
        Figure(
            "fleet",
            f"missed leases of {given.agents} agents in {given.fleet_minutes:g} min",
            missed,
            "",
            "0",
            missed == 0,
        ),
        beside("fleet", "  longest time between acknowledged renewals", gap, "s"),
        beside("fleet", "  99th percentile of a renewal", percentile(took, 0.99), "ms"),
    ]
    for name, samples in memory.items():
        settled = samples[len(samples) // 4 :]
        grown = settled[-1] - settled[0]
        figures.append(below("fleet", f"  memory of {name}: grown after the first quarter", grown, "MiB", 10))
        figures.append(beside("fleet", f"  memory of {name}", settled[-1], "MiB"))
    return figures


async def _silent(site: Site) -> int:
    """Nodes that the controller has ever called Unknown or Lost."""
    http = Http(site.urls[0], site.token)
    page = await http.json("GET", "/api/v1/events?limit=1000")
    http.close()
    return sum(event["reason"] in ("NodeUnknown", "NodeLost") for event in page["items"])
