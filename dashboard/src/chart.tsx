// Curves over time, drawn by uPlot in the colours of the theme.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ x, y, label, time = false, xLabel }: { x: number[]; y: (number | null)[]; label: string; time?: boolean; xLabel: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element || !x.length) return;
    const axis = { stroke: colour("--mute"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "11px system-ui" };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 170,
        legend: { show: false },
        cursor: { y: false },
        scales: { x: { time } },
        axes: [{ ...axis, size: 28 }, { ...axis, size: 52 }],
        series: [{ label: xLabel }, { label, stroke: colour("--accent"), width: 1.6, points: { show: x.length < 40 }, spanGaps: true }],
      },
      [x, y],
      element,
    );
    const fit = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 170 }));
    fit.observe(element);
    return () => {
      fit.disconnect();
      plot.destroy();
    };
  }, [x, y, label, time, xLabel]);
  const last = y.filter((one) => one !== null).at(-1);
  return <div ref={box} className="chart" role="img" aria-label={`${label}, ${y.length} points, last ${last ?? "unknown"}`} />;
}
