import { useEffect, useState } from "react";
import { useApi, useChanges, whole, type Problem } from "../client";
import { moment } from "../format";
import { Card, Empty, Trouble } from "../parts";
import type { Event, List } from "../types";

export function Events() {
  const { data, error } = useApi<List<Event>>("/events?limit=500", ["Event"], 1000);
  return (
    <>
      <h1>Events</h1>
      <Trouble error={error} />
      <Card>
        {data?.items.length === 0 && <Empty>None yet.</Empty>}
        <ol className="events" tabIndex={0}>
          {data?.items.slice().reverse().map((one) => (
            <li key={one.uid} className={one.level}>
              <span className="num mute">{moment(one.at)}</span> <span className="mono">{one.object.kind.toLowerCase()}/{one.object.name}</span> <b className="mono">{one.reason}</b> {one.message}
            </li>
          ))}
        </ol>
      </Card>
    </>
  );
}

type Entry = { at: string; actor: string; role: string; verb: string; kind: string; name: string; namespace: string; outcome: string };
const MOST = 1000;

export function Audit() {
  const [entries, setEntries] = useState<Entry[]>();
  const [error, setError] = useState<Problem>();
  const turn = useChanges(["Job", "Node", "Queue"], 3000);
  useEffect(() => {
    const since = new Date(Date.now() - 86400e3).toISOString();
    whole(`/admin/audit?since=${encodeURIComponent(since)}`)
      .then((text) => setEntries(text.split("\n").filter(Boolean).slice(-MOST).reverse().map((line) => JSON.parse(line) as Entry)))
      .catch(setError);
  }, [turn]);
  return (
    <>
      <h1>Audit, last day</h1>
      <Trouble error={error} />
      <Card>
        {entries?.length === 0 && <Empty>Nothing was written.</Empty>}
        <div className="scroll" tabIndex={0} role="region" aria-label="Table">
          <table className="plain">
            <thead><tr><th>When</th><th>Who</th><th>What</th><th>Of</th><th>Outcome</th></tr></thead>
            <tbody>
              {entries?.map((one, at) => (
                <tr key={at}>
                  <td className="num mute">{moment(one.at)}</td><td>{one.actor} <small className="mute">{one.role}</small></td><td className="mono">{one.verb}</td>
                  <td className="mono">{one.kind.toLowerCase()}/{one.name}{one.namespace && <span className="mute"> in {one.namespace}</span>}</td><td>{one.outcome}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Card>
    </>
  );
}
