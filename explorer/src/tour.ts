/* tour.ts: "What breaks at 2x, and why": six states of the views, from plain RoPE to YaRN. */
import { h, say } from "./dom";
import { fixed, short } from "./numbers";
import { excessAt, frequencies, setup, unseenPairs } from "./scene";
import { get, set } from "./state";
import { STEPS } from "./steps";
import { type Key, t } from "./text";

const words: readonly [title: Key, text: Key][] = [
    ["tour.1.title", "tour.1.text"],
    ["tour.2.title", "tour.2.text"],
    ["tour.3.title", "tour.3.text"],
    ["tour.4.title", "tour.4.text"],
    ["tour.5.title", "tour.5.text"],
    ["tour.6.title", "tour.6.text"],
];

/** out = the views that the tour shows now; null = all. */
export function touredViews(): string[] | null {
    return STEPS[get().step - 1]?.views ?? null;
}

export function goTo(step: number): void {
    const found = STEPS[step - 1];
    set(found ? { ...found.state, step } : { step: 0 });
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
        over: short(100 * Math.max(...excessAt(under("ntk"), at.target - 1)), 2),
        full: short(100 * Math.max(...excessAt(under("none"), at.target - 1)), 2),
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
        click: () => goTo(get().step < STEPS.length ? get().step + 1 : 0),
    });
    const leave = h("button", { type: "button", class: "link", click: () => goTo(0) }, t("tour.leave"));
    const dots = STEPS.map((_, i) =>
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
        if (event.key === "ArrowRight" && get().step < STEPS.length) goTo(get().step + 1);
        else if (event.key === "ArrowLeft" && get().step > 1) goTo(get().step - 1);
        else if (event.key === "Escape") goTo(0);
        else return;
        event.preventDefault();
    });
    return {
        element,
        update(focus) {
            const { step } = get();
            const now = words[step - 1];
            element.hidden = !now;
            if (!now) return;
            say(number, t("tour.number", { k: step, n: STEPS.length }));
            say(title, t(now[0]));
            say(text, t(now[1], numbers(step)));
            say(next, step < STEPS.length ? t("tour.next") : t("tour.end"));
            previous.disabled = step === 1;
            dots.forEach((
                dot,
                i,
            ) => (i + 1 === step ? dot.setAttribute("aria-current", "step") : dot.removeAttribute("aria-current")));
            if (focus) title.focus({ preventScroll: true });
        },
    };
}
