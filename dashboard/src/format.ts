// Times, sizes and states in words, the same as the command line's.
export const clock = (text?: string | null) => (text ? new Date(text).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "–");
export const moment = (text?: string | null) => (text ? new Date(text).toLocaleString([], { dateStyle: "short", timeStyle: "medium" }) : "–");

export function span(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const days = Math.floor(whole / 86400);
  const hours = Math.floor((whole % 86400) / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return `${minutes} min ${whole % 60} s`;
}

/** How long ago, in its largest unit. */
export const age = (text?: string | null, now = Date.now()) => (text ? span(Math.max(0, (now - Date.parse(text)) / 1000)).replace(/^(\d+ (?:d|h|min)) .*/, "$1") : "–");

export function until(text?: string | null, now = Date.now()): string {
  if (!text) return "–";
  const seconds = (Date.parse(text) - now) / 1000;
  return seconds < 1 ? "now" : `in ${span(seconds)}`;
}

export const percent = (part: number, whole: number) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");
export const number = (value: number) => value.toLocaleString("en").replace(/,/g, " ");
export const hours = (deviceSeconds: number) => (deviceSeconds >= 3600 ? `${number(Math.round(deviceSeconds / 360) / 10)} h` : span(deviceSeconds));

export type State = "prod" | "start" | "recover" | "lost" | "claim" | "idle" | "sick" | "save" | "done";
const STATES: Record<string, State> = {
  Running: "prod", Ready: "prod", Succeeded: "done", Queued: "idle", Suspended: "idle", Starting: "start", Stopping: "start", Recovering: "recover",
  Failed: "sick", Lost: "sick", Cancelled: "idle", Unknown: "lost", Cordoned: "claim", productive: "prod", starting: "start", recovering: "recover",
  lost: "lost", queued: "idle", suspended: "idle", stalled: "claim", saving: "save",
};
export const stateOf = (word: string): State => STATES[word] ?? "idle";
