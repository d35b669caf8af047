import { useState } from "react";
import { ask, useApi } from "../client";
import { until } from "../format";
import { Card, Empty, Link, Trouble, jobLink } from "../parts";
import type { Problem } from "../client";
import type { Fabric } from "../types";

type When = { at: string | null; basis: string; note: string };
type Found = {
  starts: { namespace: string; name: string; nodes: string[]; domain: string }[];
  evictions: { namespace?: string; name?: string }[];
  waiting: number;
  jobs: { namespace: string; name: string; today: When | null; then: When | null }[];
};

export function WhatIf() {
  const fabric = useApi<Fabric>("/fabric", [], 60000);
  const [add, setAdd] = useState(0);
  const [like, setLike] = useState("");
  const [drain, setDrain] = useState<string[]>([]);
  const [answer, setAnswer] = useState<Found | null>(null);
  const [error, setError] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const names = fabric.data?.nodes.map((one) => one.name) ?? [];
  const run = async () => {
    setBusy(true);
    try {
      setAnswer(await ask("POST", "/whatif", { ...(add ? { addNodes: add, like: like || names[0] } : {}), ...(drain.length ? { drain } : {}) }));
      setError(undefined);
    } catch (problem) {
      setError(problem as Problem);
    }
    setBusy(false);
  };
  return (
    <>
      <h1>What if</h1>
      <Card title="Something were different">
        <div className="form">
          <label>Extra nodes <input type="number" min={0} max={10000} value={add} onChange={(event) => setAdd(Number(event.target.value))} /></label>
          <label>like <select value={like} onChange={(event) => setLike(event.target.value)}><option value="">{names[0] ?? "…"}</option>{names.slice(0, 2000).map((one) => <option key={one}>{one}</option>)}</select></label>
          <label>Drained nodes <select multiple value={drain} onChange={(event) => setDrain([...event.target.selectedOptions].map((one) => one.value))}>{names.slice(0, 2000).map((one) => <option key={one}>{one}</option>)}</select></label>
          <button className="primary" onClick={run} disabled={busy || (!add && !drain.length)}>{busy ? "Asking the planner…" : "Ask"}</button>
        </div>
        <Trouble error={error} />
      </Card>
      {answer && <Answer answer={answer} />}
    </>
  );
}

const when = (one: When | null) => (!one ? "–" : one.at ? until(one.at) : one.note || "no date");

function Answer({ answer }: { answer: Found }) {
  return (
    <div className="grid halves">
      <Card title="Would start now">
        {!answer.starts.length && <Empty>Nothing more than today.</Empty>}
        {answer.starts.map((one) => (
          <div className="row" key={one.namespace + one.name}><Link to={jobLink(one.namespace, one.name)}>{one.name}</Link><span className="mute clip">{one.domain}: {one.nodes.join(", ")}</span></div>
        ))}
        {answer.evictions.length > 0 && <p className="mute">{answer.evictions.length} would be evicted for them.</p>}
      </Card>
      <Card title={`Waiting: ${answer.waiting}`}>
        <div className="scroll" tabIndex={0} role="region" aria-label="Table">
          <table className="plain">
            <thead><tr><th>Job</th><th>As it is</th><th>Then</th></tr></thead>
            <tbody>{answer.jobs.slice(0, 200).map((one) => <tr key={one.namespace + one.name}><td><Link to={jobLink(one.namespace, one.name)}>{one.name}</Link></td><td className="num">{when(one.today)}</td><td className="num">{when(one.then)}</td></tr>)}</tbody>
          </table>
        </div>
      </Card>
    </div>
  );
}
