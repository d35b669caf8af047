import { useState } from "react";
import { useApi } from "../client";
import { moment, span } from "../format";
import { Card, Empty, Link, Trouble, jobLink } from "../parts";
import type { Incident, List } from "../types";

export function Incidents() {
  const [hours, setHours] = useState(168);
  const { data, error } = useApi<List<Incident>>(`/incidents?hours=${hours}`, ["Incident"], 1500);
  return (
    <>
      <div className="top">
        <h1>Incidents</h1><span className="grow" />
        <select aria-label="Span" value={hours} onChange={(event) => setHours(Number(event.target.value))}>
          <option value={24}>last day</option><option value={168}>last week</option><option value={720}>last month</option>
        </select>
      </div>
      <Trouble error={error} />
      {data?.items.length === 0 && <Empty>None.</Empty>}
      <div className="grid">
        {data?.items.slice(0, 200).map((one) => (
          <Card key={one.uid} title={<>{moment(one.openedAt)} · <Link to={jobLink(one.namespace, one.job)}>{one.job}</Link></>} aside={<span className="pill">{one.closedAt ? `over after ${span((Date.parse(one.closedAt) - Date.parse(one.openedAt ?? one.closedAt)) / 1000)}` : "open"}</span>}>
            <p><b>{one.verdict?.why}</b></p>
            <p className="mute"><span className="mono">{one.verdict?.category}</span> → <span className="mono">{one.verdict?.action}</span> · {one.verdict?.certainty}{one.verdict?.culpritNodes.length ? ` · ${one.verdict.culpritNodes.join(", ")}` : ""} · {Object.entries(one.cost ?? {}).map(([key, value]) => `${key} ${span(value)}`).join(" · ")}</p>
            {one.verdict?.decidedBy.slice(0, 3).map((line, at) => <pre tabIndex={0} className="quote" key={at}>{line}</pre>)}
          </Card>
        ))}
      </div>
    </>
  );
}
