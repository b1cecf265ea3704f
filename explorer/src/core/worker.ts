/* worker.ts: the model's thread: makes a ModelEngine from the assets that the page sends, then answers calls in order. */
import { ModelEngine } from "./model_engine";

export type CallName = "lossByPosition" | "hideKey" | "attention" | "passkey";
/** To the worker: first the assets, then calls. */
export type Request =
    | { kind: "assets"; bytes: Uint8Array; files: Map<string, Uint8Array> }
    | { kind: "call"; id: number; name: CallName; args: unknown[] };
/** From the worker. */
export type Reply =
    | { kind: "ready"; info: ModelEngine["info"] }
    | { kind: "progress"; id: number; done: number; all: number }
    | { kind: "method"; id: number; loss: unknown }
    | { kind: "result"; id: number; result: unknown }
    | { kind: "error"; id: number; text: string }; // id -1: the model could not be opened

interface Thread {
    onmessage: ((event: { data: Request }) => void) | null;
    postMessage(reply: Reply): void;
}

export function serve(thread: Thread): void {
    let engine: Promise<ModelEngine> | null = null;
    const fail = (id: number, error: unknown) =>
        thread.postMessage({ kind: "error", id, text: error instanceof Error ? error.message : String(error) });
    thread.onmessage = async ({ data }) => {
        if (data.kind === "assets") {
            const { bytes, files } = data;
            engine = WebAssembly.compile(bytes).then((module) => new ModelEngine({ module, bytes, files }));
            engine.then((ready) => thread.postMessage({ kind: "ready", info: ready.info }), (error) => fail(-1, error));
            return;
        }
        const { id, name, args } = data;
        const progress = (done: number, all: number) => thread.postMessage({ kind: "progress", id, done, all });
        const onMethod = (loss: unknown) => thread.postMessage({ kind: "method", id, loss });
        try {
            if (!engine) throw new Error("the worker has no model");
            const model = (await engine) as unknown as Record<string, (...args: unknown[]) => unknown>;
            const extra = name === "lossByPosition" ? [progress, onMethod] : name === "passkey" ? [progress] : [];
            thread.postMessage({ kind: "result", id, result: model[name](...args, ...extra) });
        } catch (error) {
            fail(id, error);
        }
    };
}

if (typeof document === "undefined" && typeof self !== "undefined") serve(self as unknown as Thread);
