/* state.ts: what the page shows, in one object that all views share and the address carries. */
import type { BiasKind, Profile } from "./core";
import { STEPS } from "./steps";

export type Theme = "auto" | "light" | "dark";
export type Task = "explain" | "diff" | "extend";

export interface State {
    method: string;
    factor: number; // 0 = target / trained
    base: number;
    dim: number; // channels of a head
    trained: number; // tokens
    target: number;
    pair: number;
    m: number; // position of the query
    n: number; // position of the key
    seconds: number; // that the wall clock shows
    axis: "position" | "pair"; // of the helix
    yaw: number; // degrees
    pitch: number;
    bases: boolean; // decay: other bases too
    bias: BiasKind;
    heads: number;
    head: number;
    span: number; // bias: positions on a side of the map
    task: Task;
    as: Profile;
    with: Profile;
    to: number; // tokens that extend reaches; 0 = four times the config's
    config: string;
    window: number; // the model: bytes
    text: string; // that the model reads; "" = the page's own
    reads: string; // methods that it reads it under, with commas between; "" = those of papers
    first: number; // position of the first byte of a window
    layer: number; // of the attention that is shown
    attends: number; // its head
    query: number; // byte of the text whose weights are shown
    key: number; // byte whose score with it is shown
    only: string; // views that are shown, with commas between, and nothing else; "" = the whole page
    play: boolean; // the clock's hands move from the start
    seed: number;
    step: number; // of the tour; 0 = not on it
    lang: "" | "en" | "zh"; // "" = the browser's
    theme: Theme;
}

/** The shape of the model that the page holds. */
export const defaults: Readonly<State> = {
    method: "none",
    factor: 0,
    base: 10000,
    dim: 32,
    trained: 256,
    target: 1024,
    pair: 8,
    m: 680,
    n: 333,
    seconds: 100000,
    axis: "position",
    yaw: 28,
    pitch: 18,
    bases: false,
    bias: "alibi",
    heads: 8,
    head: 0,
    span: 128,
    task: "explain",
    as: "hf-5",
    with: "llama.cpp",
    to: 0,
    config: "",
    window: 1024,
    text: "",
    reads: "",
    first: 0,
    layer: 4,
    attends: 3,
    query: 350,
    key: 3,
    only: "",
    play: false,
    seed: 1,
    step: 0,
    lang: "",
    theme: "auto",
};

const profiles = [
    "hf-5",
    "hf-4.56",
    "hf-4.55",
    "hf-4.51",
    "hf-4.43",
    "vllm",
    "vllm-2026.05",
    "sglang",
    "mlx",
    "llama.cpp",
    "reference",
];
const choices: Partial<Record<keyof State, readonly string[]>> = {
    axis: ["position", "pair"],
    bias: ["alibi", "alibi-linear", "alibi-ntk", "t5", "kerple-log", "kerple-power", "fire", "sandwich", "deberta"],
    task: ["explain", "diff", "extend"],
    as: profiles,
    with: profiles,
    lang: ["", "en", "zh"],
    theme: ["auto", "light", "dark"],
};
/** Least and most of each number; whole numbers unless listed in `fractions`. */
export const limits: Partial<Record<keyof State, readonly [number, number]>> = {
    factor: [0, 4096],
    base: [2, 1e9],
    dim: [4, 256],
    trained: [16, 1 << 20],
    target: [16, 1 << 21],
    pair: [0, 127],
    m: [0, (1 << 21) - 1],
    n: [0, (1 << 21) - 1],
    seconds: [0, 129600],
    yaw: [-180, 180],
    pitch: [-90, 90],
    heads: [1, 32],
    head: [0, 31],
    span: [16, 512],
    to: [0, 1 << 24],
    window: [64, 4096],
    first: [0, 1 << 30],
    layer: [0, 31],
    attends: [0, 31],
    query: [0, 4095],
    key: [0, 4095],
    seed: [1, 999999],
    step: [0, 6],
};
const fractions = new Set<keyof State>(["factor", "base"]);
/** A longer config or text is left out of the address. */
export const LONGEST_CONFIG = 6000;
const long = new Set<keyof State>(["config", "text"]);

/** Values that do not fit are moved to the nearest that do. */
function fit(state: State): State {
    const out: Record<string, unknown> = { ...state };
    for (const [name, [least, most]] of Object.entries(limits)) {
        const key = name as keyof State;
        const value = Number(out[key]);
        const whole = fractions.has(key) ? value : Math.round(value);
        out[key] = Number.isFinite(whole) ? Math.min(most, Math.max(least, whole)) : defaults[key];
    }
    const fitted = out as unknown as State;
    fitted.dim -= fitted.dim % 2;
    fitted.pair = Math.min(fitted.pair, fitted.dim / 2 - 1);
    fitted.m = Math.min(fitted.m, fitted.target - 1);
    fitted.n = Math.min(fitted.n, fitted.target - 1);
    fitted.head = Math.min(fitted.head, fitted.heads - 1);
    if (fitted.factor > 0) fitted.factor = Math.max(1, fitted.factor);
    return fitted;
}

/* What an address leaves out: the defaults, and on a step of the tour what the step shows. */
function startOf(step: number): State {
    return { ...defaults, ...STEPS[step - 1]?.state };
}

/** out = the state that an address carries; keys that it leaves out are those of its step, or the defaults. */
export function parseHash(hash: string): State {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const state: Record<string, unknown> = { ...startOf(Number(given.get("step"))) };
    for (const [name, text] of given) {
        if (!Object.keys(defaults).includes(name)) continue; /* not what every object has, such as constructor */
        const key = name as keyof State;
        const like = defaults[key];
        const allowed = choices[key];
        if (typeof like === "number") state[key] = Number(text);
        else if (typeof like === "boolean") state[key] = text === "1";
        else if (!allowed || allowed.includes(text)) state[key] = text;
    }
    if (!/^[a-z0-9.:+-]{1,40}$/.test(String(state.method))) state.method = defaults.method;
    return fit(state as unknown as State);
}

export function formatHash(state: State): string {
    const parts = new URLSearchParams();
    const start = startOf(state.step);
    for (const key of Object.keys(defaults) as (keyof State)[]) {
        const value = state[key];
        if (value === (key === "step" ? defaults : start)[key]) continue;
        if (long.has(key) && String(value).length > LONGEST_CONFIG) continue;
        parts.set(key, typeof value === "boolean" ? (value ? "1" : "0") : String(value));
    }
    return parts.toString();
}

type Listener = (state: State, changed: Set<keyof State>) => void;

let state: State = parseHash(location.hash);
const listeners: Listener[] = [];
let written = location.hash.replace(/^#/, "");
let timer = 0;

export function get(): Readonly<State> {
    return state;
}

function change(next: State): void {
    const fitted = fit(next);
    const changed = new Set((Object.keys(defaults) as (keyof State)[]).filter((key) => fitted[key] !== state[key]));
    if (!changed.size) return;
    state = fitted;
    for (const listener of listeners) listener(state, changed);
    clearTimeout(timer);
    timer = window.setTimeout(writeAddress, 150); /* browsers refuse an address that changes with every pixel */
}

export function set(part: Partial<State>): void {
    change({ ...state, ...part });
}

export function subscribe(listener: Listener): void {
    listeners.push(listener);
}

export function writeAddress(): void {
    clearTimeout(timer);
    const hash = formatHash(state);
    if (hash === written) return;
    written = hash;
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

export function address(): string {
    writeAddress();
    return location.href;
}

window.addEventListener("hashchange", () => {
    written = location.hash.replace(/^#/, "");
    change(parseHash(location.hash));
});
