// Small pieces that every page is made of.
import { useEffect, useRef, useState, type ReactNode } from "react";
import { stateOf } from "./format";
import type { Problem } from "./client";

export const Card = ({ title, children, aside, className = "" }: { title?: ReactNode; children: ReactNode; aside?: ReactNode; className?: string }) => (
  <section className={`card ${className}`}>
    {title && (
      <div className="cardhead">
        <h2>{title}</h2>
        <span className="grow" />
        {aside}
      </div>
    )}
    {children}
  </section>
);

export const Phase = ({ word, note }: { word: string; note?: string }) => (
  <span className={`pill state ${stateOf(word)}`}>
    <i aria-hidden="true" />
    {word}
    {note && ` · ${note}`}
  </span>
);

export const Link = ({ to, children, className }: { to: string; children: ReactNode; className?: string }) => (
  <a href={`#${to}`} className={className}>
    {children}
  </a>
);

export const jobLink = (namespace: string, name: string) => `/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export function Bar({ parts, label }: { parts: { state: string; value: number; title: string }[]; label: string }) {
  const whole = parts.reduce((sum, one) => sum + one.value, 0);
  return (
    <div className="bar" role="img" aria-label={label}>
      {whole > 0 &&
        parts.filter((one) => one.value > 0).map((one) => (
          <i key={one.title} className={one.state} style={{ width: `${(100 * one.value) / whole}%` }} title={one.title} />
        ))}
    </div>
  );
}

export const Meter = ({ value, whole, label }: { value: number; whole: number; label: string }) => (
  <div className="meter" role="img" aria-label={label}>
    <i style={{ width: `${whole ? Math.min(100, (100 * value) / whole) : 0}%` }} />
  </div>
);

export const Trouble = ({ error }: { error?: Problem | undefined }) => (error ? <p className="trouble" role="alert">{error.message}</p> : null);
export const Empty = ({ children }: { children: ReactNode }) => <p className="empty">{children}</p>;

export type Column<T> = { title: string; width?: string; cell: (row: T) => ReactNode; right?: boolean; wide?: boolean };

const ROW = 36;

/** A table whose rows exist only while they are in sight. */
export function Table<T>({ rows, columns, id, open, more }: { rows: T[]; columns: Column<T>[]; id: (row: T) => string; open?: (row: T) => string; more?: (() => void) | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const look = () => {
      const found = box.current?.getBoundingClientRect();
      if (found) setView({ top: Math.max(0, -found.top), height: window.innerHeight });
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [rows.length]);
  const first = Math.max(0, Math.floor(view.top / ROW) - 8);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + 8);
  useEffect(() => {
    if (more && last >= rows.length - 20) more();
  }, [last, rows.length, more]);
  const template = columns.map((one) => one.width ?? "minmax(0,1fr)").join(" ");
  return (
    <div className="table" role="table" aria-rowcount={rows.length + 1}>
      <div className="tr head" role="row" style={{ gridTemplateColumns: template }}>
        {columns.map((one) => (
          <span role="columnheader" key={one.title} className={`${one.right ? "right" : ""} ${one.wide ? "wide" : ""}`}>
            {one.title}
          </span>
        ))}
      </div>
      <div ref={box} role="rowgroup" style={{ height: rows.length * ROW, position: "relative" }}>
        {rows.slice(first, last).map((row, index) => (
          <div className="tr" role="row" aria-rowindex={first + index + 2} key={id(row)} style={{ gridTemplateColumns: template, top: (first + index) * ROW }}>
            {columns.map((one, place) => (
              <span role="cell" key={one.title} className={`${one.right ? "right num" : ""} ${one.wide ? "wide" : ""}`}>
                {place === 0 && open ? <Link to={open(row)}>{one.cell(row)}</Link> : one.cell(row)}
              </span>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

/** Asks before it acts; Escape and a click beside it mean no. */
export function Action({ label, question, act, danger }: { label: string; question: string; act: () => Promise<unknown>; danger?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  return (
    <>
      <button className={danger ? "danger" : ""} onClick={() => dialog.current?.showModal()}>
        {label}
      </button>
      <dialog ref={dialog} aria-label={question} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
        <p>{question}</p>
        {error && <p className="trouble" role="alert">{error}</p>}
        <form method="dialog" className="buttons">
          <button>No</button>
          <button
            type="button"
            className={danger ? "danger" : "primary"}
            disabled={busy}
            onClick={async () => {
              setBusy(true);
              try {
                await act();
                setError("");
                dialog.current?.close();
              } catch (problem) {
                setError((problem as Error).message);
              }
              setBusy(false);
            }}
          >
            Yes, {label.toLowerCase()}
          </button>
        </form>
      </dialog>
    </>
  );
}
