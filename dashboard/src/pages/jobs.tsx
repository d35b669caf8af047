import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ask, useApi } from "../client";
import { age, until } from "../format";
import { Empty, Phase, Table, Trouble, jobLink, type Column } from "../parts";
import type { Job, List, Summary } from "../types";

const PHASES = ["Queued", "Starting", "Running", "Recovering", "Suspended", "Succeeded", "Failed", "Cancelled"];
const LIVE = PHASES.slice(0, 5);
const PAGE = 500;

const columns: Column<Job>[] = [
  { title: "Name", width: "minmax(160px,1.4fr)", cell: (one) => one.metadata.name },
  { title: "Phase", width: "130px", cell: (one) => <Phase word={one.status.phase} /> },
  { title: "Namespace", width: "110px", cell: (one) => one.metadata.namespace, wide: true },
  { title: "Queue", width: "100px", cell: (one) => String(one.spec["queue"] ?? ""), wide: true },
  { title: "Devices", width: "120px", cell: (one) => devices(one), wide: true },
  { title: "Step", width: "80px", cell: (one) => one.status.progress?.step ?? "–", right: true, wide: true },
  { title: "Restarts", width: "74px", cell: (one) => one.status.restarts, right: true, wide: true },
  { title: "Starts", width: "92px", cell: (one) => (one.status.phase === "Queued" ? until(one.status.eta?.at) : "–"), right: true },
  { title: "Age", width: "84px", cell: (one) => age(one.metadata.createdAt), right: true },
  { title: "Message", width: "minmax(0,2fr)", cell: (one) => <span className="mute">{one.status.reason && <b className="mono">{one.status.reason} </b>}{one.status.message}</span>, wide: true },
];

export function devices(job: Job): string {
  const wanted = (job.spec["accelerators"] as { type: string; count: number }[] | undefined)?.[0];
  const workers = Number(job.spec["workers"] ?? 1);
  return wanted ? `${workers} × ${wanted.count} ${wanted.type}` : `${workers} × cpu`;
}

/** Pages of a list that grows as one scrolls, read again when jobs change. */
function usePages(query: string) {
  const [state, setState] = useState<{ query: string; items: Job[]; next?: string | undefined }>({ query, items: [] });
  const first = useApi<List<Job>>(`/jobs?limit=${PAGE}${query}`, ["Job", "Attempt"], 1500);
  useEffect(() => {
    const data = first.data;
    if (!data) return;
    setState((before) => {
      const behind = before.query === query && before.items.length > PAGE ? before.items.slice(PAGE) : [];
      const known = new Set(data.items.map((one) => one.metadata.uid));
      return { query, items: [...data.items, ...behind.filter((one) => !known.has(one.metadata.uid))], next: behind.length ? before.next : data.metadata.continue };
    });
  }, [first.data, query]);
  const busy = useRef(false);
  const more = useCallback(async () => {
    if (busy.current || !state.next) return;
    busy.current = true;
    try {
      const page = await ask<List<Job>>("GET", `/jobs?limit=${PAGE}${query}&continue=${encodeURIComponent(state.next)}`);
      setState((before) => (before.query === query ? { query, items: [...before.items, ...page.items], next: page.metadata.continue } : before));
    } finally {
      busy.current = false;
    }
  }, [state.next, query]);
  return { items: state.query === query ? state.items : [], more: state.next ? more : undefined, error: first.error, ready: Boolean(first.data) };
}

export function Jobs({ query }: { query: URLSearchParams }) {
  const phase = query.get("phase") ?? "";
  const queue = query.get("queue") ?? "";
  const reason = query.get("reason") ?? "";
  const word = query.get("q") ?? "";
  const summary = useApi<Summary>("/summary", ["Job"], 2000);
  const phases = phase === "all" ? [] : phase ? [phase] : LIVE;
  const found = usePages(phases.map((one) => `&phase=${one}`).join("") + (queue ? `&queue=${encodeURIComponent(queue)}` : ""));
  const rows = useMemo(
    () => found.items.filter((one) => (!reason || one.status.reason === reason) && (!word || JSON.stringify([one.metadata, one.status.message, one.status.workers]).toLowerCase().includes(word.toLowerCase()))),
    [found.items, reason, word],
  );
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(query);
    if (value) next.set(name, value);
    else next.delete(name);
    history.replaceState(null, "", `#/jobs${next.size ? `?${next}` : ""}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const queues = [...new Set([...(summary.data?.queues.map((one) => one.queue) ?? []), ...(queue ? [queue] : [])])];
  return (
    <>
      <div className="top">
        <h1>Jobs</h1>
        <span className="grow" />
        <input type="search" aria-label="Filter by any word" placeholder="Filter ( / )" value={word} onChange={(event) => set("q", event.target.value)} />
        <select aria-label="Phase" value={phase} onChange={(event) => set("phase", event.target.value)}>
          <option value="">live</option>
          <option value="all">all phases</option>
          {PHASES.map((one) => <option key={one}>{one}</option>)}
        </select>
        <select aria-label="Queue" value={queue} onChange={(event) => set("queue", event.target.value)}>
          <option value="">all queues</option>
          {queues.map((one) => <option key={one}>{one}</option>)}
        </select>
        {reason && <button onClick={() => set("reason", "")}>reason {reason} ×</button>}
      </div>
      <Trouble error={found.error} />
      {found.ready && rows.length === 0 && <Empty>No job is like this. {!phase && <a href="#/jobs?phase=all">Finished ones, too</a>}</Empty>}
      <Table rows={rows} columns={columns} id={(one) => one.metadata.uid} open={(one) => jobLink(one.metadata.namespace ?? "", one.metadata.name)} more={found.more} />
    </>
  );
}
