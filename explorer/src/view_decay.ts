/* view_decay.ts: how far the rotated inner product of equal vectors falls with distance: its mean and Su's bound. */
import type { Setup } from "./core";
import { h, onPointer, pointerAt, s } from "./dom";
import { count, fixed, short, ticks, tokens } from "./numbers";
import { drawChart, type Line, type Scales } from "./plot";
import { keyOf, setup, theCore } from "./scene";
import { get, set } from "./state";
import { t } from "./text";
import { frame, onArrows, type Sheet, type View } from "./view";
import { methodName } from "./knobs";

const BASES = [1e4, 5e5, 1e6];
const POINTS = 360;

/* Distances from 1 to the target, each once, evenly spaced in their logarithm. */
function distances(target: number): number[] {
    const found = new Set<number>();
    for (let k = 0; k <= POINTS; k++) found.add(Math.round(target ** (k / POINTS)));
    return [...found].filter((d) => d < target || d === 1);
}

interface Curves {
    x: number[];
    mean: Float64Array;
    bound: Float64Array;
}
const known = new Map<string, Curves>();

function curves(of: Setup): Curves {
    const key = keyOf(of);
    if (!known.has(key)) {
        if (known.size > 12) known.clear();
        const x = distances(of.target);
        const { mean, bound } = theCore().decay(of, x);
        known.set(key, { x, mean: mean.slice(), bound: bound.slice() });
    }
    return known.get(key)!;
}

function sheet(): Sheet {
    const now = curves(setup());
    const none = curves(setup("none"));
    const rows = now.x.map((
        d,
        k,
    ) => [d, fixed(now.mean[k]!, 4), fixed(now.bound[k]!, 4), fixed(none.mean[k]!, 4), fixed(none.bound[k]!, 4)]);
    return { head: [t("col.distance"), t("col.mean"), t("col.bound"), t("col.mean.none"), t("col.bound.none")], rows };
}

export function decayView(): View {
    const chart = s("svg", {
        id: "decay-chart",
        class: "chart",
        role: "slider",
        tabindex: 0,
        "aria-label": t("decay.aria"),
        "aria-valuemin": 1,
    });
    const box: HTMLInputElement = h("input", {
        type: "checkbox",
        id: "decay-bases",
        change: () => set({ bases: box.checked }),
    });
    const other = h("label", { class: "check", for: "decay-bases" }, box, t("decay.bases"));
    const view = frame("decay", "decay.title", "decay.lead", sheet, other, chart);
    let scales: Scales | null = null;
    let at = 0; // index of the distance that is read out
    const draw = (): void => {
        const { trained, target, base, method } = get();
        box.checked = get().bases;
        const now = curves(setup());
        const lines: Line[] = [];
        if (get().bases) {
            BASES.filter((b) => b !== base).forEach((b) => {
                const of = curves({ ...setup(), base: b });
                const k = BASES.indexOf(b);
                lines.push({ x: of.x, y: of.bound, class: `c${k}`, label: t("decay.base", { b: short(b) }) });
            });
        } else if (method !== "none") {
            const none = curves(setup("none"));
            lines.push({ x: none.x, y: none.mean, class: "ghost thin" });
            lines.push({ x: none.x, y: none.bound, class: "ghost", label: methodName("none") });
        }
        lines.push({ x: now.x, y: now.mean, class: "main thin", label: t("decay.mean") });
        lines.push({ x: now.x, y: now.bound, class: "main", label: t("decay.bound") });
        at = Math.min(at || now.x.findIndex((d) => d >= Math.abs(get().m - get().n)), now.x.length - 1);
        if (at < 0) at = 0;
        const octaves: number[] = [];
        for (let d = 1; d <= target; d *= 2) octaves.push(d);
        const every = Math.ceil(octaves.length / 7);
        const low = Math.min(-0.1, ...lines.flatMap((line) => Array.from(line.y)));
        scales = drawChart(chart, {
            x: {
                label: t("axis.distance"),
                min: 1,
                max: target,
                log: true,
                ticks: octaves.filter((_, k) => k % every === 0),
                format: tokens,
            },
            y: { label: t("axis.product"), min: low, max: 1, ticks: ticks(low, 1, 6), format: (v) => fixed(v, 1) },
            lines,
            marks: target > trained
                ? [{ axis: "x", at: trained, label: t("mark.trained", { n: tokens(trained) }), class: "trained" }]
                : [],
            cursor: now.x[at],
            right: 84,
        });
        const text = t("decay.readout", {
            d: count(now.x[at]!),
            mean: fixed(now.mean[at]!, 3),
            bound: fixed(now.bound[at]!, 3),
        });
        chart.setAttribute("aria-valuemax", String(target - 1));
        chart.setAttribute("aria-valuenow", String(now.x[at]));
        chart.setAttribute("aria-valuetext", text);
        view.readout(text);
        view.refresh();
    };
    const moveTo = (index: number): void => {
        at = Math.max(0, Math.min(curves(setup()).x.length - 1, index));
        draw();
    };
    onPointer(chart as unknown as HTMLElement, (event) => {
        if (!scales) return;
        const d = scales.invert(pointerAt(event, chart).x);
        moveTo(curves(setup()).x.findIndex((x) => x >= d * 0.999));
    });
    onArrows(chart as unknown as HTMLElement, (dx, dy, end) => moveTo(end ? (end < 0 ? 0 : 1e6) : at + dx + dy));
    return { id: "decay", element: view.element, draw };
}
