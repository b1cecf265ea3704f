/* knobs.ts: the bar of knobs that all views share. */
import { onlyViews } from "./chapters";
import { h, say } from "./dom";
import { count, short, tokens, typed } from "./numbers";
import { frequencies, methods, MODIFIERS, setup, splitMethod } from "./scene";
import { get, limits, set, type State } from "./state";
import { type Key, t } from "./text";
import { picker } from "./view";

type NumberKey = "base" | "trained" | "target" | "pair" | "factor";

interface Dial {
    element: HTMLElement;
    update(): void;
}

interface DialSpec {
    key: NumberKey;
    label: Key;
    /** The slider's whole steps, and the values that they stand for. */
    steps: () => [number, number];
    value: (step: number) => number;
    stepOf: (value: number) => number;
    format: (value: number) => string;
    spoken: (value: number) => string;
    unit: () => string;
}

/* A number that can be typed or slid. */
function dial(spec: DialSpec): Dial {
    const id = `knob-${spec.key}`;
    let typing = false; /* from the first character on until it is taken: what is drawn meanwhile leaves the text alone */
    const input = h("input", {
        id,
        type: "text",
        inputmode: "decimal",
        autocomplete: "off",
        spellcheck: "false",
        input: () => (typing = true),
        blur: () => {
            typing = false;
            update();
        },
        change: () => {
            typing = false;
            const value = input.value.trim() === spec.format(0) ? 0 : typed(input.value);
            const [least, most] = limits[spec.key]!;
            if (Number.isFinite(value) && value >= least && value <= most) set({ [spec.key]: value } as Partial<State>);
            update();
        },
    });
    const slider: HTMLInputElement = h("input", {
        type: "range",
        step: 1,
        "aria-label": t("knob.slider", { name: t(spec.label) }),
        input: () => set({ [spec.key]: spec.value(Number(slider.value)) } as Partial<State>),
    });
    const unit = h("span", { class: "unit" });
    function update(): void {
        const value = get()[spec.key];
        const [least, most] = spec.steps();
        if (slider.min !== String(least)) slider.min = String(least);
        if (slider.max !== String(most)) slider.max = String(most);
        slider.value = String(spec.stepOf(value));
        slider.setAttribute("aria-valuetext", spec.spoken(value));
        const text = spec.format(value);
        if (!typing && input.value !== text && (document.activeElement !== input || typed(input.value) !== value)) {
            input.value = text;
        }
        say(unit, spec.unit());
    }
    const element = h(
        "div",
        { class: `knob knob-${spec.key}` },
        h("label", { for: id }, t(spec.label)),
        h("div", { class: "entry" }, input, unit),
        slider,
    );
    return { element, update };
}

const octave = (x: number): number => Math.round(Math.log2(x));
const twoDigits = (x: number): number => Number(x.toPrecision(2));

function dials(): Dial[] {
    const lengths = {
        value: (step: number) => 2 ** step,
        stepOf: octave,
        format: tokens,
        spoken: (value: number) => t("unit.tokens", { n: count(value) }),
    };
    return [
        dial({ key: "trained", label: "knob.trained", steps: () => [4, 20], unit: () => t("unit.tok"), ...lengths }),
        dial({
            key: "target",
            label: "knob.target",
            steps: () => [4, 21],
            ...lengths,
            unit: () => `= ${short(get().target / get().trained)}×`,
        }),
        dial({
            key: "factor",
            label: "knob.factor",
            steps: () => [-1, 24],
            value: (step) => (step < 0 ? 0 : twoDigits(2 ** (step / 4))),
            stepOf: (value) => (value === 0 ? -1 : Math.min(24, Math.round(4 * Math.log2(value)))),
            format: (value) => (value === 0 ? t("knob.factor.auto") : short(value, 4)),
            spoken: (value) => (value === 0 ? t("knob.factor.auto") : short(value)),
            unit: () => `= ${short(frequencies(setup()).factor)}×`,
        }),
        dial({
            key: "base",
            label: "knob.base",
            steps: () => [20, 80],
            value: (step) => twoDigits(10 ** (step / 10)),
            stepOf: (value) => Math.min(80, Math.max(20, Math.round(10 * Math.log10(value)))),
            format: (value) => (value >= 1e7 ? value.toExponential().replace("+", "") : short(value, 6)),
            spoken: (value) => short(value, 6),
            unit: () => "",
        }),
        dial({
            key: "pair",
            label: "knob.pair",
            steps: () => [0, get().dim / 2 - 1],
            value: (step) => step,
            stepOf: (value) => value,
            format: String,
            spoken: (value) => t("knob.pair.of", { pair: value, last: get().dim / 2 - 1 }),
            unit: () => t("knob.pair.last", { last: get().dim / 2 - 1 }),
        }),
    ];
}

/** Shapes that people know.  "page" is the model in this page. */
const shapes: Record<string, { name: string; shape: Pick<State, "dim" | "base" | "trained"> }> = {
    page: { name: "", shape: { dim: 32, base: 10000, trained: 256 } },
    llama2: { name: "Llama 2 7B", shape: { dim: 128, base: 10000, trained: 4096 } },
    llama3: { name: "Llama 3 8B", shape: { dim: 128, base: 500000, trained: 8192 } },
    qwen: { name: "Qwen2.5 7B", shape: { dim: 128, base: 1000000, trained: 32768 } },
    paper: { name: "d = 8", shape: { dim: 8, base: 10000, trained: 64 } },
};

function shapeOf(state: Readonly<State>): string {
    const fits = ([, { shape }]: [string, (typeof shapes)[string]]): boolean =>
        shape.dim === state.dim && shape.base === state.base && shape.trained === state.trained;
    return Object.entries(shapes).find(fits)?.[0] ?? "own";
}

function choose(name: string): void {
    const found = shapes[name];
    if (!found) return;
    const target = 4 * found.shape.trained;
    set({
        ...found.shape,
        target,
        factor: 0,
        pair: Math.floor(found.shape.dim / 4),
        m: Math.round(target * 0.6),
        n: Math.round(target * 0.53),
    });
}

const METHOD_NAMES: Record<string, Key> = {
    none: "method.none",
    linear: "method.linear",
    ntk: "method.ntk",
    "ntk-mixed": "method.ntk-mixed",
    llama3: "method.llama3",
    dynamic: "method.dynamic",
    "by-parts": "method.by-parts",
    "by-parts-paper": "method.by-parts-paper",
    yarn: "method.yarn",
    "dynamic-yarn": "method.dynamic-yarn",
    clipped: "method.clipped",
    "clipped-hard": "method.clipped-hard",
    dca: "method.dca",
};
const MODIFIER_NAMES: Record<(typeof MODIFIERS)[number], Key> = {
    "": "modifier.none",
    "+clipped": "method.clipped",
    "+clipped-hard": "method.clipped-hard",
    "+resonance": "modifier.resonance",
};

/** out = a method's name for people: "YaRN". */
export function methodName(method: string): string {
    const name = method.replace(/[:+].*/, "");
    const key = METHOD_NAMES[name];
    return key ? t(key) + method.slice(name.length) : method;
}

export interface Knobs {
    element: HTMLElement;
    update(): void;
    complain(text: string): void;
}

export function knobs(): Knobs {
    const all = dials();
    const listed = methods().map((m) => m.name);
    const method = picker(
        t("knob.method"),
        "knob-method",
        listed.map((name) => [name, methodName(name)]),
        (value) => set({ method: value + splitMethod(get().method)[1] }),
    );
    const modifier = picker(
        t("knob.modifier"),
        "knob-modifier",
        MODIFIERS.map((name) => [name, t(MODIFIER_NAMES[name])]),
        (value) => set({ method: splitMethod(get().method)[0] + value }),
    );
    const shape = picker(
        t("knob.shape"),
        "knob-shape",
        [...Object.entries(shapes).map(([id, { name }]): [string, string] => [id, name || t("knob.shape.page")]), [
            "own",
            t("knob.shape.own"),
        ]],
        choose,
    );
    const dim = picker(
        t("knob.dim"),
        "knob-dim",
        [8, 16, 32, 64, 80, 96, 128, 256].map((d) => [String(d), String(d)]),
        (value) => set({ dim: Number(value) }),
    );
    const alert = h("p", { class: "alert", role: "alert" });
    const summary = h("summary", { class: "knob-summary" });
    const narrow = matchMedia("(max-width: 760px)");
    const panel = h(
        "details",
        { open: !narrow.matches && !onlyViews(), class: "knob-panel" },
        summary,
        h("div", { class: "knob-grid" }, shape.element, method.element, modifier.element, ...all.map((one) => one.element), dim.element),
    );
    narrow.addEventListener("change", () => (panel.open = !narrow.matches && !onlyViews()));
    const element = h("div", { class: "knobs", role: "region", "aria-label": t("knob.bar") }, panel, alert);

    function keep(list: HTMLSelectElement, value: string, name: string): void {
        if (![...list.options].some((option) => option.value === value)) list.append(h("option", { value }, name));
        list.value = value;
    }
    function update(): void {
        const state = get();
        for (const one of all) one.update();
        const [name, more] = splitMethod(state.method);
        keep(method.list, name, methodName(name));
        keep(modifier.list, more, more);
        keep(dim.list, String(state.dim), String(state.dim));
        shape.list.value = shapeOf(state);
        const factor = frequencies(setup()).factor;
        say(
            summary,
            t("knob.summary", {
                method: methodName(state.method),
                factor: short(factor),
                trained: tokens(state.trained),
                target: tokens(state.target),
                base: short(state.base, 6),
                pair: state.pair,
            }),
        );
    }
    return { element, update, complain: (text) => say(alert, text) };
}
