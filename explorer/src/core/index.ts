/* core/index.ts: the C core of Gyre in a page, as WebAssembly.  Views use this file alone.
 *
 *     loadCore()   the numbers behind the views: frequencies, angles, decay, ramp, biases, one rotation.  Synchronous; they
 *                  run on the page's thread, 64 pairs x 4096 positions within a frame.
 *     runCommand() explain, diff, extend and every other subcommand, with the text that the command prints.
 *     openModel()  the bundled model, read in a worker: loss by position, a hidden key.
 *
 * A typed array marked `view` below lies in the memory of the core: it is valid until the next call of any function of the
 * core.  All others are copies that the caller may keep.
 * Every function throws a CoreError with the core's own text ("factor: must be at least 1 (0.5)") for wrong arguments. */

export { CoreError } from "./core_error";
export { loadCore } from "./core_numbers";
export { runCommand, explain, diff, extend } from "./core_command";
export { openModel } from "./core_model";
export { loadConfigs, sampleText } from "./assets";

/** A rotation and how it is stretched; all views share one. */
export interface Setup {
    /** A method as `gyre eval --methods` takes it, with or without a number and modifiers: "none", "linear", "ntk:4",
     * "dynamic", "by-parts", "yarn+logn", "base:500000".  Names without a number take `factor`. */
    method: string;
    /** How far a method without its own number stretches, at least 1; 0 = as `gyre eval`: target / trained, at least 1.
     * Methods for far pairs and dynamic-yarn fit themselves to `target` and ignore it. */
    factor: number;
    /** Of the frequencies, above 1; theta[i] = base^(-2 i / headDim). */
    base: number;
    /** Channels of a head, even; it has headDim / 2 pairs. */
    headDim: number;
    /** Tokens that the model was trained on, at least 1. */
    trained: number;
    /** Tokens in use, at least 1: the length that dynamic methods follow and that views reach. */
    target: number;
    /** Revolutions over `trained` above which by-parts and yarn keep a pair, and below which they divide it; absent = 32, 1. */
    betaFast?: number;
    betaSlow?: number;
}

/** How an encoding or a method looks in every figure of Gyre. */
export interface Look {
    name: string;
    /** #rrggbb, on a light and on a dark ground. */
    colour: { light: string; dark: string };
    /** An SVG path from -1 to 1. */
    symbol: string;
}

export interface MethodInfo extends Look {
    /** As in Setup.method, without a number: "ntk". */
    name: string;
    /** What the number after the colon is: "factor" may be left out, "base" and "past" may not, "window" is in tokens,
     * "pairs" are those that are clipped.  "slopes": the method stretches ALiBi and no rotation. */
    number: "factor" | "base" | "past" | "window" | "pairs" | "slopes" | "none";
    /** The frequencies depend on the length in use. */
    followsLength: boolean;
    /** Only far pairs rotate less (rerope, leaky, self-extend, dca): frequencies are those of "none". */
    far: boolean;
}

export interface Frequencies {
    /** [pairs] radians per position at length `target`. */
    invFreq: Float64Array;
    /** [pairs] positions per revolution, 2 pi / invFreq; Infinity for a pair that stands still. */
    wavelengths: Float64Array;
    /** [pairs] the same for method "none": what the model was trained with. */
    trainedInvFreq: Float64Array;
    trainedWavelengths: Float64Array;
    /** Factor of cos and sin; its square scales scores.  1 for most methods. */
    attentionFactor: number;
    /** The factor in use, with 0 resolved. */
    factor: number;
}

export interface Angles {
    /** [pairs][count] radians in -pi .. pi by which pair i is turned at position from + c * step.  view. */
    angle: Float32Array;
    /** [pairs] the first position whose angle reaches that of position `trained` under "none", which training did not show;
     * Infinity if the pair made a whole revolution in training, or if the method keeps it within what was seen. */
    unseenFrom: Float64Array;
    pairs: number;
    count: number;
    from: number;
    step: number;
}

/** A score as a sum of bars, one for each pair: bars[i] = amplitude[i] cos((m - n) theta_i + phase[i]). */
export interface Score {
    /** [pairs] of the two vectors, each rotated at its position; scaled as attention scales scores. */
    bars: Float64Array;
    amplitude: Float64Array;
    /** radians */
    phase: Float64Array;
}

export interface Decay {
    /** [n] mean over pairs of cos(angle) at each distance: q . k of equal vectors of ones, over headDim / 2. */
    mean: Float64Array;
    /** [n] Su's bound: the mean over j = 1 .. pairs of |sum of e^(i angle) of the first j pairs|, over pairs. */
    bound: Float64Array;
}

export interface Ramp {
    /** [pairs] 1 = kept as trained, 0 = divided by the factor, between = blended. */
    kept: Float64Array;
    /** How many pairs the core counts as each. */
    parts: { kept: number; blended: number; divided: number };
    /** [pairs] revolutions within `trained`, under "none". */
    revolutions: Float64Array;
}

export type BiasKind =
    | "alibi"
    | "alibi-linear"
    | "alibi-ntk"
    | "t5"
    | "kerple-log"
    | "kerple-power"
    | "fire"
    | "sandwich"
    | "deberta";
/** Zero or absent = the paper's. */
export interface BiasParams {
    heads?: number; // default 8
    /** T5: rows (32) and the distance that all farther ones share (128); DeBERTa: log buckets each side (256) and 512. */
    buckets?: number;
    maxDistance?: number;
    /** T5: half of the buckets for keys after the query. */
    bidirectional?: boolean;
    /** KERPLE: -r1 ln(1 + r2 d) or -r1 d^r2; defaults 1 and 0.5. */
    r1?: number;
    r2?: number;
    /** Sandwich: channels (128).  FIRE: seed of an untrained network (1). */
    sandwichDim?: number;
    seed?: number;
    /** alibi-linear, alibi-ntk: how far slopes are stretched (4). */
    factor?: number;
    /** T5: [buckets][heads] trained numbers; absent = an example that falls with the bucket. */
    table?: Float32Array;
}
export interface Bias {
    /** [heads][n][n] added to the score of query m and key k; NaN where there is none ("deberta": a product with vectors). */
    map: Float32Array;
    /** [n][n] the row of the trained table that query m and key k share; null where the scheme has no buckets. */
    bucket: Int32Array | null;
    heads: number;
    n: number;
}

/** The numbers of the core. */
export interface Core {
    version(): string;
    methods(): MethodInfo[];
    look(name: string): Look;
    /** [n] the colours of angles -pi .. pi as pixels of a canvas; resultant: as of `resultant` below. */
    wheel(resultant: number, n: number): Uint32Array;
    /** The colour of an angle so far past the trained arc, and how strongly it is shown, 0 .. 1. */
    excessColour(excess: number): { colour: string; strength: number };
    frequencies(setup: Setup): Frequencies;
    /** Angles of all pairs at positions from, from + step, ... (count of them); step defaults to 1. */
    angles(setup: Setup, from: number, count: number, step?: number): Angles;
    /** [pairs][count] how far the angle at each distance is past the arc that training showed, in shares of the arc; 0 where
     * training showed it.  view. */
    excess(setup: Setup, from: number, count: number, step?: number): Float32Array;
    /** [pairs] how alike the angles over `width` distances point: 1 = alike, 0 = the pair goes round within them. */
    resultant(setup: Setup, width: number): Float64Array;
    /** The score of a query [headDim] at position m with a key [headDim] at n. */
    score(setup: Setup, q: ArrayLike<number>, k: ArrayLike<number>, m: number, n: number): Score;
    decay(setup: Setup, distances: ArrayLike<number>): Decay;
    ramp(setup: Setup): Ramp;
    /** kind of bias over queries 0 .. n - 1 and keys 0 .. n - 1; n at most 512. */
    bias(kind: BiasKind, params: BiasParams, n: number): Bias;
    /** out = a head's vector [headDim] rotated at a position; pairs are (i, i + headDim / 2). */
    rotate(setup: Setup, vector: ArrayLike<number>, position: number): Float32Array;
}

/** What a run of the command printed. */
export interface CommandResult {
    /** Exit status: 0 done, 1 failed, 2 wrong usage; diff: 3 different, 4 refused. */
    status: number;
    out: string;
    err: string;
    /** Files that the run wrote, by path. */
    written: Map<string, Uint8Array>;
}
/** Names as `--as` takes them. */
export type Profile =
    | "hf-5"
    | "hf-4.56"
    | "hf-4.55"
    | "hf-4.51"
    | "hf-4.43"
    | "vllm"
    | "vllm-2026.05"
    | "sglang"
    | "mlx"
    | "llama.cpp"
    | "reference";
/** A config.json or a GGUF under the name that the command prints, or "models/rope", which the page holds. */
export type ModelFile = { name: string; data: string | Uint8Array } | "models/rope";

export interface ExplainOptions {
    as?: Profile;
    length?: number; // tokens in use
    more?: string[]; // more arguments, as on a command line: ["--json"]
}
export interface DiffOptions {
    as?: Profile;
    with?: Profile; // of the right side; needed where that is left out
    length?: number;
    more?: string[];
}
export interface ExtendOptions {
    to: number; // tokens to reach
    as?: Profile;
    more?: string[]; // ["--methods=yarn", "--method=yarn", "--write=config.new.json"]
}

/** The bundled model. */
export interface ModelInfo {
    name: string; // "models/rope"
    parameters: number;
    layers: number;
    heads: number;
    headDim: number;
    base: number;
    trained: number; // tokens
}
export interface LossOptions {
    methods: string[]; // as in Setup.method, with numbers where wanted: ["none", "linear", "ntk:4", "yarn"]
    /** Bytes of a window, at most the text's bytes - 1; absent = that.  Windows follow each other by half a window. */
    context?: number;
    /** Equal parts of the window over which losses are averaged; absent = 16. */
    buckets?: number;
    /** Windows at most, spread over the text; absent = all. */
    windows?: number;
    /** The position of the first byte of every window; absent = 0. */
    first?: number;
}
/** What one head does with a text that is read as one window. */
export interface HeadWeights {
    method: string;
    /** Bytes of the text. */
    n: number;
    /** [n][n] weight of each query (row) on each key. */
    weights: Float32Array;
    /** [n][headDim] queries and keys before they rotate. */
    q: Float32Array;
    k: Float32Array;
}
export interface MethodLoss {
    method: string;
    /** [buckets] mean nats per byte of the predictions in each part of the window. */
    byPosition: Float64Array;
    /** As `gyre eval` prints it: exp(nats) over the scored half of each window. */
    perplexity: number;
    nats: number;
    windows: number;
    scored: number;
}
export interface HiddenKey {
    method: string;
    /** The window that was read: text bytes, and in it the marker, digits and end of the key and of the question. */
    window: Uint8Array;
    /** Where the first digit of the hidden key and of its question stand in the window. */
    keyAt: number;
    askedAt: number;
    key: string; // four digits
    answer: string; // the likeliest next bytes, given the right ones before; not a digit = "?"
    found: boolean; // all four are right
}
export interface PasskeyRate {
    method: string;
    trials: number;
    right: number;
}
/** done of all tokens, over the whole call. */
export type Progress = (done: number, all: number) => void;

/** The model runs in a worker; calls are answered in order. */
export interface Model {
    info: ModelInfo;
    /** onMethod gets each method's result as soon as it is there. */
    lossByPosition(
        text: string | Uint8Array,
        options: LossOptions,
        onProgress?: Progress,
        onMethod?: (loss: MethodLoss) => void,
    ): Promise<MethodLoss[]>;
    /** Hides one key in a window of `context` bytes of the text and asks for it at the end, under each method. */
    hideKey(text: string | Uint8Array, methods: string[], context: number, seed: number): Promise<HiddenKey[]>;
    /** The attention weights of a head, under each method. */
    attention(text: string | Uint8Array, methods: string[], layer: number, head: number): Promise<HeadWeights[]>;
    /** Share of keys found, as `gyre passkey` counts them. */
    passkey(
        text: string | Uint8Array,
        options: { methods: string[]; context: number; trials?: number; seed?: number },
        onProgress?: Progress,
    ): Promise<PasskeyRate[]>;
    /** Ends what is running: its promise rejects with CoreError("stopped").  The model can be used again. */
    stop(): void;
    close(): void;
}
