import { useEffect, useMemo, useRef, useState } from "react";
import { ask, text, useApi } from "../client";
import { age, clock, hours, moment, span, until } from "../format";
import { Action, Bar, Card, Empty, Link, Phase, Trouble } from "../parts";
import { Chart } from "../chart";
import type { Attempt, Checkpoint, Event, Job, List, Point } from "../types";
import { devices } from "./jobs";

const LIVE = ["Queued", "Starting", "Running", "Recovering", "Suspended"];

export function JobPage({ namespace, name }: { namespace: string; name: string }) {
  const path = `/namespaces/${encodeURIComponent(namespace)}/jobs/${encodeURIComponent(name)}`;
  const { data: job, error } = useApi<Job>(path, ["Job", "Attempt", "Worker"], 700);
  const attempts = useApi<List<Attempt>>(`${path}/attempts`, ["Attempt", "Worker", "Job"], 1000);
  const events = useApi<List<Event>>(`${path}/events`, ["Event"], 1000);
  const checkpoints = useApi<List<Checkpoint>>(`${path}/checkpoints`, ["Checkpoint"], 2000);
  const points = useApi<List<Point>>(`${path}/progress`, ["Attempt", "Job", "Worker", "Checkpoint"], 3000);
  const waits = job?.status.phase === "Queued" || job?.status.phase === "Recovering";
  const why = useApi<WhyView>(waits ? `${path}/why` : null, ["Job", "Node"], 3000);
  const over = job && !LIVE.includes(job.status.phase);
  const receipt = useApi<Receipt>(over ? `${path}/receipt` : null, ["Job"], 5000);
  if (!job) return <><Trouble error={error} />{!error && <Empty>Looking…</Empty>}</>;
  const act = (verb: string) => () => ask("POST", `${path}/${verb}`);
  const live = LIVE.includes(job.status.phase);
  return (
    <>
      <div className="top">
        <h1>{name}</h1>
        <Phase word={job.status.phase} {...(job.status.attempt ? { note: `attempt ${job.status.attempt.number}` } : {})} />
        <span className="pill">{namespace} · {String(job.spec["queue"])} · {String(job.spec["priorityClass"])}</span>
        <span className="pill mono">{devices(job)}</span>
        <span className="grow" />
        {live && job.status.phase !== "Suspended" && <Action label="Suspend" question={`Stop ${name} and keep its place and its checkpoints?`} act={act("suspend")} />}
        {job.status.phase === "Suspended" && <Action label="Resume" question={`Let ${name} go on from its newest checkpoint?`} act={act("resume")} />}
        {live && <Action label="Restart" question={`End this attempt of ${name} and begin a new one?`} act={act("restart")} />}
        {live && <Action label="Cancel" danger question={`End ${name} for good?`} act={act("cancel")} />}
        {!live && <Action label="Delete" danger question={`Remove ${name} with its logs and all that is known of it?`} act={() => ask("DELETE", path).then(() => { location.hash = "#/jobs"; })} />}
      </div>
      {job.status.message && <p className="say">{job.status.reason && <b className="mono">{job.status.reason} </b>}{job.status.message}</p>}
      {waits && <Why found={why.data} eta={job.status.eta?.at} />}
      <Card title="Attempts" aside={<span className="mute num">{progress(job)}</span>}>
        <Timeline attempts={attempts.data?.items ?? []} created={job.metadata.createdAt} />
      </Card>
      <div className="grid jobgrid">
        <div className="grid">
          <Curves points={points.data?.items ?? []} />
          <Logs path={path} attempts={attempts.data?.items ?? []} live={live} />
          <Card title="Events">
            {events.data?.items.length === 0 && <Empty>None yet.</Empty>}
            <ol className="events" tabIndex={0}>
              {events.data?.items.slice().reverse().map((one) => (
                <li key={one.uid} className={one.level}><span className="num mute">{moment(one.at)}</span> <b className="mono">{one.reason}</b> {one.message}</li>
              ))}
            </ol>
          </Card>
        </div>
        <div className="grid">
          <Ranks attempt={attempts.data?.items.at(-1)} />
          {receipt.data && <ReceiptCard receipt={receipt.data} />}
          <Verdicts attempts={attempts.data?.items ?? []} />
          <Card title="Checkpoints">
            {!checkpoints.data?.items.length && <Empty>None is known.</Empty>}
            {checkpoints.data?.items.slice(-8).reverse().map((one) => (
              <div className="row" key={one.path}><span className="mono clip">{one.path.split("/").at(-1)}</span><span className="num">{one.step === null || one.step === undefined ? "" : `step ${one.step}`} {one.complete ? "" : <b className="lost-ink">incomplete</b>}</span></div>
            ))}
          </Card>
          <Manifest job={job} />
        </div>
      </div>
    </>
  );
}

const progress = (job: Job) => {
  const at = job.status.progress;
  return at ? `step ${at.step}${at.loss === null ? "" : ` · loss ${at.loss.toPrecision(4)}`}${at.at ? ` · ${age(at.at)} ago` : ""}` : `made ${age(job.metadata.createdAt)} ago`;
};

type Reason = { code: string; message: string; means?: string };
type WhyView = { status: Reason & { others: Reason[]; helps: string[]; numbers: Record<string, number>; since?: string | null } };

function Why({ found, eta }: { found?: WhyView | undefined; eta?: string | null | undefined }) {
  const status = found?.status;
  return (
    <Card title="Why it waits" aside={<b className="num">{eta ? until(eta) : "no date"}</b>}>
      {!status && <Empty>Asking…</Empty>}
      {status && <p className="why"><b className="mono">{status.code}</b> {status.means}</p>}
      {status?.others.map((one, at) => <p key={at} className="why mute"><b className="mono">{one.code}</b> {one.message}</p>)}
      {status?.helps.map((one, at) => <p key={at} className="why">Would help: {one}</p>)}
      {status && <p className="mute num">{Object.entries(status.numbers).map(([name, value]) => `${name} ${value}`).join(" · ")}{status.since ? ` · so since ${clock(status.since)}` : ""}</p>}
    </Card>
  );
}

type Segment = { from: number; to: number; state: string; title: string };

function Timeline({ attempts, created }: { attempts: Attempt[]; created?: string | null | undefined }) {
  const now = Date.now();
  const at = (text?: string | null) => (text ? Date.parse(text) : null);
  const begin = at(created) ?? now;
  const segments: Segment[] = [];
  let last = begin;
  const marks: { at: number; text: string; note: string }[] = [];
  attempts.forEach((one) => {
    const time = one.timeline;
    const placed = at(time.placedAt) ?? last;
    segments.push({ from: last, to: placed, state: one.number === 1 ? "idle" : "recover", title: one.number === 1 ? "waited" : "recovering" });
    const running = at(time.runningAt) ?? at(time.endedAt) ?? now;
    segments.push({ from: placed, to: running, state: "start", title: `attempt ${one.number} starting` });
    const failed = at(time.failedAt) ?? at(time.stoppingAt) ?? at(time.endedAt) ?? now;
    segments.push({ from: running, to: failed, state: "prod", title: `attempt ${one.number} running` });
    const ended = at(time.endedAt) ?? (at(time.failedAt) ? now : failed);
    if (ended > failed) segments.push({ from: failed, to: ended, state: "lost", title: "until its end was certain" });
    if (one.verdict) marks.push({ at: failed, text: one.reason ?? one.verdict.category, note: `${one.verdict.action}${one.redoneSteps ? ` · ${one.redoneSteps} steps again` : ""}` });
    last = ended;
  });
  const end = Math.max(last, ...segments.map((one) => one.to), begin + 1000);
  const x = (time: number) => (1000 * (time - begin)) / (end - begin);
  if (!attempts.length) return <Empty>It has not been placed yet.</Empty>;
  return (
    <div className="timeline" role="img" aria-label={`${attempts.length} attempts. ${marks.map((one) => `${one.text}: ${one.note}`).join(". ")}`}>
      <div className="marks">{marks.slice(-6).map((one, index) => <span key={index} style={{ left: `${Math.min(86, x(one.at) / 10)}%` }} title={one.note}><b>{one.text}</b> <small>{one.note}</small></span>)}</div>
      <svg viewBox="0 0 1000 26" preserveAspectRatio="none">
        {segments.filter((one) => one.to > one.from).map((one, index) => <rect key={index} className={one.state} x={x(one.from)} width={Math.max(1.5, x(one.to) - x(one.from) - 1)} y="0" height="26" rx="2"><title>{`${one.title}, ${span((one.to - one.from) / 1000)}`}</title></rect>)}
      </svg>
      <div className="ends mute num"><span>{moment(created)}</span><span>{span((end - begin) / 1000)}</span></div>
      <div className="legend"><span><i className="idle" />waited</span><span><i className="start" />starting</span><span><i className="prod" />running</span><span><i className="lost" />failing</span><span><i className="recover" />recovering</span></div>
    </div>
  );
}

function Curves({ points }: { points: Point[] }) {
  const { steps, losses, ends, times } = useMemo(() => {
    const zero = points.filter((one) => one.rank === null || one.rank === undefined || one.rank <= 0).sort((a, b) => Date.parse(a.at ?? "") - Date.parse(b.at ?? ""));
    const byStep = new Map<number, number | null>();
    zero.forEach((one) => { if (one.loss !== null) byStep.set(one.step, one.loss); });
    const steps = [...byStep.keys()].sort((a, b) => a - b);
    const ends: number[] = [];
    const times: number[] = [];
    for (let at = 1; at < zero.length; at += 1) {
      const [before, here] = [zero[at - 1], zero[at]];
      if (!before || !here || here.step <= before.step || before.attempt !== here.attempt) continue;
      ends.push(here.step);
      times.push((Date.parse(here.at ?? "") - Date.parse(before.at ?? "")) / 1000 / (here.step - before.step));
    }
    const order = ends.map((_, at) => at).sort((a, b) => (ends[a] ?? 0) - (ends[b] ?? 0));
    return { steps, losses: steps.map((one) => byStep.get(one) ?? null), ends: order.map((at) => ends[at] ?? 0), times: order.map((at) => times[at] ?? null) };
  }, [points]);
  if (!steps.length && !ends.length) return null;
  return (
    <div className="grid halves">
      <Card title="Loss">{steps.length ? <Chart x={steps} y={losses} label="loss" xLabel="step" /> : <Empty>It reports none.</Empty>}</Card>
      <Card title="Step time, s">{ends.length > 1 ? <Chart x={ends} y={times} label="seconds a step" xLabel="step" /> : <Empty>Not yet.</Empty>}</Card>
    </div>
  );
}

function Ranks({ attempt }: { attempt?: Attempt | undefined }) {
  if (!attempt) return null;
  return (
    <Card title={`Workers of attempt ${attempt.number}`}>
      <div className="ranks" tabIndex={0} role="group" aria-label="Each one">
        {attempt.workers.map((one) => (
          <div key={one.uid} title={`${one.role}-${one.index} on ${one.node}: ${one.phase} ${one.message ?? ""}`}>
            <span className={`dot ${one.phase === "Running" ? "prod" : one.phase === "Lost" ? "sick" : one.exits?.some((exit) => exit.code || exit.signal) ? "lost" : one.phase === "Exited" ? "done" : "start"}`} />
            <span className="mono">{one.role}-{one.index}</span>
            <Link to={`/nodes/${encodeURIComponent(one.node)}`}>{one.node}</Link>
            <span className="mute num">{one.devices?.length ? `dev ${one.devices.join(",")}` : "cpu"}</span>
            <span className="mute">{one.exits?.length ? one.exits.map((exit) => (exit.signal ? `signal ${exit.signal}` : `exit ${exit.code}`)).join(" ") : one.phase}</span>
          </div>
        ))}
      </div>
    </Card>
  );
}

type Receipt = { deviceSeconds: Record<string, number>; ettr: number | null };

function ReceiptCard({ receipt }: { receipt: Receipt }) {
  const parts = Object.entries(receipt.deviceSeconds).filter(([, value]) => value > 0);
  const state: Record<string, string> = { productive: "prod", starting: "start", recovering: "recover", lost: "lost", stalled: "claim", saving: "save" };
  return (
    <Card title="Receipt" aside={<b className="num">ETTR {receipt.ettr === null ? "–" : receipt.ettr.toFixed(3)}</b>}>
      <Bar label="device time" parts={parts.map(([name, value]) => ({ state: state[name] ?? "idle", value, title: `${name} ${hours(value)}` }))} />
      <div className="legend">{parts.map(([name, value]) => <span key={name}><i className={state[name] ?? "idle"} />{name} {hours(value)}</span>)}</div>
    </Card>
  );
}

function Verdicts({ attempts }: { attempts: Attempt[] }) {
  const found = attempts.filter((one) => one.verdict).slice(-3).reverse();
  if (!found.length) return null;
  return (
    <Card title="Verdicts">
      {found.map((one) => (
        <div key={one.uid} className="verdict">
          <p><b>{one.verdict?.why}</b></p>
          <p className="mute">
            attempt {one.number}, {clock(one.timeline.failedAt ?? one.timeline.endedAt)} · <span className="mono">{one.verdict?.category}</span> → <span className="mono">{one.verdict?.action}</span> · {one.verdict?.certainty}
            {one.verdict?.nodeAtFault ? ` · at fault: ${one.verdict.culpritNodes.join(", ")}` : one.verdict?.nodeAtFault === false ? " · not the node" : ""}
          </p>
          {one.verdict?.decidedBy.map((line, at) => <pre tabIndex={0} key={at} className="quote">{line}</pre>)}
        </div>
      ))}
    </Card>
  );
}

const LINES = 2000;

function Logs({ path, attempts, live }: { path: string; attempts: Attempt[]; live: boolean }) {
  const [attempt, setAttempt] = useState(0);
  const [rank, setRank] = useState("");
  const [word, setWord] = useState("");
  const [lines, setLines] = useState<string[]>([]);
  const [error, setError] = useState("");
  const box = useRef<HTMLPreElement>(null);
  const newest = attempts.at(-1)?.number ?? 0;
  const shown = attempt || newest;
  const chosen = attempts.find((one) => one.number === shown);
  const ranks = chosen?.workers.reduce((sum, one) => sum + (one.ranks ?? 1), 0) ?? 0;
  useEffect(() => {
    if (!shown) return;
    const stop = new AbortController();
    setLines([]);
    setError("");
    const read = async () => {
      const decoder = new TextDecoder();
      let rest = "";
      const query = new URLSearchParams({ attempt: String(shown), tail: String(LINES), follow: live && shown === newest ? "1" : "0" });
      if (rank === "all") query.set("allRanks", "1");
      else if (rank) query.set("rank", rank);
      if (query.get("follow") === "0") query.delete("follow");
      const reader = await text(`${path}/logs?${query}`, stop.signal);
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const pieces = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = pieces.pop() ?? "";
        setLines((before) => [...before, ...pieces].slice(-LINES));
      }
      if (rest) setLines((before) => [...before, rest]);
    };
    read().catch((problem: Error) => { if (!stop.signal.aborted) setError(problem.message); });
    return () => stop.abort();
  }, [path, shown, rank, live, newest]);
  useEffect(() => {
    const element = box.current;
    if (element && element.scrollHeight - element.scrollTop - element.clientHeight < 200) element.scrollTop = element.scrollHeight;
  }, [lines]);
  const found = word ? lines.filter((one) => one.toLowerCase().includes(word.toLowerCase())) : lines;
  return (
    <Card
      title="Logs"
      aside={
        <span className="controls">
          <input type="search" aria-label="Search in the logs" placeholder="Search" value={word} onChange={(event) => setWord(event.target.value)} />
          <select aria-label="Attempt" value={attempt} onChange={(event) => setAttempt(Number(event.target.value))}>
            <option value={0}>newest attempt</option>
            {attempts.map((one) => <option key={one.uid} value={one.number}>attempt {one.number}</option>)}
          </select>
          <select aria-label="Rank" value={rank} onChange={(event) => setRank(event.target.value)}>
            <option value="">rank 0</option>
            <option value="all">all ranks</option>
            <option value="worker">worker</option>
            {Array.from({ length: Math.min(ranks, 512) }, (_, at) => <option key={at} value={at}>rank {at}</option>)}
          </select>
        </span>
      }
    >
      {error && <p className="mute">{error}</p>}
      <pre ref={box} className="log" tabIndex={0} aria-label="Log">{found.join("\n") || (error ? "" : "Nothing was written yet.")}</pre>
    </Card>
  );
}

function Manifest({ job }: { job: Job }) {
  const shown = { apiVersion: job.apiVersion, kind: job.kind, metadata: { name: job.metadata.name, namespace: job.metadata.namespace, labels: job.metadata.labels }, spec: { ...job.spec, env: job.spec["env"] ? `${Object.keys(job.spec["env"] as object).length} variables` : undefined } };
  return <Card title="Manifest"><details><summary>Show</summary><pre tabIndex={0} className="quote">{JSON.stringify(shown, null, 2)}</pre></details></Card>;
}
