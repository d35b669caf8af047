import { useApi } from "../client";
import { number } from "../format";
import { Card, Empty, Link, Meter, Trouble } from "../parts";
import type { List, Queue, Summary } from "../types";

type Spec = { parent?: string | null; weight?: number; quota?: Record<string, number> | null; limit?: Record<string, number> | null; stopped?: boolean; discipline?: unknown };

export function Queues() {
  const { data, error } = useApi<List<Queue>>("/queues", ["Queue", "Job", "Attempt"], 2000);
  const summary = useApi<Summary>("/summary", ["Job"], 2000);
  if (!data) return <><Trouble error={error} />{!error && <Empty>Looking…</Empty>}</>;
  const names = new Set(data.items.map((one) => one.metadata.name));
  const tree = (parent: string | null, depth: number): { queue: Queue; depth: number }[] =>
    data.items
      .filter((one) => { const above = (one.spec as Spec).parent; return (above && names.has(above) ? above : null) === parent; })
      .sort((a, b) => a.metadata.name.localeCompare(b.metadata.name))
      .flatMap((queue) => [{ queue, depth }, ...tree(queue.metadata.name, depth + 1)]);
  const count = (queue: string, phase: string) => summary.data?.queues.filter((one) => one.queue === queue && one.phase === phase).reduce((sum, one) => sum + one.count, 0) ?? 0;
  return (
    <>
      <h1>Queues</h1>
      <Card>
        <div className="scroll" tabIndex={0} role="region" aria-label="Table"><table className="plain">
          <thead><tr><th>Queue</th><th>Weight</th><th>Quota</th><th>In use</th><th>Running</th><th>Waiting</th><th>State</th></tr></thead>
          <tbody>
            {tree(null, 0).map(({ queue, depth }) => {
              const spec = queue.spec as Spec;
              const status = queue.status as Record<string, unknown>;
              const usage = (status["usage"] ?? status["used"] ?? {}) as Record<string, number>;
              return (
                <tr key={queue.metadata.name}>
                  <td style={{ paddingLeft: 8 + depth * 18 }}><Link to={`/jobs?queue=${queue.metadata.name}`}>{queue.metadata.name}</Link></td>
                  <td className="num">{spec.weight ?? 1}</td>
                  <td className="mono">{spec.quota ? Object.entries(spec.quota).map(([kind, value]) => `${kind}:${value}`).join(" ") : "–"}</td>
                  <td>{Object.entries(usage).filter(([, value]) => typeof value === "number").map(([kind, value]) => <span key={kind} className="use">{kind} {number(value)}{spec.quota?.[kind] ? <Meter value={value} whole={spec.quota[kind]} label={`${value} of ${spec.quota[kind]}`} /> : null}</span>)}</td>
                  <td className="num">{number(count(queue.metadata.name, "Running"))}</td>
                  <td className="num">{number(count(queue.metadata.name, "Queued"))}</td>
                  <td>{spec.stopped ? "stopped" : "open"}</td>
                </tr>
              );
            })}
          </tbody>
        </table></div>
      </Card>
    </>
  );
}
