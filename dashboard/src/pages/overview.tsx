import { useApi } from "../client";
import { age, clock, hours, number, percent, span, until } from "../format";
import { Bar, Card, Empty, Link, Meter, Trouble, jobLink } from "../parts";
import type { Summary } from "../types";
import { Fabric, useFabric } from "./fabric";

export function Overview() {
  const { data, error } = useApi<Summary>("/summary", ["Job", "Node", "Attempt", "Incident", "Queue"], 1000);
  const fabric = useFabric();
  if (!data) return <><Trouble error={error} />{!error && <p className="empty">Looking…</p>}</>;
  const count = (phase: string) => data.jobs.find((one) => one.phase === phase)?.count ?? 0;
  const all = data.devices.reduce((sum, one) => sum + one.all, 0);
  const used = data.devices.reduce((sum, one) => sum + one.allocated, 0);
  const waiting = data.waiting.reduce((sum, one) => sum + one.count, 0);
  const reasons = new Map<string, number>();
  data.waiting.forEach((one) => reasons.set(one.reason, (reasons.get(one.reason) ?? 0) + one.count));
  const ready = data.nodes.find((one) => one.phase === "Ready")?.count ?? 0;
  const nodes = data.nodes.reduce((sum, one) => sum + one.count, 0);
  const queues = [...new Set(data.queues.map((one) => one.queue))];
  return (
    <>
      <h1>Overview</h1>
      <div className="grid kpis">
        <Kpi title="Accelerators in use" value={number(used)} note={`of ${number(all)} · ${percent(used, all)}`} />
        <Kpi title="Goodput, last day" value={data.goodput === null ? "–" : data.goodput.toFixed(3)} note="productive part of what jobs held" />
        <Kpi title="Running" value={number(count("Running"))} note={`${number(count("Starting") + count("Recovering"))} starting or recovering`} />
        <Kpi title="Waiting" value={number(waiting)} note={waiting ? `longest ${span(Math.max(...data.waiting.map((one) => one.oldestSeconds)))}` : "nobody"} />
        <Kpi title="Nodes ready" value={`${number(ready)}`} note={`of ${number(nodes)}`} />
      </div>
      <div className="grid two">
        <Card title="Fabric" aside={<Link to="/fabric">all of it</Link>}>
          {fabric.data ? <Fabric fabric={fabric.data} most={260} /> : <Empty>Looking…</Empty>}
        </Card>
        <div className="grid">
          <Card title="Why jobs wait">
            {reasons.size === 0 && <Empty>Nobody waits.</Empty>}
            {[...reasons].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([reason, many]) => (
              <div key={reason} className="measure">
                <div><Link to={`/jobs?phase=Queued&reason=${reason}`} className="mono">{reason}</Link><span className="num">{number(many)}</span></div>
                <Meter value={many} whole={waiting} label={`${many} of ${waiting}`} />
              </div>
            ))}
          </Card>
          <Card title="Starts next">
            {data.next.length === 0 && <Empty>Nothing is foreseen.</Empty>}
            {data.next.map((one) => (
              <div className="row" key={one.namespace + one.job}>
                <span><Link to={jobLink(one.namespace, one.job)}>{one.job}</Link><br /><small className="mute">{one.queue} · {one.workers} workers</small></span>
                <span className="num right">{until(one.at)}<br /><small className="mute">{one.basis ?? ""}</small></span>
              </div>
            ))}
          </Card>
        </div>
      </div>
      <div className="grid halves">
        <Card title="Queues">
          {queues.length === 0 && <Empty>No live jobs.</Empty>}
          {queues.map((queue) => {
            const mine = data.queues.filter((one) => one.queue === queue);
            return (
              <div key={queue} className="measure">
                <div><Link to={`/jobs?queue=${queue}`}>{queue}</Link><span className="mute">{mine.map((one) => `${one.count} ${one.phase}`).join(" · ")}</span></div>
                <Bar label={queue} parts={mine.map((one) => ({ state: one.phase === "Running" ? "prod" : one.phase === "Queued" ? "idle" : one.phase === "Recovering" ? "recover" : "start", value: one.count, title: `${one.count} ${one.phase}` }))} />
              </div>
            );
          })}
        </Card>
        <Card title="Incidents, last day" aside={<Link to="/incidents">all</Link>}>
          {data.incidents.length === 0 && <Empty>None.</Empty>}
          {data.incidents.slice(0, 6).map((one) => (
            <div className="row" key={one.uid}>
              <span className="num mute">{clock(one.openedAt)}</span>
              <span className="fill"><Link to={jobLink(one.namespace, one.job)}>{one.job}</Link> <span className="mono mute">{one.verdict?.category}</span><br /><small className="mute clip">{one.verdict?.why}</small></span>
              <span className="num">{one.closedAt ? span((Date.parse(one.closedAt) - Date.parse(one.openedAt ?? one.closedAt)) / 1000) : "open"}</span>
            </div>
          ))}
        </Card>
      </div>
      <Card title="Where device time went, jobs that ended in the last day">
        <Bar label="device time by what it went to" parts={Object.entries(data.deviceSeconds).filter(([name]) => name !== "queued" && name !== "suspended").map(([name, value]) => ({ state: bucket(name), value, title: `${name}: ${hours(value)}` }))} />
        <div className="legend">
          {Object.entries(data.deviceSeconds).filter(([name]) => name !== "queued" && name !== "suspended").map(([name, value]) => <span key={name}><i className={bucket(name)} />{name} {hours(value)}</span>)}
        </div>
      </Card>
      <p className="mute foot">As of {clock(data.at)}, revision {data.resourceVersion}, {age(data.at)} ago.</p>
    </>
  );
}

const bucket = (name: string) => ({ productive: "prod", starting: "start", recovering: "recover", lost: "lost", stalled: "claim", saving: "save" })[name] ?? "idle";

const Kpi = ({ title, value, note }: { title: string; value: string; note: string }) => (
  <div className="card kpi"><span>{title}</span><b>{value}</b><span>{note}</span></div>
);
