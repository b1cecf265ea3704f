/* attention.ts: what one head of the page's model does with the beginning of the reader's text, with and without YaRN. */
import { type HeadWeights, type Model, openModel, type Score } from "./core";
import { bytesOf, session } from "./losses";
import { theCore } from "./scene";
import { get } from "./state";

/** The methods whose weights are shown, and how much of the text: more than the model was trained on. */
export const SHOWN = ["none", "yarn"] as const;
export const READ = 384;
export const LAYERS = 5;
export const HEADS = 4;
export const TRAINED = 256;

export interface Attending {
    key: string; // of what was read
    /** What each byte of the text is shown as: a character at its first byte, "" at the others. */
    letters: string[];
    heads: HeadWeights[];
}

/* A model of its own: measuring losses takes seconds, and ends what waits behind it when another begins. */
let reader: Promise<Model> | null = null;
let now: Attending | null = null;
let wanted = "";
let failure = "";

function lettersOf(bytes: Uint8Array): string[] {
    const letters: string[] = [];
    for (const letter of new TextDecoder().decode(bytes)) {
        letters.push(letter, ...Array<string>(Math.max(0, bytesOf(letter) - 1)).fill(""));
    }
    return letters.slice(0, bytes.length);
}

/** out = what is known of the text, layer and head of the state; null until it was read. */
export function attending(): Attending | null {
    return now;
}
export function attendingFailure(): string {
    return failure;
}

/** Reads what the state asks for, if that is not known, and calls back. */
export async function attend(changed: () => void): Promise<void> {
    const bytes = new TextEncoder().encode(session.text).slice(0, READ);
    const layer = Math.min(LAYERS - 1, get().layer);
    const head = Math.min(HEADS - 1, get().attends);
    const key = `${layer} ${head} ${new TextDecoder().decode(bytes)}`;
    if (key === wanted || bytes.length < 2) return;
    wanted = key;
    failure = "";
    try {
        const heads = await (await (reader ??= openModel())).attention(bytes, [...SHOWN], layer, head);
        if (key !== wanted) return;
        now = { key, letters: lettersOf(bytes), heads };
    } catch (error) {
        if (key !== wanted) return;
        failure = (error as Error).message;
    }
    changed();
}

/** out = the score of query token i, at position m, with key token j, at n, under method number `which`. */
export function scoreOf(of: Attending, which: number, i: number, j: number, m: number, n: number): Score {
    const { method, q, k, n: length } = of.heads[which]!;
    const dim = q.length / length;
    const setup = { method, factor: 0, base: 10000, headDim: dim, trained: TRAINED, target: length };
    return theCore().score(setup, q.subarray(i * dim, (i + 1) * dim), k.subarray(j * dim, (j + 1) * dim), m, n);
}

/** out = weights[0 .. i] of query token i under method number `which`. */
export function weightsOf(of: Attending, which: number, i: number): Float32Array {
    const { weights, n } = of.heads[which]!;
    return weights.subarray(i * n, i * n + i + 1);
}

/** out = the share of a query's weight on keys that are the trained length or more before it. */
export function farShare(weights: Float32Array): number {
    const first = weights.length - TRAINED;
    return first > 0 ? weights.subarray(0, first).reduce((sum, w) => sum + w, 0) : 0;
}
