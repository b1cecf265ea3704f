/* tour.ts: "What breaks at 2x, and why": six states of the views, from plain RoPE to YaRN. */
import { h, say } from "./dom";
import { fixed, short } from "./numbers";
import { frequencies, setup, unseenPairs } from "./scene";
import { get, set, type State } from "./state";
import { type Key, t } from "./text";

interface Step {
    title: Key;
    text: Key;
    /** The views that the step looks at. */
    views: string[];
    state: Partial<State>;
}

/* The model of the page: what the steps say can be measured on it. */
const shape: Partial<State> = { dim: 32, base: 10000, trained: 256, factor: 0, window: 512 };

/* What each step looks at: method, target, pair and two positions. */
type Look = [method: string, target: number, pair: number, m: number, n: number];
const looks: { views: string[]; at: Look }[] = [
    { views: ["clock", "map"], at: ["none", 256, 5, 200, 180] },
    { views: ["clock", "map"], at: ["none", 512, 9, 480, 180] },
    { views: ["clock", "waves"], at: ["linear", 512, 0, 480, 479] },
    { views: ["waves", "map"], at: ["ntk", 512, 9, 480, 180] },
    { views: ["waves", "map"], at: ["by-parts", 512, 5, 480, 180] },
    { views: ["model", "waves"], at: ["yarn", 512, 5, 480, 180] },
];
const words: [title: Key, text: Key][] = [
    ["tour.1.title", "tour.1.text"],
    ["tour.2.title", "tour.2.text"],
    ["tour.3.title", "tour.3.text"],
    ["tour.4.title", "tour.4.text"],
    ["tour.5.title", "tour.5.text"],
    ["tour.6.title", "tour.6.text"],
];
const steps: Step[] = looks.map(({ views, at: [method, target, pair, m, n] }, i) => ({
    title: words[i]![0],
    text: words[i]![1],
    views,
    state: { method, target, pair, m, n },
}));

export const STEPS = steps.length;

/** out = the views that the tour shows now; null = all. */
export function touredViews(): string[] | null {
    return steps[get().step - 1]?.views ?? null;
}

export function goTo(step: number): void {
    const found = steps[step - 1];
    set(found ? { ...shape, ...found.state, step } : { step: 0 });
}

/* The numbers in a step's sentences, as the core gives them for the model's shape. */
function numbers(step: number): Record<string, string> {
    const at = { ...setup(), headDim: 32, base: 10000, trained: 256, factor: 0, target: step === 1 ? 256 : 512 };
    const under = (method: string): typeof at => ({ ...at, method });
    const none = frequencies(under("none"));
    const pairs = none.invFreq.length;
    const unseen = unseenPairs(under("none"));
    const yarn = frequencies(under("yarn"));
    return {
        fast: short(none.wavelengths[0]!),
        slow: short(none.wavelengths[pairs - 1]!),
        pairs: String(pairs),
        unseen: String(unseen),
        known: String(pairs - unseen),
        before: short(none.invFreq[0]!),
        linear: short(frequencies(under("linear")).invFreq[0]!),
        ntk: String(unseenPairs(under("ntk"))),
        parts: String(unseenPairs(under("by-parts"))),
        same: short(frequencies(under("by-parts")).invFreq[0]!),
        factor: fixed(yarn.attentionFactor, 3),
        square: fixed(yarn.attentionFactor ** 2, 3),
    };
}

export interface Tour {
    element: HTMLElement;
    update(focus: boolean): void;
}

export function tour(): Tour {
    const number = h("span", { class: "tour-number" });
    const title = h("h2", { id: "tour-title", tabindex: -1 });
    const text = h("p", { class: "tour-text" });
    const previous = h("button", { type: "button", click: () => goTo(get().step - 1) }, t("tour.previous"));
    const next = h("button", {
        type: "button",
        class: "primary",
        id: "tour-next",
        click: () => goTo(get().step < STEPS ? get().step + 1 : 0),
    });
    const leave = h("button", { type: "button", class: "link", click: () => goTo(0) }, t("tour.leave"));
    const dots = steps.map((_, i) =>
        h("button", {
            type: "button",
            class: "dot-button",
            "aria-label": t("tour.go", { k: i + 1 }),
            click: () => goTo(i + 1),
        }, i + 1)
    );
    const element = h(
        "section",
        { class: "tour", "aria-labelledby": "tour-title" },
        h("div", { class: "tour-words" }, number, title, text),
        h(
            "div",
            { class: "tour-steps" },
            h("div", { class: "dots" }, ...dots),
            h("div", { class: "buttons" }, previous, next, leave),
        ),
    );
    element.addEventListener("keydown", (event) => {
        if (event.key === "ArrowRight" && get().step < STEPS) goTo(get().step + 1);
        else if (event.key === "ArrowLeft" && get().step > 1) goTo(get().step - 1);
        else if (event.key === "Escape") goTo(0);
        else return;
        event.preventDefault();
    });
    return {
        element,
        update(focus) {
            const { step } = get();
            const now = steps[step - 1];
            element.hidden = !now;
            if (!now) return;
            say(number, t("tour.number", { k: step, n: STEPS }));
            say(title, t(now.title));
            say(text, t(now.text, numbers(step)));
            say(next, step < STEPS ? t("tour.next") : t("tour.end"));
            previous.disabled = step === 1;
            dots.forEach((
                dot,
                i,
            ) => (i + 1 === step ? dot.setAttribute("aria-current", "step") : dot.removeAttribute("aria-current")));
            if (focus) title.focus({ preventScroll: true });
        },
    };
}
