/* core_instance.ts: the module explorer.wasm: its bytes, and instances of it with memory that JavaScript fills. */
import { CoreError } from "./core_error";
import { Files, Wasi } from "./wasi";

/** The functions that explorer/wasm/ exports; explorer_numbers.h and explorer_model.h say what they do.  A pointer is a
 * number. */
export interface Exports {
    memory: WebAssembly.Memory;
    _initialize(): void;
    explorer_alloc(bytes: number): number;
    explorer_free(memory: number): void;
    explorer_error(): number;
    explorer_version(): number;
    explorer_setup(method: number, factor: number, base: number, headDim: number, trained: number, target: number,
        betaFast: number, betaSlow: number): number;
    explorer_pairs(): number;
    explorer_inv_freq(trained: number): number;
    explorer_attention_factor(): number;
    explorer_factor(): number;
    explorer_part(which: number): number;
    explorer_angles(from: number, count: number, step: number): number;
    explorer_unseen(): number;
    explorer_excess(from: number, count: number, step: number): number;
    explorer_resultant(width: number): number;
    explorer_score(q: number, k: number, m: number, n: number, bars: number, amplitude: number, phase: number): number;
    explorer_kept(): number;
    explorer_decay(distances: number, n: number, mean: number, bound: number): void;
    explorer_rotate(vector: number, position: number): number;
    explorer_method(index: number): number;
    explorer_look(name: number): number;
    explorer_wheel(resultant: number, n: number, pixels: number): void;
    explorer_excess_color(excess: number): number;
    explorer_excess_strength(excess: number): number;
    explorer_bias(kind: number, params: number, table: number, n: number, map: number, bucket: number): number;
    explorer_command(argc: number, argv: number): void;
    explorer_model_open(folder: number): number;
    explorer_model_number(which: number): number;
    explorer_move(first: number): void;
    explorer_evaluate(text: number, bytes: number, method: number, context: number, windows: number, buckets: number,
        byPosition: number, out: number): number;
    explorer_attention(text: number, bytes: number, method: number, layer: number, head: number, weights: number, q: number,
        k: number): number;
    explorer_passkey(text: number, bytes: number, method: number, context: number, trials: number, seed: number,
        out: number): number;
    explorer_hide_key(text: number, bytes: number, method: number, context: number, seed: number, window: number,
        out: number, answer: number): number;
}

/** What comes with the page: the module, and the files of the bundled model by path. */
export interface Assets {
    module: WebAssembly.Module;
    bytes: Uint8Array; // of the module, for workers
    files: Map<string, Uint8Array>;
}

/* wasi-libc prints UTF-8 whatever the environment says; the command asks for its locale. */
const ENVIRONMENT = ["LC_ALL=C.UTF-8", "HOME=/"];

export class Instance {
    readonly c: Exports;
    private held: number[] = [];
    private encoder = new TextEncoder();

    constructor(module: WebAssembly.Module, readonly wasi: Wasi, progress: (tokens: number) => void = () => {}) {
        const instance = new WebAssembly.Instance(module, {
            wasi_snapshot_preview1: wasi.imports() as WebAssembly.ModuleImports,
            gyre: { progress },
        });
        this.c = instance.exports as unknown as Exports;
        wasi.memory = this.c.memory;
        this.c._initialize();
    }

    /** out = memory of the core until release(). */
    hold(bytes: number): number {
        const at = this.c.explorer_alloc(Math.max(bytes, 8));
        if (!at) throw new CoreError("memory: none in the page");
        this.held.push(at);
        return at;
    }

    holdBytes(bytes: Uint8Array): number {
        const at = this.hold(bytes.length + 1);
        const memory = new Uint8Array(this.c.memory.buffer, at, bytes.length + 1);
        memory.set(bytes);
        memory[bytes.length] = 0;
        return at;
    }

    holdText(text: string): number {
        return this.holdBytes(this.encoder.encode(text));
    }

    release(): void {
        for (const at of this.held.splice(0)) this.c.explorer_free(at);
    }

    text(at: number): string {
        const memory = new Uint8Array(this.c.memory.buffer);
        return new TextDecoder().decode(memory.slice(at, memory.indexOf(0, at)));
    }

    doubles(at: number, count: number): Float64Array {
        return new Float64Array(this.c.memory.buffer, at, count);
    }

    floats(at: number, count: number): Float32Array {
        return new Float32Array(this.c.memory.buffer, at, count);
    }

    integers(at: number, count: number): Int32Array {
        return new Int32Array(this.c.memory.buffer, at, count);
    }

    check(status: number): void {
        if (status !== 0) throw new CoreError(this.text(this.c.explorer_error()));
    }
}

/** out = an instance with the assets' files, more files of the caller, and what it prints kept in out.wasi. */
export function instantiate(assets: Assets, more: Map<string, Uint8Array> = new Map(), environment: string[] = [],
    progress?: (tokens: number) => void): Instance {
    const files = new Files();
    for (const [path, bytes] of assets.files) files.put(path, bytes);
    for (const [path, bytes] of more) files.put(path, bytes);
    return new Instance(assets.module, new Wasi(files, [...ENVIRONMENT, ...environment]), progress);
}
