// The fabric as it is wired, on a canvas: blocks, leaves in them, a row for each node, a cell for each device.
import { useEffect, useMemo, useRef, useState } from "react";
import { useApi } from "../client";
import { number } from "../format";
import { Card, Empty, Trouble } from "../parts";
import type { Fabric as FabricData } from "../types";

type Cell = { x: number; y: number; w: number; h: number; node: number };
type Layout = { cells: Cell[]; labels: { x: number; y: number; text: string; strong: boolean }[]; frames: { x: number; y: number; w: number; h: number; free: number }[]; height: number };

export const useFabric = () => useApi<FabricData>("/fabric", ["Node", "Worker", "Attempt"], 1500);

export function FabricPage({ query }: { query: URLSearchParams }) {
  const { data, error } = useFabric();
  const [job, setJob] = useState(query.get("job") ?? "");
  const capacity = useApi<{ items: Level[] }>("/capacity", ["Worker", "Node"], 10000);
  const found = data?.jobs.findIndex((one) => `${one.namespace}/${one.name}` === job) ?? -1;
  return (
    <>
      <div className="top">
        <h1>Fabric</h1>
        <span className="grow" />
        <label className="mute" htmlFor="footprint">Footprint of</label>
        <select id="footprint" value={job} onChange={(event) => setJob(event.target.value)}>
          <option value="">no job</option>
          {data?.jobs.map((one) => <option key={`${one.namespace}/${one.name}`}>{`${one.namespace}/${one.name}`}</option>)}
        </select>
      </div>
      <Trouble error={error} />
      <Card>{data ? <Fabric fabric={data} footprint={found} /> : <Empty>Looking…</Empty>}</Card>
      <Card title="Gangs that could start now">
        {capacity.data?.items.length ? <Capacity items={capacity.data.items} /> : <Empty>Asking the planner…</Empty>}
        <Trouble error={capacity.error} />
      </Card>
    </>
  );
}

type Level = { accelerator: string; level: string; domains: number; free: number; total: number; gangs: { devices: number; workers: number; domain: string }[] };

function Capacity({ items }: { items: Level[] }) {
  const sizes = [...new Set(items.flatMap((one) => one.gangs.map((gang) => gang.devices)))].sort((a, b) => a - b);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Table">
      <table className="plain">
        <thead><tr><th>Kind</th><th>Inside one</th><th>Free</th>{sizes.map((one) => <th key={one}>workers of {one}</th>)}</tr></thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.accelerator + one.level}>
              <td className="mono">{one.accelerator}</td><td>{one.level}</td><td className="num">{number(one.free)} of {number(one.total)}</td>
              {sizes.map((size) => { const gang = one.gangs.find((each) => each.devices === size); return <td key={size} className="num">{gang ? <>{gang.workers} <small className="mute">{gang.domain}</small></> : "–"}</td>; })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Fabric({ fabric, footprint = -1, most = 0 }: { fabric: FabricData; footprint?: number; most?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(900);
  const [over, setOver] = useState<number | null>(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const fit = new ResizeObserver(() => setWidth(element.clientWidth));
    fit.observe(element);
    const themed = new MutationObserver(() => setTheme((before) => before + 1));
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => { fit.disconnect(); themed.disconnect(); };
  }, []);
  const layout = useMemo(() => place(fabric, width), [fabric, width]);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const ratio = devicePixelRatio || 1;
    element.width = width * ratio;
    element.height = layout.height * ratio;
    context.scale(ratio, ratio);
    draw(context, fabric, layout, footprint, width);
  }, [fabric, layout, footprint, width, theme]);
  const hovered = over === null ? undefined : fabric.nodes[over];
  const at = (event: React.MouseEvent) => {
    const edge = (event.target as HTMLElement).getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    return layout.cells.find((one) => x >= one.x && x <= one.x + one.w && y >= one.y && y <= one.y + one.h)?.node ?? null;
  };
  const free = fabric.nodes.reduce((sum, one) => sum + (one.phase === "Ready" && !one.cordoned ? [...one.devices].filter((state) => state === "f").length : 0), 0);
  return (
    <div ref={box} className="fabric" style={most ? { maxHeight: most, overflowY: "auto" } : undefined} tabIndex={most ? 0 : undefined} role={most ? "region" : undefined} aria-label={most ? "Map of the fabric" : undefined}>
      <canvas
        ref={canvas}
        style={{ width: "100%", height: layout.height }}
        role="img"
        aria-label={`${fabric.nodes.length} nodes, ${free} devices free. The list of nodes has the same in words.`}
        onMouseMove={(event) => setOver(at(event))}
        onMouseLeave={() => setOver(null)}
        onClick={(event) => { const found = at(event); if (found !== null) location.hash = `#/nodes/${encodeURIComponent(fabric.nodes[found]?.name ?? "")}`; }}
      />
      <div className="legend">
        <span><i className="prod" />in use</span><span><i className="idle" />free</span><span><i className="claim" />cordoned</span><span><i className="lost" />not heard</span><span><i className="sick" />sick or lost</span>
        <span className="grow" />
        <span className="num">{hovered ? `${hovered.name} · ${hovered.phase}${hovered.cordoned ? ", cordoned" : ""} · ${hovered.devices.length} × ${hovered.type || "no devices"} · ${[...new Set(hovered.jobs.filter((one) => one >= 0))].map((one) => fabric.jobs[one]?.name).join(", ") || "no job"}` : `${number(free)} devices free`}</span>
      </div>
    </div>
  );
}

function place(fabric: FabricData, width: number): Layout {
  const blocks = new Map<string, Map<string, number[]>>();
  fabric.nodes.forEach((node, index) => {
    const block = node.path.length > 1 ? node.path[0] ?? "" : "";
    const leaf = node.path.at(-1) ?? "";
    const leaves = blocks.get(block) ?? new Map<string, number[]>();
    blocks.set(block, leaves);
    leaves.set(leaf, [...(leaves.get(leaf) ?? []), index]);
  });
  const layout: Layout = { cells: [], labels: [], frames: [], height: 0 };
  const dense = fabric.nodes.length > 2000;
  const rowHeight = dense ? 4 : 11;
  let y = 0;
  for (const [block, leaves] of [...blocks].sort()) {
    if (block) {
      layout.labels.push({ x: 0, y: y + 12, text: block, strong: true });
      y += 20;
    }
    const columns = Math.max(1, Math.min(leaves.size, Math.floor(width / (dense ? 74 : 118))));
    const each = width / columns;
    let column = 0;
    let tallest = 0;
    for (const [leaf, nodes] of [...leaves].sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }))) {
      if (column === columns) {
        y += tallest + 12;
        column = tallest = 0;
      }
      const x = column * each;
      const height = 20 + nodes.length * rowHeight + 4;
      const free = nodes.reduce((sum, index) => sum + [...(fabric.nodes[index]?.devices ?? "")].filter((one) => one === "f").length, 0);
      layout.frames.push({ x, y, w: each - 8, h: height, free });
      layout.labels.push({ x: x + 6, y: y + 13, text: leaf || "no leaf", strong: false });
      nodes.forEach((index, row) => layout.cells.push({ x: x + 5, y: y + 18 + row * rowHeight, w: each - 18, h: rowHeight - (dense ? 1 : 2.4), node: index }));
      tallest = Math.max(tallest, height);
      column += 1;
    }
    y += tallest + 14;
  }
  layout.height = Math.max(40, y);
  return layout;
}

function draw(context: CanvasRenderingContext2D, fabric: FabricData, layout: Layout, footprint: number, width: number) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const colours = { prod: colour("--prod"), idle: colour("--idle"), sick: colour("--sick"), claim: colour("--claim"), lost: colour("--lost"), line: colour("--line"), ink: colour("--ink"), mute: colour("--mute"), accent: colour("--accent") };
  context.clearRect(0, 0, width, layout.height);
  context.font = "11px system-ui";
  for (const frame of layout.frames) {
    context.strokeStyle = colours.line;
    context.beginPath();
    context.roundRect(frame.x + 0.5, frame.y + 0.5, frame.w, frame.h, 6);
    context.stroke();
    context.fillStyle = colours.mute;
    context.textAlign = "right";
    context.fillText(`${frame.free} free`, frame.x + frame.w - 6, frame.y + 13);
  }
  context.textAlign = "left";
  for (const label of layout.labels) {
    context.fillStyle = label.strong ? colours.ink : colours.mute;
    context.font = `${label.strong ? "600 12px" : "11px"} system-ui`;
    context.fillText(label.text, label.x, label.y, 90);
  }
  for (const cell of layout.cells) {
    const node = fabric.nodes[cell.node];
    if (!node) continue;
    const count = Math.max(1, node.devices.length);
    const each = cell.w / count;
    const whole = node.phase === "Lost" ? colours.sick : node.phase === "Unknown" ? colours.lost : "";
    for (let at = 0; at < count; at += 1) {
      const state = node.devices[at];
      const mine = footprint >= 0 && node.jobs[at] === footprint;
      context.fillStyle = whole || (state === "s" ? colours.sick : state === "u" ? (footprint < 0 || mine ? colours.prod : colours.idle) : node.cordoned ? colours.claim : colours.idle);
      context.globalAlpha = footprint >= 0 && !mine && state === "u" ? 0.65 : 1;
      context.fillRect(cell.x + at * each, cell.y, Math.max(1, each - 1), cell.h);
      if (mine) {
        context.strokeStyle = colours.accent;
        context.strokeRect(cell.x + at * each - 0.5, cell.y - 0.5, each, cell.h + 1);
      }
    }
    context.globalAlpha = 1;
  }
}
