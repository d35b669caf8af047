import { useMemo } from "react";
import { ask, useApi } from "../client";
import { age, moment, number } from "../format";
import { Action, Card, Empty, Link, Phase, Table, Trouble, jobLink, type Column } from "../parts";
import type { Fabric, Node } from "../types";

type Row = Fabric["nodes"][number];
const columns: Column<Row>[] = [
  { title: "Name", width: "minmax(150px,1fr)", cell: (one) => one.name },
  { title: "Phase", width: "130px", cell: (one) => <Phase word={one.cordoned && one.phase === "Ready" ? "Cordoned" : one.phase} /> },
  { title: "Devices", width: "120px", cell: (one) => (one.devices ? `${one.devices.length} × ${one.type}` : "–") },
  { title: "In use", width: "70px", cell: (one) => [...one.devices].filter((state) => state === "u").length, right: true },
  { title: "Place", width: "minmax(0,1fr)", cell: (one) => one.path.filter(Boolean).join(" / "), wide: true },
  { title: "Conditions", width: "90px", cell: (one) => one.conditions || "–", right: true, wide: true },
];

export function Nodes({ query }: { query: URLSearchParams }) {
  const { data, error } = useApi<Fabric>("/fabric", ["Node", "Worker"], 1500);
  const word = query.get("q") ?? "";
  const rows = useMemo(() => (data?.nodes ?? []).filter((one) => !word || JSON.stringify(one).toLowerCase().includes(word.toLowerCase())), [data, word]);
  return (
    <>
      <div className="top">
        <h1>Nodes</h1><span className="mute num">{number(rows.length)}</span><span className="grow" />
        <input type="search" aria-label="Filter by any word" placeholder="Filter ( / )" value={word} onChange={(event) => { history.replaceState(null, "", `#/nodes${event.target.value ? `?q=${encodeURIComponent(event.target.value)}` : ""}`); dispatchEvent(new HashChangeEvent("hashchange")); }} />
      </div>
      <Trouble error={error} />
      {data && rows.length === 0 && <Empty>No node is like this.</Empty>}
      <Table rows={rows} columns={columns} id={(one) => one.name} open={(one) => `/nodes/${encodeURIComponent(one.name)}`} />
    </>
  );
}

type Condition = { kind: string; reason: string; message: string; severity: string; since: string; device?: number };

export function NodePage({ name }: { name: string }) {
  const path = `/nodes/${encodeURIComponent(name)}`;
  const { data: node, error } = useApi<Node>(path, ["Node", "Worker"], 1000);
  const repairs = useApi<{ items: { uid: string; phase: string; reason?: string; message?: string; createdAt?: string }[] }>(`${path}/repairs`, ["Repair", "Node"], 3000);
  const measurements = useApi<{ items: Record<string, unknown>[] }>(`${path}/measurements`, ["Measurement"], 5000);
  if (!node) return <><Trouble error={error} />{!error && <Empty>Looking…</Empty>}</>;
  const held = new Map((node.status.allocated ?? []).map((one) => [one.device, one]));
  const conditions = ((node.status as Record<string, unknown>)["conditions"] ?? []) as Condition[];
  return (
    <>
      <div className="top">
        <h1>{name}</h1>
        <Phase word={node.spec.cordoned && node.status.phase === "Ready" ? "Cordoned" : node.status.phase} />
        <span className="pill num">last heard {age(node.status.lastRenewal)} ago</span>
        <span className="grow" />
        {node.spec.cordoned
          ? <Action label="Uncordon" question={`Take ${name} back into use?`} act={() => ask("POST", `${path}/uncordon`)} />
          : <Action label="Cordon" question={`Let nothing new start on ${name}?`} act={() => ask("POST", `${path}/cordon`)} />}
        <Action label="Drain" danger question={`Empty ${name}? What runs there saves and goes on elsewhere.`} act={() => ask("POST", `${path}/drain`, {})} />
      </div>
      <div className="grid jobgrid">
        <div className="grid">
          <Card title="Devices">
            {!node.status.devices.length && <Empty>It has none.</Empty>}
            <div className="ranks" tabIndex={0} role="group" aria-label="Each one">
              {node.status.devices.map((one) => {
                const device = one as { index: number; type: string; healthy?: boolean; numa?: number | null; nic?: number | null; model?: string };
                const owner = held.get(device.index);
                return (
                  <div key={device.index}>
                    <span className={`dot ${device.healthy === false ? "sick" : owner ? "prod" : "idle"}`} />
                    <span className="mono">{device.index} {device.type}</span>
                    {owner ? <Link to={jobLink(owner.namespace, owner.job)}>{owner.job}</Link> : <span className="mute">{device.healthy === false ? "sick" : "free"}</span>}
                    <span className="mute num">{device.numa === null || device.numa === undefined ? "" : `numa ${device.numa}`} {device.nic === null || device.nic === undefined ? "" : `rail ${device.nic}`}</span>
                  </div>
                );
              })}
            </div>
          </Card>
          <Card title="Conditions">
            {!conditions.length && <Empty>Nothing is wrong with it.</Empty>}
            {conditions.map((one, at) => <div className="row" key={at}><span><b className="mono">{one.reason}</b> {one.message}<br /><small className="mute">{one.severity} · since {moment(one.since)}</small></span></div>)}
          </Card>
          {Boolean(repairs.data?.items.length) && <Card title="Repairs">{repairs.data?.items.map((one) => <div className="row" key={one.uid}><span><b className="mono">{one.phase}</b> {one.reason ?? ""} {one.message ?? ""}</span><span className="mute num">{moment(one.createdAt)}</span></div>)}</Card>}
        </div>
        <div className="grid">
          <Card title="Machine">
            {[["address", node.status.address], ["cpu", node.status.cpu], ["memory", node.status.memory], ["agent", node.status.agentVersion], ["boot", node.status.bootId], ["since", moment(node.status.phaseSince)]].map(([key, value]) => (
              <div className="row" key={key}><span className="mute">{key}</span><span className="mono clip">{String(value ?? "–")}</span></div>
            ))}
          </Card>
          <Card title="Labels">{Object.entries(node.metadata.labels ?? {}).map(([key, value]) => <div className="row" key={key}><span className="mono clip">{key}</span><span className="mono">{value}</span></div>)}</Card>
          {Boolean(measurements.data?.items.length) && <Card title="Checks"><pre tabIndex={0} className="quote">{JSON.stringify(measurements.data?.items.slice(0, 5), null, 1)}</pre></Card>}
        </div>
      </div>
    </>
  );
}
