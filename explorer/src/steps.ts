/* steps.ts: the states of the six steps of the tour, from plain RoPE to YaRN. */

/** The knobs that a step sets. */
export interface StepState {
    dim: number;
    base: number;
    trained: number;
    factor: number;
    window: number;
    method: string;
    target: number;
    pair: number;
    m: number;
    n: number;
}
export interface Step {
    /** The views that the step looks at. */
    views: string[];
    state: StepState;
}

/* The model of the page: what the steps say can be measured on it. */
const shape = { dim: 32, base: 10000, trained: 256, factor: 0, window: 512 };

/* What each step looks at: method, target, pair and two positions. */
type Look = [method: string, target: number, pair: number, m: number, n: number];
const looks: { views: string[]; at: Look }[] = [
    { views: ["clock", "map"], at: ["none", 256, 5, 200, 180] },
    { views: ["clock", "map"], at: ["none", 512, 9, 480, 100] },
    { views: ["clock", "waves"], at: ["linear", 512, 0, 480, 479] },
    { views: ["waves", "map"], at: ["ntk", 512, 9, 480, 100] },
    { views: ["waves", "map"], at: ["by-parts", 512, 5, 480, 100] },
    { views: ["model", "waves"], at: ["yarn", 512, 5, 480, 100] },
];

export const STEPS: readonly Step[] = looks.map(({ views, at: [method, target, pair, m, n] }) => ({
    views,
    state: { ...shape, method, target, pair, m, n },
}));
