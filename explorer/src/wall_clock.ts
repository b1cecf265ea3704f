/* wall_clock.ts: a clock with three hands, which shows twelve hours, read up to three times that: as it is, under linear and
 * under NTK.  Its hands are pairs; the core says how much a method slows each down. */
import { h, s, say } from "./dom";
import { methodName } from "./knobs";
import { count, fixed, short } from "./numbers";
import { frequencies } from "./scene";
import { get, limits, set } from "./state";
import { type Key, sentences, t } from "./text";

const METHODS = ["none", "linear", "ntk"] as const;
const TRAINED = 43200; // seconds
const HANDS: { name: Key; period: number; length: number }[] = [
    { name: "wall.second", period: 60, length: 0.92 },
    { name: "wall.minute", period: 3600, length: 0.78 },
    { name: "wall.hour", period: TRAINED, length: 0.52 },
];
const END = limits.seconds![1];

/* out = [hands] by what a method divides the frequency of each. */
function divisors(method: string): number[] {
    const rotation = { factor: 0, base: 10000, headDim: 2 * HANDS.length, trained: TRAINED, target: END };
    const now = frequencies({ ...rotation, method }).wavelengths;
    const plain = frequencies({ ...rotation, method: "none" }).wavelengths;
    return HANDS.map((_, i) => now[i]! / plain[i]!);
}

/* out = an end of a hand, twelve above. */
function tip(turns: number, length: number): { x: string; y: string } {
    const angle = 2 * Math.PI * turns;
    return { x: fixed(length * Math.sin(angle), 4).replace("−", "-"), y: fixed(-length * Math.cos(angle), 4).replace("−", "-") };
}

function dial(method: string) {
    const ticks = Array.from({ length: 12 }, (_, k) => {
        const [from, to] = [tip(k / 12, 0.88), tip(k / 12, 1)];
        return s("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: "tick-mark" });
    });
    const hands = HANDS.map((hand) => s("line", { x1: 0, y1: 0, class: hand.name.replace(".", "-") }));
    const rim = s("circle", { cx: 0, cy: 0, r: 1, class: "rim" });
    const picture = s("svg", { viewBox: "-1.05 -1.05 2.1 2.1", role: "img", "data-wall": method }, rim, ...ticks, ...hands);
    const text = h("p", { class: "quiet" });
    const figure = h("figure", {}, h("figcaption", {}, methodName(method)), picture, text);
    function draw(): void {
        const { seconds } = get();
        const said = divisors(method).map((by, i) => {
            const { name, period, length } = HANDS[i]!;
            const turns = seconds / (period * by);
            const end = tip(turns, length);
            hands[i]!.setAttribute("x2", end.x);
            hands[i]!.setAttribute("y2", end.y);
            return t("wall.hand", { name: t(name), by: short(by), turns: short(turns, 4) });
        });
        /* The hour hand is the slowest: only while it is in its first turn do no two moments look alike. */
        const again = END / (TRAINED * divisors(method)[HANDS.length - 1]!) > 1 + 1e-6;
        said.push(t(again ? "wall.again" : "wall.unlike"));
        say(text, sentences(...said));
        picture.setAttribute("aria-label", `${methodName(method)}: ${sentences(...said)}`);
    }
    return { figure, draw };
}

export function wallClock(): { element: HTMLElement; draw(): void } {
    const dials = METHODS.map(dial);
    const slider: HTMLInputElement = h("input", {
        type: "range",
        id: "wall-seconds",
        min: 0,
        max: END,
        step: 1,
        input: () => set({ seconds: Number(slider.value) }),
    });
    const value = h("output", { for: "wall-seconds", class: "number" });
    const label = h("label", { for: "wall-seconds" }, t("wall.seconds"));
    const element = h(
        "details",
        { class: "wall", toggle: () => draw() },
        h("summary", {}, t("wall.title")),
        h("p", { class: "lead" }, t("wall.lead")),
        h("div", { class: "slide" }, label, slider, value),
        h("div", { class: "wall-dials" }, ...dials.map((one) => one.figure)),
    );
    function draw(): void {
        if (!element.open) return;
        slider.value = String(get().seconds);
        say(value, count(get().seconds));
        for (const one of dials) one.draw();
    }
    return { element, draw };
}
