/* view_waves.ts: the wavelength of each pair against the trained and the target length, and the ramp of the method. */
import { h, onPointer, pointerAt, s } from "./dom";
import { count, fixed, power, powerTicks, short, ticks, tokens } from "./numbers";
import { type Band, drawChart, type Line, type Mark, type Scales } from "./plot";
import { frequencies, ramp, setup } from "./scene";
import { get, set } from "./state";
import { sentences, t } from "./text";
import { frame, onArrows, type Sheet, type View } from "./view";

const indices = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/* One band for each run of pairs with one shade: kept is unshaded, divided is dark. */
function bands(kept: Float64Array): Band[] {
    const found: Band[] = [];
    kept.forEach((k, i) => {
        const opacity = Number((0.16 * (1 - k)).toFixed(2));
        const last = found[found.length - 1];
        if (last?.opacity === opacity) last.to = i + 0.5;
        else found.push({ from: i - 0.5, to: i + 0.5, class: "divided", opacity });
    });
    return found;
}

function sheet(): Sheet {
    const of = frequencies(setup());
    const parts = ramp(setup());
    return {
        head: [
            t("col.pair"),
            t("col.wavelength.trained"),
            t("col.wavelength.now"),
            t("col.turns.trained"),
            t("col.kept"),
            t("col.invfreq"),
        ],
        rows: Array.from(of.wavelengths, (wavelength, i) => [
            i,
            short(of.trainedWavelengths[i]!, 5),
            short(wavelength, 5),
            short(parts.revolutions[i]!),
            fixed(parts.kept[i]!, 3),
            of.invFreq[i]!.toPrecision(6),
        ]),
    };
}

export function wavesView(): View {
    const chart = s("svg", {
        id: "waves-chart",
        class: "chart",
        role: "slider",
        tabindex: 0,
        "aria-label": t("waves.aria"),
        "aria-valuemin": 0,
    });
    const slope = s("svg", { id: "ramp-chart", class: "chart low", role: "img" });
    const view = frame("waves", "waves.title", "waves.lead", sheet, h("div", {}, chart, slope));
    let scales: Scales | null = null;

    onPointer(chart as unknown as HTMLElement, (event) => {
        if (scales) set({ pair: Math.round(scales.invert(pointerAt(event, chart).x)) });
    });
    onArrows(chart as unknown as HTMLElement, (dx, dy, end) => {
        const last = get().dim / 2 - 1;
        set({ pair: end ? (end < 0 ? 0 : last) : Math.min(last, Math.max(0, get().pair + dx + dy)) });
    });

    function draw(): void {
        const { pair, trained, target, dim, method } = get();
        const of = frequencies(setup());
        const parts = ramp(setup());
        const pairs = dim / 2;
        const i = indices(pairs);
        const finite = Array.from(of.wavelengths).filter(Number.isFinite);
        const high = Math.max(target, ...finite, ...of.trainedWavelengths) * 1.6;
        const x = { label: t("axis.pair"), min: -0.5, max: pairs - 0.5, ticks: ticks(0, pairs - 1, 8), format: String };
        const lines: Line[] = [{ x: i, y: of.wavelengths, class: "main dots", dots: true }];
        if (method !== "none") lines.unshift({ x: i, y: of.trainedWavelengths, class: "ghost dots", dots: true });
        const marks: Mark[] = [{
            axis: "y",
            at: trained,
            label: t("mark.trained", { n: tokens(trained) }),
            class: "trained",
        }];
        if (target !== trained) {
            marks.push({ axis: "y", at: target, label: t("mark.target", { n: tokens(target) }), class: "target" });
        }
        scales = drawChart(chart, {
            x,
            y: {
                label: t("axis.wavelength"),
                min: 4,
                max: high,
                log: true,
                ticks: powerTicks(4, high, 7),
                format: power,
            },
            lines,
            marks,
            bands: bands(parts.kept),
            cursor: pair,
        });
        drawChart(slope, {
            x,
            y: { label: t("axis.kept"), min: 0, max: 1, ticks: [0, 0.5, 1], format: (v) => short(v) },
            lines: [
                { x: i, y: parts.kept, class: "main" },
                { x: i, y: parts.kept, class: "main", dots: true },
            ],
            bands: bands(parts.kept),
            cursor: pair,
        });
        slope.setAttribute("aria-label", t("ramp.aria", parts.parts));
        const text = t("waves.readout", {
            pair,
            before: short(of.trainedWavelengths[pair]!),
            after: short(of.wavelengths[pair]!),
            turns: short(parts.revolutions[pair]!),
            trained: count(trained),
            kept: fixed(100 * parts.kept[pair]!, 0),
        });
        chart.setAttribute("aria-valuemax", String(pairs - 1));
        chart.setAttribute("aria-valuenow", String(pair));
        chart.setAttribute("aria-valuetext", text);
        const factor = of.attentionFactor;
        const temperature = factor === 1
            ? ""
            : t("waves.temperature", { f: short(factor, 4), s: short(factor * factor, 4) });
        view.readout(sentences(text, t("waves.parts", parts.parts), temperature));
        view.refresh();
    }
    return { id: "waves", element: view.element, draw };
}
