// The frame: who is signed in, where one is, and the way elsewhere.
import { useEffect, useState } from "react";
import { ask, follow, signIn, signOut, signedIn, useApi, useLine } from "./client";
import { Audit, Events } from "./pages/events";
import { FabricPage } from "./pages/fabric";
import { GoodputPage } from "./pages/goodput";
import { Incidents } from "./pages/incidents";
import { JobPage } from "./pages/job";
import { Jobs } from "./pages/jobs";
import { NodePage, Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { Queues } from "./pages/queues";
import { WhatIf } from "./pages/whatif";
import type { Summary } from "./types";

const NAV: [string, string, string][] = [
  ["", "Overview", "o"], ["fabric", "Fabric", "f"], ["jobs", "Jobs", "j"], ["queues", "Queues", "q"], ["nodes", "Nodes", "n"],
  ["incidents", "Incidents", "i"], ["goodput", "Goodput", "g"], ["whatif", "What if", "w"], ["events", "Events", "e"], ["audit", "Audit", "a"],
];

export function useRoute(): { path: string[]; query: URLSearchParams } {
  const read = () => location.hash.replace(/^#\/?/, "");
  const [hash, setHash] = useState(read());
  useEffect(() => {
    const changed = () => {
      setHash(read());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const [path = "", query = ""] = hash.split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

export function App() {
  const [inside, setInside] = useState(signedIn());
  if (!inside) return <SignIn done={() => setInside(true)} />;
  return <Frame />;
}

function SignIn({ done }: { done: () => void }) {
  const [value, setValue] = useState("");
  const [error, setError] = useState("");
  return (
    <main className="signin">
      <form
        className="card"
        onSubmit={async (event) => {
          event.preventDefault();
          signIn(value);
          try {
            await ask("GET", "/version");
            done();
          } catch (problem) {
            setError((problem as Error).message);
          }
        }}
      >
        <h1>Muster</h1>
        <label htmlFor="token">Token</label>
        <input id="token" type="password" autoComplete="current-password" autoFocus value={value} onChange={(event) => setValue(event.target.value)} />
        {error && <p className="trouble" role="alert">{error}</p>}
        <button className="primary" disabled={!value.trim()}>Sign in</button>
        <p className="mute">
          Of the embedded cluster it is in <code>~/.muster/token</code>, or where <code>muster up</code> says.
        </p>
      </form>
    </main>
  );
}

function Frame() {
  const { path, query } = useRoute();
  const line = useLine();
  const { data } = useApi<Summary>("/summary", ["Job", "Node", "Incident"], 2000);
  useEffect(() => void follow(), []);
  useKeys();
  const [theme, setTheme] = useTheme();
  const counts: Record<string, number | undefined> = {
    jobs: data?.jobs.reduce((sum, one) => sum + one.count, 0),
    nodes: data?.nodes.reduce((sum, one) => sum + one.count, 0),
    incidents: data?.incidents.length || undefined,
  };
  return (
    <>
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <nav aria-label="Pages">
        <b>Muster</b>
        {NAV.map(([name, title]) => (
          <a key={name} href={`#/${name}`} aria-current={(path[0] ?? "") === name ? "page" : undefined}>
            {title} {counts[name] !== undefined && <span className="count">{counts[name]}</span>}
          </a>
        ))}
        <span className="grow" />
        <span className={`line ${line.live ? "live" : "cut"}`} role="status">
          {line.live ? `live · ${line.revision}` : "not connected"}
        </span>
        <button onClick={() => setTheme(theme === "dark" ? "light" : "dark")}>{theme === "dark" ? "Light" : "Dark"}</button>
        <button onClick={signOut}>Sign out</button>
      </nav>
      <main id="main" tabIndex={-1}>
        {!line.live && line.revision > 0 && <p className="trouble" role="alert">The cluster does not answer; this is how it was. It goes on by itself.</p>}
        <Page path={path} query={query} />
      </main>
    </>
  );
}

function Page({ path, query }: { path: string[]; query: URLSearchParams }) {
  switch (path[0]) {
    case undefined: return <Overview />;
    case "fabric": return <FabricPage query={query} />;
    case "jobs": return path[1] && path[2] ? <JobPage key={path.join("/")} namespace={path[1]} name={path[2]} /> : <Jobs query={query} />;
    case "queues": return <Queues />;
    case "nodes": return path[1] ? <NodePage key={path[1]} name={path[1]} /> : <Nodes query={query} />;
    case "incidents": return <Incidents />;
    case "goodput": return <GoodputPage query={query} />;
    case "whatif": return <WhatIf />;
    case "events": return <Events />;
    case "audit": return <Audit />;
    default: return <p className="empty">There is no such page. <a href="#/">Overview</a></p>;
  }
}

/** `g` and a letter goes to a page; `/` to the filter. */
function useKeys() {
  useEffect(() => {
    let going = false;
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA|SELECT/.test(target.tagName)) return;
      if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("input[type=search]");
        if (filter) {
          event.preventDefault();
          filter.focus();
        }
      } else if (going) {
        const found = NAV.find(([, , key]) => key === event.key);
        if (found) location.hash = `#/${found[0]}`;
      }
      going = event.key === "g";
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function useTheme(): [string, (theme: string) => void] {
  const asked = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("muster-theme");
  const [theme, setTheme] = useState(asked ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  return [theme, (next) => { localStorage.setItem("muster-theme", next); setTheme(next); }];
}
