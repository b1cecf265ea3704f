/* view_attention.ts: the weights of one head over the reader's own letters, under no method and under YaRN, and the score of
 * a query and a key as a sum of bars, one for each pair. */
import { attend, attending, attendingFailure, farShare, HEADS, LAYERS, scoreOf, SHOWN, weightsOf } from "./attention";
import type { Attending } from "./attention";
import { h, s, say, sizeOf } from "./dom";
import { methodName } from "./knobs";
import { count, fixed, short } from "./numbers";
import { get, set } from "./state";
import { sentences, t } from "./text";
import { frame, onArrows, picker, type Sheet, type View } from "./view";

/* A strip of letters: the weights of one query under one method. */
interface Strip {
    element: HTMLElement;
    letters: HTMLElement[];
    share: HTMLElement;
}

/* Control characters have a sign of their own. */
function shown(letter: string): string {
    return letter === "\n" ? "↵" : letter === "\t" ? "⇥" : letter;
}

function chosen(of: Attending): { i: number; j: number } {
    const last = of.letters.length - 1;
    const i = Math.min(last, get().query);
    return { i, j: Math.min(i, get().key) };
}

/* What the two vectors make at positions other than their own is what moving them shows. */
function pick(i: number, j: number): void {
    set({ query: i, key: Math.min(i, j), m: i, n: Math.min(i, j) });
}

/* The bars of a score: an outline as far as a pair can reach, and what it gives at this distance. */
function bars(svg: SVGSVGElement, of: Attending, which: number, most: number): number {
    const { i, j } = chosen(of);
    const score = scoreOf(of, which, i, j, get().m, get().n);
    const { width, height } = sizeOf(svg);
    const pairs = score.bars.length;
    const wide = width / pairs;
    const middle = height / 2;
    const y = (value: number): number => (value / most) * (middle - 12);
    const parts: Node[] = [s("line", { x1: 0, x2: width, y1: middle, y2: middle, class: "axis" })];
    score.bars.forEach((bar, p) => {
        const reach = y(score.amplitude[p]!);
        const at = y(bar);
        const box = { x: p * wide + 2, width: Math.max(1, wide - 4) };
        parts.push(s("rect", { ...box, y: middle - reach, height: 2 * reach, class: "reach" }));
        parts.push(s("rect", { ...box, y: Math.min(middle, middle - at), height: Math.abs(at), class: bar < 0 ? "bar less" : "bar" }));
        if (p % 4 === 0) parts.push(s("text", { x: (p + 0.5) * wide, y: height - 1, class: "tick middle" }, p));
    });
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...parts);
    return score.bars.reduce((sum, bar) => sum + bar, 0);
}

function largest(of: Attending): number {
    const { i, j } = chosen(of);
    return Math.max(...SHOWN.flatMap((_, k) => Array.from(scoreOf(of, k, i, j, get().m, get().n).amplitude)), 1e-6);
}

function sheet(): Sheet {
    const of = attending();
    if (!of) return { head: [t("col.pair")], rows: [] };
    const { i, j } = chosen(of);
    const all = SHOWN.map((_, k) => scoreOf(of, k, i, j, get().m, get().n));
    return {
        head: [
            t("col.pair"),
            ...SHOWN.flatMap((name) => ["col.reach", "col.phase", "col.bar"].map((key) =>
                t(key as "col.reach", { method: methodName(name) })
            )),
        ],
        rows: Array.from(all[0]!.bars, (_, p) => [
            p,
            ...all.flatMap((one) => [fixed(one.amplitude[p]!, 4), fixed(one.phase[p]!, 3), fixed(one.bars[p]!, 4)]),
        ]),
    };
}

export function attentionView(): View {
    const layers = picker(
        t("attention.layer"),
        "attention-layer",
        Array.from({ length: LAYERS }, (_, k) => [String(k), String(k)]),
        (value) => set({ layer: Number(value) }),
    );
    const heads = picker(
        t("attention.head"),
        "attention-head",
        Array.from({ length: HEADS }, (_, k) => [String(k), String(k)]),
        (value) => set({ attends: Number(value) }),
    );
    const strips: Strip[] = SHOWN.map((method) => {
        const share = h("span", { class: "quiet", "data-far": method });
        const element = h("div", {
            class: "letters",
            id: `attention-${method}`,
            role: "slider",
            tabindex: 0,
            "aria-label": t("attention.strip", { method: methodName(method) }),
            "aria-valuemin": 0,
        });
        return { element, letters: [], share };
    });
    const charts = SHOWN.map((method) =>
        s("svg", { id: `score-${method}`, class: "chart score-bars", role: "img", "aria-label": t("attention.bars", { method: methodName(method) }) })
    );
    const sums = SHOWN.map((method) => h("b", { class: "number", "data-score": method }));
    const slides = (["key", "both"] as const).map((what) => {
        const slider: HTMLInputElement = h("input", {
            type: "range",
            id: `score-${what}`,
            min: 0,
            step: 1,
            input: () => {
                const { m, n } = get();
                const to = Number(slider.value);
                set(what === "key" ? { n: m - to } : { m: to + m - n, n: to });
            },
        });
        const value = h("output", { for: `score-${what}`, class: "number" });
        const label = h("label", { for: `score-${what}` }, t(what === "key" ? "attention.distance" : "attention.both"));
        return { what, slider, value, element: h("div", { class: "slide" }, label, slider, value) };
    });
    const alert = h("p", { class: "alert", role: "alert" });
    const waiting = h("p", { class: "quiet", role: "status" });
    const view = frame(
        "attention",
        "attention.title",
        "attention.lead",
        sheet,
        h("div", { class: "fields" }, layers.element, heads.element),
        waiting,
        ...SHOWN.flatMap((method, k) => [
            h("h3", { class: "strip-name" }, methodName(method), " ", strips[k]!.share),
            strips[k]!.element,
        ]),
        h("h3", { class: "strip-name" }, t("attention.score")),
        h("p", { class: "lead" }, t("attention.score.lead")),
        ...slides.map((one) => one.element),
        h(
            "div",
            { class: "score-grid" },
            ...SHOWN.map((method, k) =>
                h("figure", {}, h("figcaption", {}, methodName(method), ": ", sums[k]!), charts[k]!)
            ),
        ),
        alert,
    );

    strips.forEach((strip) => {
        const indexOf = (event: Event): number => strip.letters.indexOf(event.target as HTMLElement);
        /* Hovering shows what a letter looks at; a press chooses the key that the bars are about. */
        strip.element.addEventListener("pointerover", (event) => {
            const at = indexOf(event);
            if (at >= 0 && event.pointerType === "mouse" && at !== get().query) pick(at, Math.min(at, get().key));
        });
        strip.element.addEventListener("click", (event) => {
            const at = indexOf(event);
            if (at >= 0) pick(Math.max(at, get().query), at);
        });
        onArrows(strip.element, (dx, dy, end) => {
            const of = attending();
            if (!of) return;
            const { i, j } = chosen(of);
            const last = of.letters.length - 1;
            const to = end ? (end < 0 ? 0 : last) : Math.min(last, Math.max(0, i + dx));
            pick(to, Math.max(0, j + dy));
        });
    });

    let drawn = "";
    let read = "";
    /* The bars of a new text begin at the bytes that are chosen in it, wherever another view has moved m and n. */
    function takePositions(of: Attending): void {
        const text = of.letters.join("");
        if (read === text) return;
        read = text;
        const { i, j } = chosen(of);
        if (get().m - get().n !== i - j) pick(i, j);
    }
    function drawLetters(of: Attending): void {
        if (drawn === of.key) return;
        drawn = of.key;
        takePositions(of);
        for (const strip of strips) {
            strip.letters = of.letters.map((letter) => h("span", {}, shown(letter)));
            strip.element.replaceChildren(...strip.letters);
        }
    }

    function drawWeights(of: Attending): number[] {
        const { i, j } = chosen(of);
        return strips.map((strip, k) => {
            const weights = weightsOf(of, k, i);
            const most = Math.max(...weights);
            strip.letters.forEach((letter, at) => {
                letter.className = at > i ? "masked" : at === i ? "is-query" : at === j ? "is-key" : "";
                letter.style.setProperty("--w", at > i ? "0" : fixed(Math.sqrt(weights[at]! / most), 3));
            });
            const far = farShare(weights);
            say(strip.share, t("attention.far", { p: short(100 * far, 2) }));
            strip.element.setAttribute("aria-valuemax", String(of.letters.length - 1));
            strip.element.setAttribute("aria-valuenow", String(i));
            strip.element.setAttribute(
                "aria-valuetext",
                t("attention.at", { q: of.letters[i]!, i: count(i), p: short(100 * far, 2) }),
            );
            return weights[j]!;
        });
    }

    let looked = false;
    function draw(): void {
        const { layer, attends, m, n, target } = get();
        layers.list.value = String(Math.min(LAYERS - 1, layer));
        heads.list.value = String(Math.min(HEADS - 1, attends));
        if (looked) void attend(draw);
        say(alert, attendingFailure());
        const of = attending();
        say(waiting, of ? "" : t("attention.waiting"));
        if (!of) return;
        drawLetters(of);
        const { i, j } = chosen(of);
        const weights = drawWeights(of);
        const most = largest(of);
        const scores = charts.map((chart, k) => bars(chart, of, k, most));
        scores.forEach((score, k) => say(sums[k]!, fixed(score, 3)));
        for (const one of slides) {
            one.slider.max = String(one.what === "key" ? m : target - 1 - Math.max(0, m - n));
            one.slider.value = String(one.what === "key" ? m - n : n);
            say(one.value, count(one.what === "key" ? m - n : n));
        }
        view.readout(
            sentences(
                t("attention.readout", { q: shown(of.letters[i]!), i: count(i), k: shown(of.letters[j]!), j: count(j) }),
                t("attention.weights", { none: short(100 * weights[0]!, 2), yarn: short(100 * weights[1]!, 2) }),
                t("attention.bars.at", { d: count(m - n) }),
            ),
        );
        view.refresh();
    }
    const seen = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        seen.disconnect();
        looked = true;
        draw();
    });
    seen.observe(view.element);
    return { id: "attention", element: view.element, draw };
}
