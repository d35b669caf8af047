// Talks to the API: requests with the token, one stream of changes for all pages, and what was read kept until it changes.
import { useEffect, useState } from "react";

export class Problem extends Error {
  constructor(public status: number, public code: string, message: string) {
    super(message);
  }
}

const KEY = "muster-token";
let token = sessionStorage.getItem(KEY) ?? "";

export const signedIn = () => token !== "";
export function signIn(value: string) {
  token = value.trim();
  sessionStorage.setItem(KEY, token);
}
export function signOut() {
  token = "";
  sessionStorage.removeItem(KEY);
  location.reload();
}

const base = new URL("./api/v1", document.baseURI.split("#")[0]).href;

export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(base + path, {
      method,
      headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch {
    throw new Problem(0, "UNREACHABLE", "the cluster cannot be reached");
  }
  if (!answer.ok) throw await problemOf(answer);
  return (await answer.json()) as T;
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const found = await answer.json();
    const fields = (found.errors ?? []).map((one: { field: string; message: string }) => `${one.field}: ${one.message}`);
    return new Problem(answer.status, found.code ?? "", [found.detail ?? found.title, ...fields].filter(Boolean).join(" · "));
  } catch {
    return new Problem(answer.status, "", `the server answered ${answer.status}`);
  }
}

export async function text(path: string, signal?: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const answer = await fetch(base + path, { headers: { Authorization: `Bearer ${token}` }, signal: signal ?? null });
  if (!answer.ok || !answer.body) throw await problemOf(answer);
  return answer.body.getReader();
}

export async function whole(path: string): Promise<string> {
  const reader = await text(path);
  const decoder = new TextDecoder();
  let found = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return found;
    found += decoder.decode(value, { stream: true });
  }
}

// -- changes --------------------------------------------------------------------------------------

type Heard = (kinds: Set<string>) => void;
const listeners = new Set<Heard>();
export type Line = { live: boolean; revision: number };
let line: Line = { live: false, revision: 0 };
const watchers = new Set<(line: Line) => void>();

function tell(next: Partial<Line>) {
  line = { ...line, ...next };
  watchers.forEach((watcher) => watcher(line));
}

export function useLine(): Line {
  const [now, setNow] = useState(line);
  useEffect(() => {
    watchers.add(setNow);
    return () => void watchers.delete(setNow);
  }, []);
  return now;
}

const GATHER = 250; // ms: changes that come together are one
let waiting = new Set<string>();
let timer = 0;

function changed(kind: string) {
  waiting.add(kind);
  if (!timer)
    timer = window.setTimeout(() => {
      timer = 0;
      if (document.hidden) return; // told when somebody looks again
      const kinds = waiting;
      waiting = new Set();
      listeners.forEach((listener) => listener(kinds));
    }, GATHER);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && waiting.size) changed([...waiting][0] ?? "");
});

let following = false;
export async function follow() {
  if (following) return;
  following = true;
  let pause = 500;
  for (;;) {
    try {
      const reader = await text(`/changes${line.revision ? `?after=${line.revision}` : ""}`);
      pause = 500;
      tell({ live: true });
      await hear(reader);
    } catch (error) {
      if (error instanceof Problem && error.status === 410) {
        tell({ revision: 0 });
        changed("*");
      }
    }
    tell({ live: false });
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, 8000);
  }
}

async function hear(reader: ReadableStreamDefaultReader<Uint8Array>) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (!data) continue;
      const revision = Number(/"revision":\s*"?(\d+)/.exec(data)?.[1] ?? 0);
      const kind = /"kind":\s*"(\w+)"/.exec(data)?.[1];
      if (revision) tell({ revision });
      if (kind && !/^event: bookmark/m.test(block)) changed(kind);
    }
  }
}

// -- what was read ---------------------------------------------------------------------------------

export type Read<T> = { data?: T; error?: Problem; again: () => void };

/** Reads `path`, and again when something of these kinds has changed; at most once in `least` ms. */
export function useApi<T>(path: string | null, kinds: string[] = [], least = 1000): Read<T> {
  const [state, setState] = useState<{ path: string | null; data?: T; error?: Problem }>({ path });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) return;
    let over = false;
    let busy = false;
    let dirty = false;
    let last = 0;
    let later = 0;
    const read = async () => {
      if (busy) {
        dirty = true;
        return;
      }
      busy = true;
      last = Date.now();
      try {
        const data = await ask<T>("GET", path);
        if (!over) setState({ path, data });
      } catch (error) {
        if (!over) setState((before) => ({ ...(before.path === path ? before : { path }), error: error as Problem }));
        if (error instanceof Problem && error.status === 401) signOut();
      }
      busy = false;
      if (dirty && !over) {
        dirty = false;
        soon();
      }
    };
    const soon = () => {
      if (later) return;
      later = window.setTimeout(() => {
        later = 0;
        void read();
      }, Math.max(0, last + least - Date.now()));
    };
    const heard: Heard = (found) => {
      if (found.has("*") || kinds.some((kind) => found.has(kind))) soon();
    };
    listeners.add(heard);
    void read();
    return () => {
      over = true;
      clearTimeout(later);
      listeners.delete(heard);
    };
  }, [path, kinds.join(), least, turn]);
  const own = state.path === path ? state : { path };
  return { data: own.data, error: own.error, again: () => setTurn((before) => before + 1) } as Read<T>;
}

/** A number that grows when something of these kinds has changed; at most once in `least` ms. */
export function useChanges(kinds: string[], least: number): number {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let later = 0;
    const heard: Heard = (found) => {
      if (!later && (found.has("*") || kinds.some((kind) => found.has(kind))))
        later = window.setTimeout(() => { later = 0; setTurn((before) => before + 1); }, least);
    };
    listeners.add(heard);
    return () => { clearTimeout(later); listeners.delete(heard); };
  }, [kinds.join(), least]);
  return turn;
}
