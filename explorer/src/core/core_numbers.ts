/* core_numbers.ts: the numbers behind the views, from one instance of the module on the page's thread. */
import { loadAssets } from "./assets";
import { CoreError } from "./core_error";
import { instantiate, Instance } from "./core_instance";
import type { Angles, Bias, BiasKind, BiasParams, Core, Decay, Frequencies, Look, MethodInfo, Ramp, Score, Setup } from "./index";

const DOUBLE = 8, FLOAT = 4, MAX_BIAS_TOKENS = 512, MAX_BIAS_HEADS = 64;

class Numbers implements Core {
    private current = "";

    constructor(private readonly core: Instance) {}

    version(): string {
        return this.core.text(this.core.c.explorer_version());
    }

    methods(): MethodInfo[] {
        const found: MethodInfo[] = [];
        for (let at = this.core.c.explorer_method(0); at; at = this.core.c.explorer_method(found.length)) {
            const [name, number, flags, light, dark, ...symbol] = this.core.text(at).split(" ");
            found.push({
                name,
                number: number as MethodInfo["number"],
                followsLength: (+flags & 1) !== 0,
                far: (+flags & 2) !== 0,
                colour: { light, dark },
                symbol: symbol.join(" "),
            });
        }
        return found;
    }

    look(name: string): Look {
        return this.scratch(() => {
            const [light, dark, ...symbol] = this.core.text(this.core.c.explorer_look(this.core.holdText(name))).split(" ");
            return { name, colour: { light, dark }, symbol: symbol.join(" ") };
        });
    }

    wheel(resultant: number, n: number): Uint32Array {
        return this.scratch(() => {
            const at = this.core.hold(n * FLOAT);
            this.core.c.explorer_wheel(resultant, n, at);
            return new Uint32Array(this.core.integers(at, n).slice().buffer);
        });
    }

    excessColour(excess: number): { colour: string; strength: number } {
        const colour = this.core.c.explorer_excess_color(excess);
        return {
            colour: `#${colour.toString(16).padStart(6, "0")}`,
            strength: this.core.c.explorer_excess_strength(excess),
        };
    }

    frequencies(setup: Setup): Frequencies {
        const pairs = this.use(setup), c = this.core.c;
        const invFreq = this.core.doubles(c.explorer_inv_freq(0), pairs).slice();
        const trainedInvFreq = this.core.doubles(c.explorer_inv_freq(1), pairs).slice();
        const turns = (rate: number) => (2 * Math.PI) / rate;
        return {
            invFreq,
            trainedInvFreq,
            wavelengths: invFreq.map(turns),
            trainedWavelengths: trainedInvFreq.map(turns),
            attentionFactor: c.explorer_attention_factor(),
            factor: c.explorer_factor(),
        };
    }

    angles(setup: Setup, from: number, count: number, step = 1): Angles {
        const pairs = this.use(setup), c = this.core.c;
        const at = c.explorer_angles(from, count, step);
        if (!at) throw new CoreError(this.core.text(c.explorer_error()));
        const unseenFrom = this.core.doubles(c.explorer_unseen(), pairs).slice();
        return { angle: this.core.floats(at, pairs * count), unseenFrom, pairs, count, from, step };
    }

    excess(setup: Setup, from: number, count: number, step = 1): Float32Array {
        const pairs = this.use(setup), c = this.core.c;
        const at = c.explorer_excess(from, count, step);
        if (!at) throw new CoreError(this.core.text(c.explorer_error()));
        return this.core.floats(at, pairs * count);
    }

    resultant(setup: Setup, width: number): Float64Array {
        const pairs = this.use(setup);
        return this.core.doubles(this.core.c.explorer_resultant(width), pairs).slice();
    }

    score(setup: Setup, q: ArrayLike<number>, k: ArrayLike<number>, m: number, n: number): Score {
        const pairs = this.use(setup);
        if (q.length !== setup.headDim || k.length !== setup.headDim)
            throw new CoreError(`vectors: ${q.length} and ${k.length} channels where the head has ${setup.headDim}`);
        return this.scratch(() => {
            const [query, key] = [q, k].map((vector) => {
                const at = this.core.hold(vector.length * FLOAT);
                this.core.floats(at, vector.length).set(vector);
                return at;
            });
            const [bars, amplitude, phase] = [0, 1, 2].map(() => this.core.hold(pairs * DOUBLE));
            this.core.check(this.core.c.explorer_score(query, key, m, n, bars, amplitude, phase));
            const copy = (at: number) => this.core.doubles(at, pairs).slice();
            return { bars: copy(bars), amplitude: copy(amplitude), phase: copy(phase) };
        });
    }

    decay(setup: Setup, distances: ArrayLike<number>): Decay {
        this.use(setup);
        return this.scratch(() => {
            const n = distances.length;
            const [input, mean, bound] = [0, 1, 2].map(() => this.core.hold(n * DOUBLE));
            this.core.doubles(input, n).set(distances);
            this.core.c.explorer_decay(input, n, mean, bound);
            return { mean: this.core.doubles(mean, n).slice(), bound: this.core.doubles(bound, n).slice() };
        });
    }

    ramp(setup: Setup): Ramp {
        const pairs = this.use(setup), c = this.core.c;
        const [kept, blended, divided] = [0, 1, 2].map((which) => c.explorer_part(which));
        return {
            kept: this.core.doubles(c.explorer_kept(), pairs).slice(),
            parts: { kept, blended, divided },
            revolutions: this.core.doubles(c.explorer_inv_freq(1), pairs).map((rate) => (rate * setup.trained) / (2 * Math.PI)),
        };
    }

    bias(kind: BiasKind, params: BiasParams, n: number): Bias {
        const heads = params.heads || 8;
        if (!(n >= 1 && n <= MAX_BIAS_TOKENS && heads >= 1 && heads <= MAX_BIAS_HEADS))
            throw new CoreError(`bias: ${n} tokens, ${heads} heads; up to ${MAX_BIAS_TOKENS} and ${MAX_BIAS_HEADS}`);
        return this.scratch(() => {
            const map = this.core.hold(heads * n * n * FLOAT), bucket = this.core.hold(n * n * FLOAT);
            this.core.check(this.core.c.explorer_bias(this.core.holdText(kind), this.holdParams(params), this.holdTable(params),
                n, map, bucket));
            const rows = this.core.integers(bucket, n * n).slice();
            return { map: this.core.floats(map, heads * n * n).slice(), bucket: rows[0] < 0 ? null : rows, heads, n };
        });
    }

    rotate(setup: Setup, vector: ArrayLike<number>, position: number): Float32Array {
        this.use(setup);
        if (vector.length !== setup.headDim)
            throw new CoreError(`vector: ${vector.length} channels where the head has ${setup.headDim}`);
        return this.scratch(() => {
            const at = this.core.hold(vector.length * FLOAT);
            this.core.floats(at, vector.length).set(vector);
            this.core.check(this.core.c.explorer_rotate(at, position));
            return this.core.floats(at, vector.length).slice();
        });
    }

    /** Makes the core's state that of a setup, unless it is.  out = pairs. */
    private use(setup: Setup): number {
        const key = JSON.stringify(setup);
        if (key !== this.current) {
            this.current = "";
            this.scratch(() => this.core.check(this.core.c.explorer_setup(this.core.holdText(setup.method), setup.factor,
                setup.base, setup.headDim, setup.trained, setup.target, setup.betaFast ?? 0, setup.betaSlow ?? 0)));
            this.current = key;
        }
        return this.core.c.explorer_pairs();
    }

    private scratch<Result>(work: () => Result): Result {
        try {
            return work();
        } finally {
            this.core.release();
        }
    }

    private holdParams(p: BiasParams): number {
        const numbers = [p.heads, p.buckets, p.maxDistance, p.bidirectional ? 1 : 0, p.r1, p.r2, p.sandwichDim, p.seed,
            p.factor];
        const at = this.core.hold(numbers.length * DOUBLE);
        this.core.doubles(at, numbers.length).set(numbers.map((value) => value ?? 0));
        return at;
    }

    private holdTable(p: BiasParams): number {
        if (!p.table) return 0;
        const wanted = (p.buckets || 32) * (p.heads || 8);
        if (p.table.length !== wanted) throw new CoreError(`table: ${p.table.length} numbers where there are ${wanted}`);
        const at = this.core.hold(wanted * FLOAT);
        this.core.floats(at, wanted).set(p.table);
        return at;
    }
}

let loading: Promise<Core> | null = null;

/** out = the core; the module is compiled once, whoever asks. */
export function loadCore(): Promise<Core> {
    loading ??= loadAssets().then((assets) => {
        const core = new Numbers(instantiate({ ...assets, files: new Map() }));
        performance.mark("gyre core ready");
        return core;
    });
    return loading;
}
