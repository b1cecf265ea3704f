/* view_bias.ts: encodings that add a number to the score: against distance, and as a map of queries and keys. */
import type { Bias, BiasKind, BiasParams } from "./core";
import { colours, shade } from "./colour";
import { h, onPointer, pointerAt, s, surface } from "./dom";
import { count, fixed, short, ticks } from "./numbers";
import { drawChart, type Line } from "./plot";
import { theCore } from "./scene";
import { get, set } from "./state";
import { type Key, sentences, t } from "./text";
import { frame, onArrows, picker, type Sheet, type View } from "./view";

/** The names by which the kinds have their looks. */
const lookName = (kind: BiasKind): string => (kind === "kerple-log" ? "kerple" : kind);
const KINDS: [BiasKind, string, Key][] = [
    ["alibi", "ALiBi", "bias.alibi"],
    ["alibi-linear", "ALiBi, linear", "bias.alibi-linear"],
    ["alibi-ntk", "ALiBi, NTK", "bias.alibi-ntk"],
    ["t5", "T5", "bias.t5"],
    ["kerple-log", "KERPLE (log)", "bias.kerple-log"],
    ["kerple-power", "KERPLE (power)", "bias.kerple-power"],
    ["fire", "FIRE", "bias.fire"],
    ["sandwich", "Sandwich", "bias.sandwich"],
    ["deberta", "DeBERTa", "bias.deberta"],
];

export const BIAS_LOOKS: readonly string[] = KINDS.map(([kind]) => lookName(kind));

/* Of stretched slopes: the knob's, or as far as the target. */
function factor(): number {
    const { factor, target, trained } = get();
    return factor || Math.max(1, target / trained);
}

let known: { key: string; bias: Bias } | null = null;

function bias(): Bias {
    const { bias: kind, heads, span } = get();
    const key = `${kind} ${heads} ${span} ${factor()}`;
    if (known?.key === key) return known.bias;
    const params: BiasParams = { heads, factor: factor() };
    const found = theCore().bias(kind, params, span);
    known = { key, bias: { ...found, map: found.map.slice(), bucket: found.bucket && found.bucket.slice() } };
    return known.bias;
}

/* Only T5 and DeBERTa have buckets; DeBERTa adds no number, so its buckets are what there is to see. */
const showsBuckets = (): boolean => get().bias === "deberta";

/* out = what the last query adds for keys at distances 0, 1, ... */
function curve(of: Bias, head: number): Float64Array {
    const last = of.n - 1;
    return Float64Array.from(
        { length: of.n },
        (_, d) =>
            showsBuckets() ? of.bucket![last * of.n + (last - d)]! : of.map[(head * of.n + last) * of.n + (last - d)]!,
    );
}

function drawMap(canvas: HTMLCanvasElement, pixels: HTMLCanvasElement, of: Bias, cell: { m: number; n: number }): void {
    const { head } = get();
    const side = of.n;
    const values = showsBuckets()
        ? Float64Array.from(of.bucket!)
        : Float64Array.from(of.map.subarray(head * side * side, (head + 1) * side * side));
    let low = Infinity;
    let high = -Infinity;
    /* A causal model looks at no key after the query. */
    if (get().bias !== "deberta") {
        for (let m = 0; m < side; m++) values.fill(NaN, m * side + m + 1, (m + 1) * side);
    }
    for (const v of values) {
        if (!Number.isFinite(v)) continue;
        low = Math.min(low, v);
        high = Math.max(high, v);
    }
    pixels.width = pixels.height = side;
    const pen = pixels.getContext("2d")!;
    const image = pen.createImageData(side, side);
    const out = new Uint32Array(image.data.buffer);
    for (let k = 0; k < values.length; k++) {
        const v = values[k]!;
        out[k] = Number.isFinite(v) ? shade(high > low ? (v - low) / (high - low) : 1) : 0;
    }
    pen.putImageData(image, 0, 0);
    const { context, width, height } = surface(canvas);
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels, 0, 0, width, height);
    const size = width / side;
    context.strokeStyle = colours().unseen;
    context.lineWidth = 2;
    context.strokeRect(cell.n * size - 2, cell.m * size - 2, size + 4, size + 4);
}

function sheet(): Sheet {
    const of = bias();
    const heads = showsBuckets() ? [0] : Array.from({ length: of.heads }, (_, k) => k);
    const columns = heads.map((head) => curve(of, head));
    return {
        head: [
            t("col.distance"),
            ...heads.map((head) => (showsBuckets() ? t("col.bucket") : t("col.head", { h: head }))),
        ],
        rows: Array.from(
            { length: of.n },
            (_, d) => [d, ...columns.map((c) => (showsBuckets() ? c[d]! : fixed(c[d]!, 4)))],
        ),
    };
}

export function biasView(): View {
    const kinds = picker(
        t("bias.kind"),
        "bias-kind",
        KINDS.map(([kind, name]) => [kind, name]),
        (value) => set({ bias: value as BiasKind }),
    );
    const heads = picker(
        t("bias.heads"),
        "bias-heads",
        ["1", "4", "8", "12", "16"].map((n) => [n, n]),
        (value) => set({ heads: Number(value) }),
    );
    const spans = picker(
        t("bias.span"),
        "bias-span",
        ["32", "64", "128", "256", "512"].map((n) => [n, n]),
        (value) => set({ span: Number(value) }),
    );
    const head: HTMLInputElement = h("input", {
        id: "bias-head",
        type: "range",
        min: 0,
        step: 1,
        input: () => set({ head: Number(head.value) }),
    });
    const headValue = h("output", { for: "bias-head", class: "number" });
    const headKnob = h("label", { class: "field" }, h("span", {}, t("bias.head")), head, headValue);
    const chart = s("svg", { id: "bias-chart", class: "chart", role: "img" });
    const map = h("canvas", {
        class: "bias-map",
        role: "slider",
        tabindex: 0,
        "aria-label": t("bias.map"),
        "aria-valuemin": 0,
    });
    const pixels = h("canvas");
    const about = h("p", { class: "about" });
    const view = frame(
        "bias",
        "bias.title",
        "bias.lead",
        sheet,
        h("div", { class: "fields" }, kinds.element, heads.element, headKnob, spans.element),
        about,
        h(
            "div",
            { class: "bias-grid" },
            chart,
            h("figure", {}, h("div", { class: "square" }, map), h("figcaption", {}, t("bias.axes"))),
        ),
    );
    const cell = { m: 96, n: 64 };
    const clamp = (x: number): number => Math.min(get().span - 1, Math.max(0, Math.floor(x)));
    onPointer(map, (event) => {
        const { x, y } = pointerAt(event, map);
        cell.n = clamp((x / map.clientWidth) * get().span);
        cell.m = clamp((y / map.clientHeight) * get().span);
        draw();
    });
    onArrows(map, (dx, dy, end) => {
        cell.n = end ? clamp(end < 0 ? 0 : Infinity) : clamp(cell.n + dx);
        cell.m = clamp(cell.m + dy);
        draw();
    });

    function draw(): void {
        const { bias: kind, heads: many, head: chosen, span } = get();
        const of = bias();
        cell.m = clamp(cell.m);
        cell.n = clamp(cell.n);
        kinds.list.value = kind;
        heads.list.value = String(many);
        spans.list.value = String(span);
        head.max = String(many - 1);
        head.value = String(chosen);
        headValue.textContent = String(chosen);
        about.textContent = t(KINDS.find(([name]) => name === kind)![2], { a: short(factor()) });
        const x = Float64Array.from({ length: of.n }, (_, d) => d);
        const all = Array.from({ length: showsBuckets() ? 1 : of.heads }, (_, k) => ({ k, y: curve(of, k) }));
        const lines: Line[] = all.filter(({ k }) => k !== chosen).map(({ y }) => ({ x, y, class: "ghost thin" }));
        const main = all[showsBuckets() ? 0 : chosen]!;
        lines.push({
            x,
            y: main.y,
            class: `main of-${lookName(kind)}`,
            label: showsBuckets() ? t("col.bucket") : t("col.head", { h: chosen }),
        });
        const values = all.flatMap(({ y }) => Array.from(y)).filter(Number.isFinite);
        const low = Math.min(0, ...values);
        const high = Math.max(low + 1e-6, ...values, low < 0 ? 0 : -Infinity);
        drawChart(chart, {
            x: { label: t("axis.distance"), min: 0, max: of.n - 1, ticks: ticks(0, of.n - 1, 6), format: count },
            y: {
                label: showsBuckets() ? t("col.bucket") : t("axis.bias"),
                min: low,
                max: high,
                ticks: ticks(low, high, 6),
                format: (v) => short(v),
            },
            lines,
            cursor: Math.max(0, cell.m - cell.n),
            right: 64,
        });
        drawMap(map, pixels, of, cell);
        const at = cell.m * of.n + cell.n;
        const masked = kind !== "deberta" && cell.n > cell.m;
        const value = masked ? NaN : of.map[chosen * of.n * of.n + at]!;
        const words = {
            m: cell.m,
            n: cell.n,
            d: cell.m - cell.n,
            h: chosen,
            value: fixed(value, 3),
            row: of.bucket ? of.bucket[at]! : "",
        };
        const text = sentences(
            Number.isNaN(value) ? "" : t("bias.readout", words),
            of.bucket && !masked ? t("bias.bucket", words) : "",
        );
        chart.setAttribute("aria-label", t("bias.chart"));
        map.setAttribute("aria-valuemax", String(of.n - 1));
        map.setAttribute("aria-valuenow", String(cell.n));
        map.setAttribute("aria-valuetext", text || t("bias.masked"));
        view.readout(text || t("bias.masked"));
        view.refresh();
    }
    return { id: "bias", element: view.element, draw };
}
