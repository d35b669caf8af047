import { useApi } from "../client";
import { hours, span } from "../format";
import { Bar, Card, Empty, Trouble } from "../parts";

type Row = { name: string; jobs: number; deviceSeconds: Record<string, number>; ettr: number | null; mttfSeconds: number | null; mttrSeconds: number | null; failures: number };
type Goodput = { by: string; total: Row; items: Row[] };
const BY = ["queue", "job", "cause", "node", "namespace", "accelerator"];
const STATE: Record<string, string> = { productive: "prod", starting: "start", recovering: "recover", lost: "lost", stalled: "claim", saving: "save" };

export function GoodputPage({ query }: { query: URLSearchParams }) {
  const by = query.get("by") ?? "queue";
  const { data, error } = useApi<Goodput>(`/goodput?by=${by}`, ["Job", "Attempt"], 5000);
  const csv = () => {
    if (!data) return;
    const keys = Object.keys(data.total.deviceSeconds);
    const lines = [["name", "jobs", "ettr", "failures", "mttf_s", "mttr_s", ...keys].join(","), ...data.items.map((one) => [JSON.stringify(one.name), one.jobs, one.ettr ?? "", one.failures, one.mttfSeconds ?? "", one.mttrSeconds ?? "", ...keys.map((key) => one.deviceSeconds[key] ?? 0)].join(","))];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = `goodput-by-${by}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <>
      <div className="top">
        <h1>Goodput</h1><span className="grow" />
        <select aria-label="By" value={by} onChange={(event) => { location.hash = `#/goodput?by=${event.target.value}`; }}>{BY.map((one) => <option key={one}>{one}</option>)}</select>
        <button onClick={csv} disabled={!data}>CSV</button>
      </div>
      <Trouble error={error} />
      {!data && !error && <Empty>Looking…</Empty>}
      {data && [data.total, ...data.items.slice(0, 100)].map((one, at) => (
        <Card key={at} title={at ? one.name : "All"} aside={<span className="mute num">ETTR <b>{one.ettr === null ? "–" : one.ettr.toFixed(3)}</b> · {one.failures} failures · MTTF {span(one.mttfSeconds)} · MTTR {span(one.mttrSeconds)} · {one.jobs} jobs</span>}>
          <Bar label={one.name} parts={Object.entries(one.deviceSeconds).filter(([name]) => name in STATE).map(([name, value]) => ({ state: STATE[name] ?? "idle", value, title: `${name} ${hours(value)}` }))} />
          <div className="legend">{Object.entries(one.deviceSeconds).filter(([, value]) => value > 0).map(([name, value]) => <span key={name}><i className={STATE[name] ?? "idle"} />{name} {hours(value)}</span>)}</div>
        </Card>
      ))}
    </>
  );
}
