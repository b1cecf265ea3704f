/* model_engine.ts: the bundled model in one instance of the module: opens it, measures it.  It runs in a worker. */
import { CoreError } from "./core_error";
import { Assets, instantiate, Instance } from "./core_instance";
import type { HeadWeights, HiddenKey, LossOptions, MethodLoss, ModelInfo, PasskeyRate, Progress } from "./index";

const NAME = "models/rope", DOUBLE = 8, FLOAT = 4, DEFAULT_BUCKETS = 16, DEFAULT_TRIALS = 104, DIGITS = 4;

/** out = text as bytes; the model reads bytes. */
function bytesOf(text: string | Uint8Array): Uint8Array {
    return typeof text === "string" ? new TextEncoder().encode(text) : text;
}

export class ModelEngine {
    readonly info: ModelInfo;
    private core: Instance;
    private done = 0;
    private report: (done: number) => void = () => {};

    constructor(assets: Assets) {
        this.core = instantiate(assets, new Map(), [], (tokens) => this.report((this.done += tokens)));
        this.scratch(() => this.core.check(this.core.c.explorer_model_open(this.core.holdText(NAME))));
        const [parameters, layers, heads, headDim, base, trained] = [0, 1, 2, 3, 4, 5].map((which) =>
            this.core.c.explorer_model_number(which));
        this.info = { name: NAME, parameters, layers, heads, headDim, base, trained };
    }

    lossByPosition(text: string | Uint8Array, options: LossOptions, onProgress?: Progress,
        onMethod?: (loss: MethodLoss) => void): MethodLoss[] {
        const bytes = bytesOf(text), context = options.context ?? bytes.length - 1;
        const stride = Math.floor(context / 2), fitting = Math.floor((bytes.length - 1 - context) / stride) + 1;
        const windows = options.windows ? Math.min(options.windows, fitting) : fitting;
        this.track(windows * context * options.methods.length, onProgress);
        return options.methods.map((method) => {
            const loss = this.loss(bytes, method, context, options);
            onMethod?.(loss);
            return loss;
        });
    }

    private loss(bytes: Uint8Array, method: string, context: number, options: LossOptions): MethodLoss {
        const buckets = options.buckets ?? DEFAULT_BUCKETS;
        return this.scratch(() => {
            const text = this.core.holdBytes(bytes), by = this.core.hold(buckets * DOUBLE), out = this.core.hold(4 * DOUBLE);
            this.core.c.explorer_move(options.first ?? 0);
            this.core.check(this.core.c.explorer_evaluate(text, bytes.length, this.core.holdText(method), context,
                options.windows ?? 0, buckets, by, out));
            const [nats, windows, scored, perplexity] = this.core.doubles(out, 4);
            return { method, byPosition: this.core.doubles(by, buckets).slice(), nats, windows, scored, perplexity };
        });
    }

    hideKey(text: string | Uint8Array, methods: string[], context: number, seed: number): HiddenKey[] {
        const bytes = bytesOf(text);
        return methods.map((method) => this.scratch(() => {
            const at = this.core.holdBytes(bytes), memory = this.core.hold(context);
            const out = this.core.hold(DOUBLE), answered = this.core.hold(DOUBLE);
            this.core.check(this.core.c.explorer_hide_key(at, bytes.length, this.core.holdText(method), context, seed, memory,
                out, answered));
            const [keyAt, askedAt] = this.core.integers(out, 2);
            const window = new Uint8Array(this.core.c.memory.buffer, memory, context).slice();
            const digits = new Uint8Array(this.core.c.memory.buffer, answered, DIGITS);
            const key = String.fromCharCode(...window.subarray(askedAt, askedAt + DIGITS));
            const answer = String.fromCharCode(...digits);
            return { method, window, keyAt, askedAt, key, answer, found: key === answer };
        }));
    }

    attention(text: string | Uint8Array, methods: string[], layer: number, head: number): HeadWeights[] {
        const bytes = bytesOf(text), n = bytes.length, dim = this.info.headDim;
        return methods.map((method) => this.scratch(() => {
            const at = this.core.holdBytes(bytes), weights = this.core.hold(n * n * FLOAT);
            const q = this.core.hold(n * dim * FLOAT), k = this.core.hold(n * dim * FLOAT);
            this.core.check(this.core.c.explorer_attention(at, n, this.core.holdText(method), layer, head, weights, q, k));
            const copy = (from: number, count: number) => this.core.floats(from, count).slice();
            return { method, n, weights: copy(weights, n * n), q: copy(q, n * dim), k: copy(k, n * dim) };
        }));
    }

    passkey(text: string | Uint8Array, options: { methods: string[]; context: number; trials?: number; seed?: number },
        onProgress?: Progress): PasskeyRate[] {
        const bytes = bytesOf(text), trials = options.trials ?? DEFAULT_TRIALS;
        this.track(Math.ceil(trials / 8) * options.context * options.methods.length, onProgress);
        return options.methods.map((method) => this.scratch(() => {
            const at = this.core.holdBytes(bytes), out = this.core.hold(2 * DOUBLE);
            this.core.check(this.core.c.explorer_passkey(at, bytes.length, this.core.holdText(method), options.context, trials,
                options.seed ?? 1, out));
            const [asked, right] = this.core.doubles(out, 2);
            return { method, trials: asked, right };
        }));
    }

    private track(all: number, onProgress?: Progress): void {
        this.done = 0;
        this.report = (done) => onProgress?.(Math.min(done, all), all);
    }

    private scratch<Result>(work: () => Result): Result {
        try {
            return work();
        } catch (error) {
            throw error instanceof CoreError ? error : new CoreError(String(error));
        } finally {
            this.core.release();
        }
    }
}
