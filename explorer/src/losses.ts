/* losses.ts: what the page's model said about the text: kept when the page is built anew in another language. */
import { type HiddenKey, type MethodLoss, type Model, openModel, sampleText } from "./core";
import { get } from "./state";

/** Those that the model may read under; the first are read where nobody chose. */
export const METHODS = ["none", "linear", "ntk", "by-parts", "yarn", "clipped", "dca"];
const USUAL = METHODS.slice(0, 5);
export const BUCKETS = 16;

export interface Session {
    text: string;
    methods: string[];
    losses: Map<string, MethodLoss>;
    keys: HiddenKey[];
    progress: number; // 0 .. 1
    busy: boolean;
    error: string;
    /** Window of the losses, bytes. */
    window: number;
    /** Perplexities of the same text, window and methods with all positions moved by `by`. */
    moved: { by: number; perplexity: Map<string, number> };
}

/** What is read where nobody gave a text: the beginning of a header of the library. */
export const SAMPLE = sampleText();

const NONE = "-";
/** out = the methods that the state asks for; the usual ones if it names none that is known. */
export function methodsAsked(): string[] {
    const names = get().reads.split(",");
    const known = METHODS.filter((method) => names.includes(method));
    return known.length || names[0] === NONE ? known : USUAL.slice();
}
/** out = how the state names methods. */
export function nameMethods(methods: string[]): string {
    return methods.join() === USUAL.join() ? "" : methods.join(",") || NONE;
}

export function textAsked(): string {
    return get().text || SAMPLE;
}

export const session: Session = {
    text: textAsked(),
    methods: methodsAsked(),
    losses: new Map(),
    keys: [],
    progress: 0,
    busy: false,
    error: "",
    window: 0,
    moved: { by: 0, perplexity: new Map() },
};

let model: Promise<Model> | null = null;
export function theModel(): Promise<Model> {
    return (model ??= openModel());
}

let changed: () => void = () => {};
/** The view that shows the session. */
export function watch(view: () => void): void {
    changed = view;
}

let run = 0;

/** out = bytes of the text as the model reads them. */
export function bytesOf(text: string): number {
    return new TextEncoder().encode(text).length;
}

/* Runs one task of the model, after ending the one before.  current(): the task has not been ended. */
async function task(work: (open: Model, current: () => boolean) => Promise<void>): Promise<void> {
    const mine = ++run;
    const current = (): boolean => mine === run;
    try {
        const open = await theModel();
        if (!current()) return;
        if (session.busy) open.stop();
        Object.assign(session, { busy: true, progress: 0, error: "" });
        changed();
        await work(open, current);
    } catch (error) {
        const text = (error as Error).message;
        if (current() && text !== "stopped") session.error = text;
    }
    if (!current()) return;
    session.busy = false;
    changed();
}

/* The same windows with the first byte of each at another position. */
async function measureMoved(open: Model, current: () => boolean): Promise<void> {
    const by = get().first;
    session.moved = { by, perplexity: new Map() };
    if (!by) return;
    await open.lossByPosition(
        session.text,
        { methods: session.methods, context: session.window, buckets: BUCKETS, first: by },
        undefined,
        (loss) => {
            if (!current()) return;
            session.moved.perplexity.set(loss.method, loss.perplexity);
            changed();
        },
    );
}

/** Measures what is there again, with all positions moved as the state says. */
export function move(): Promise<void> {
    return task(measureMoved);
}

/** Measures the text anew. */
export function measure(window: number): Promise<void> {
    return task(async (open, current) => {
        session.window = Math.min(window, bytesOf(session.text) - 1);
        session.losses.clear();
        session.moved = { by: 0, perplexity: new Map() };
        await open.lossByPosition(
            session.text,
            { methods: session.methods, context: session.window, buckets: BUCKETS },
            (done, all) => {
                if (!current()) return;
                session.progress = done / all;
                changed();
            },
            (loss) => {
                if (!current()) return;
                session.losses.set(loss.method, loss);
                changed();
            },
        );
        if (current()) await measureMoved(open, current);
    });
}

/** Hides a key in the text and asks for it under every method. */
export function hide(window: number, seed: number): Promise<void> {
    return task(async (open, current) => {
        const keys = await open.hideKey(session.text, session.methods, Math.min(window, bytesOf(session.text)), seed);
        if (current()) session.keys = keys;
    });
}

export async function stop(): Promise<void> {
    if (session.busy) (await theModel()).stop();
}
