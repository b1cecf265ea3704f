/* plot.ts: line charts as SVG, sized to their place, with names at the lines instead of a legend. */
import { s, sizeOf } from "./dom";

export interface Axis {
    label: string;
    min: number;
    max: number;
    log?: boolean;
    ticks: number[];
    format: (value: number) => string;
}
export interface Line {
    x: ArrayLike<number>;
    y: ArrayLike<number>;
    /** Style classes: "ghost", "main", "of-" and a method, "dots". */
    class: string;
    /** On every point, an SVG path from -1 to 1. */
    symbol?: string;
    label?: string;
    dots?: boolean;
}
export interface Mark {
    axis: "x" | "y";
    at: number;
    label: string;
    class: string;
}
export interface Band {
    from: number;
    to: number;
    class: string;
    label?: string;
    opacity?: number;
}
export interface Chart {
    x: Axis;
    y: Axis;
    lines: Line[];
    marks?: Mark[];
    bands?: Band[];
    /** Where a vertical line shows the cursor. */
    cursor?: number;
    /** Room for names at the right, in pixels. */
    right?: number;
}
export interface Scales {
    x: (value: number) => number;
    y: (value: number) => number;
    /** out = the value on the x axis at a pixel, kept within the axis. */
    invert: (pixel: number) => number;
}

const MARGIN = { left: 52, top: 20, bottom: 38, right: 16 };

function scale(axis: Axis, from: number, to: number): (value: number) => number {
    const f = axis.log ? Math.log : (v: number): number => v;
    const low = f(axis.min);
    const high = f(axis.max);
    return (value) => from + ((f(value) - low) / (high - low || 1)) * (to - from);
}

function path(line: Line, x: (v: number) => number, y: (v: number) => number): string {
    let d = "";
    let pen = "M";
    for (let i = 0; i < line.x.length; i++) {
        const px = x(line.x[i]!);
        const py = y(line.y[i]!);
        if (!Number.isFinite(px) || !Number.isFinite(py)) {
            pen = "M";
            continue;
        }
        d += `${pen}${px.toFixed(1)} ${py.toFixed(1)}`;
        pen = "L";
    }
    return d;
}

/* All points of a line as one path: a hundred elements would cost more than the core does. */
function dots(line: Line, x: (v: number) => number, y: (v: number) => number): string {
    let d = "";
    for (let i = 0; i < line.x.length; i++) {
        const py = y(line.y[i]!);
        if (Number.isFinite(py)) {
            d += `M${(x(line.x[i]!) - 3).toFixed(1)} ${py.toFixed(1)}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`;
        }
    }
    return d;
}

const SYMBOL = 3; /* pixels from the middle of a symbol to its edge */

/* A symbol for the points of a line, defined once in the chart. */
function marker(id: string, line: Line): SVGMarkerElement {
    const box = { viewBox: "-2 -2 4 4", markerWidth: 4 * SYMBOL, markerHeight: 4 * SYMBOL, markerUnits: "userSpaceOnUse" };
    return s("marker", { id, ...box }, s("path", { d: line.symbol!, class: `symbol ${line.class}` }));
}

/** out = a piece of a line with its symbol, for a legend. */
export function sampleOf(line: { class: string; symbol: string }): SVGSVGElement {
    return s(
        "svg",
        { class: "sample", viewBox: "0 0 60 14", "aria-hidden": "true" },
        s("path", { d: "M2 7H58", class: `line ${line.class}` }),
        s("path", { d: line.symbol, class: `symbol ${line.class}`, transform: "translate(30 7) scale(5)" }),
    );
}

/* Names at the right ends of lines, moved apart until none touches another. */
function spread(at: number[], gap: number, low: number, high: number): number[] {
    const order = at.map((y, i) => ({ y, i })).sort((a, b) => a.y - b.y);
    for (let pass = 0; pass < 60; pass++) {
        for (let k = 1; k < order.length; k++) {
            const near = gap - (order[k]!.y - order[k - 1]!.y);
            if (near <= 0) continue;
            order[k]!.y += near / 2;
            order[k - 1]!.y -= near / 2;
        }
    }
    const over = Math.max(0, (order[order.length - 1]?.y ?? 0) - high);
    for (const one of order) one.y -= over;
    for (let k = 0; k < order.length; k++) {
        order[k]!.y = Math.max(order[k]!.y, k ? order[k - 1]!.y + gap : low);
    }
    const out = at.slice();
    for (const one of order) out[one.i] = one.y;
    return out;
}

function lastPoint(line: Line, x: Scales["x"], y: Scales["y"], high: number): number | null {
    for (let i = line.x.length - 1; i >= 0; i--) {
        const py = y(line.y[i]!);
        if (Number.isFinite(py) && x(line.x[i]!) <= high + 1) return py;
    }
    return null;
}

/* out = every tick, or every second and so on, so that no two labels touch. */
function thin(axis: Axis, x: (v: number) => number): number[] {
    const { ticks, format } = axis;
    if (ticks.length < 2) return ticks;
    const widest = Math.max(...ticks.map((at) => format(at).length)) * 7 + 8;
    const apart = Math.abs(x(ticks[1]!) - x(ticks[0]!));
    const every = Math.max(1, Math.ceil(widest / apart));
    return ticks.filter((_, k) => k % every === 0);
}

/** Draws the chart into the SVG, which has a size on the screen. */
export function drawChart(svg: SVGSVGElement, chart: Chart): Scales {
    const place = sizeOf(svg);
    const width = Math.max(200, place.width);
    const height = Math.max(60, place.height);
    const left = MARGIN.left;
    const right = width - (chart.right ?? MARGIN.right);
    const top = MARGIN.top;
    const bottom = height - MARGIN.bottom;
    const x = scale(chart.x, left, right);
    const y = scale(chart.y, bottom, top);
    const parts: Node[] = [];
    for (const band of chart.bands ?? []) {
        const from = Math.max(left, x(band.from));
        const to = Math.min(right, x(band.to));
        if (to <= from) continue;
        parts.push(
            s("rect", {
                x: from,
                y: top,
                width: to - from,
                height: bottom - top,
                class: `band ${band.class}`,
                "fill-opacity": band.opacity,
            }),
        );
        if (band.label) parts.push(s("text", { x: (from + to) / 2, y: top + 13, class: "band-label" }, band.label));
    }
    for (const at of chart.y.ticks) {
        parts.push(s("line", { x1: left, x2: right, y1: y(at), y2: y(at), class: "grid" }));
        parts.push(s("text", { x: left - 6, y: y(at) + 4, class: "tick end" }, chart.y.format(at)));
    }
    for (const at of thin(chart.x, x)) {
        parts.push(s("line", { x1: x(at), x2: x(at), y1: bottom, y2: bottom + 4, class: "axis" }));
        parts.push(s("text", { x: x(at), y: bottom + 16, class: "tick middle" }, chart.x.format(at)));
    }
    parts.push(s("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
    parts.push(s("text", { x: right, y: height - 6, class: "axis-label end" }, chart.x.label));
    parts.push(s("text", { x: 2, y: 11, class: "axis-label" }, chart.y.label));
    for (const mark of chart.marks ?? []) {
        const at = mark.axis === "x" ? x(mark.at) : y(mark.at);
        if (mark.axis === "x" && at >= left - 1 && at <= right + 1) {
            const late = at > (left + right) / 2;
            parts.push(s("line", { x1: at, x2: at, y1: top, y2: bottom, class: `mark ${mark.class}` }));
            parts.push(
                s("text", {
                    x: at + (late ? -4 : 4),
                    y: bottom - 6,
                    class: `mark-label ${mark.class}${late ? " end" : ""}`,
                }, mark.label),
            );
        } else if (mark.axis === "y" && at >= top - 1 && at <= bottom + 1) {
            parts.push(s("line", { x1: left, x2: right, y1: at, y2: at, class: `mark ${mark.class}` }));
            parts.push(s("text", { x: left + 5, y: at - 4, class: `mark-label ${mark.class}` }, mark.label));
        }
    }
    if (chart.cursor !== undefined) {
        parts.push(s("line", { x1: x(chart.cursor), x2: x(chart.cursor), y1: top, y2: bottom, class: "cursor" }));
    }
    const clip = `${svg.id}-clip`;
    parts.push(
        s(
            "clipPath",
            { id: clip },
            s("rect", { x: left - 5, y: top - 5, width: right - left + 10, height: bottom - top + 10 }),
        ),
    );
    const group = s("g", { "clip-path": `url(#${clip})` });
    for (const line of chart.lines) {
        if (line.dots) {
            group.append(s("path", { d: dots(line, x, y), class: `dot ${line.class}` }));
            continue;
        }
        const drawn = s("path", { d: path(line, x, y), class: `line ${line.class}` });
        if (line.symbol) {
            const id = `${svg.id}-symbol-${group.childElementCount}`;
            for (const end of ["start", "mid", "end"]) drawn.setAttribute(`marker-${end}`, `url(#${id})`);
            group.append(marker(id, line));
        }
        group.append(drawn);
    }
    parts.push(group);
    const named = chart.lines.filter((line) => line.label);
    const ends = named.map((line) => lastPoint(line, x, y, right) ?? bottom);
    const places = spread(ends.map((py) => Math.min(bottom, Math.max(top, py))), 14, top + 4, bottom);
    named.forEach((line, i) =>
        parts.push(s("text", { x: right + 6, y: places[i]! + 4, class: `name ${line.class}` }, line.label!))
    );
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...parts);
    const { min, max, log } = chart.x;
    return {
        x,
        y,
        invert: (pixel) => {
            const part = Math.min(1, Math.max(0, (pixel - left) / (right - left)));
            return log ? min * (max / min) ** part : min + part * (max - min);
        },
    };
}
