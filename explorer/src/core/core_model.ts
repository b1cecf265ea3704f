/* core_model.ts: the bundled model, in a worker made from the page's own text, so that it also works from file://. */
import { loadAssets, workerSource } from "./assets";
import { CoreError } from "./core_error";
import type { HeadWeights, HiddenKey, LossOptions, MethodLoss, Model, ModelInfo, PasskeyRate, Progress } from "./index";
import type { Assets } from "./core_instance";
import type { CallName, Reply, Request } from "./worker";

interface Call {
    resolve(result: unknown): void;
    reject(error: Error): void;
    onProgress?: Progress;
    onMethod?: (loss: MethodLoss) => void;
}

class WorkerModel implements Model {
    info!: ModelInfo;
    private worker!: Worker;
    private calls = new Map<number, Call>();
    private ready!: Promise<void>;
    private next = 0;

    constructor(private readonly assets: Assets) {
        this.start();
    }

    opened(): Promise<void> {
        return this.ready;
    }

    async lossByPosition(text: string | Uint8Array, options: LossOptions, onProgress?: Progress,
        onMethod?: (loss: MethodLoss) => void): Promise<MethodLoss[]> {
        return (await this.call("lossByPosition", [text, options], { onProgress, onMethod })) as MethodLoss[];
    }

    async hideKey(text: string | Uint8Array, methods: string[], context: number, seed: number): Promise<HiddenKey[]> {
        return (await this.call("hideKey", [text, methods, context, seed], {})) as HiddenKey[];
    }

    async attention(text: string | Uint8Array, methods: string[], layer: number, head: number): Promise<HeadWeights[]> {
        return (await this.call("attention", [text, methods, layer, head], {})) as HeadWeights[];
    }

    async passkey(text: string | Uint8Array,
        options: { methods: string[]; context: number; trials?: number; seed?: number },
        onProgress?: Progress): Promise<PasskeyRate[]> {
        return (await this.call("passkey", [text, options], { onProgress })) as PasskeyRate[];
    }

    stop(): void {
        if (!this.calls.size) return;
        this.close();
        this.start();
    }

    close(): void {
        this.worker.terminate();
        for (const call of this.calls.values()) call.reject(new CoreError("stopped"));
        this.calls.clear();
    }

    /** A worker cannot be interrupted while it computes: each stop ends it and makes another. */
    private start(): void {
        const url = URL.createObjectURL(new Blob([workerSource()], { type: "text/javascript" }));
        this.worker = new Worker(url);
        URL.revokeObjectURL(url);
        this.ready = new Promise((resolve, reject) => {
            this.worker.onmessage = ({ data }: { data: Reply }) => {
                if (data.kind === "ready") {
                    this.info = data.info;
                    resolve();
                } else if (data.kind === "error" && data.id < 0) reject(new CoreError(data.text));
                else this.answer(data);
            };
            this.worker.onerror = (event) => reject(new CoreError(event.message));
        });
        this.send({ kind: "assets", bytes: this.assets.bytes, files: this.assets.files });
    }

    private send(request: Request): void {
        this.worker.postMessage(request);
    }

    private async call(name: CallName, args: unknown[],
        listeners: Pick<Call, "onProgress" | "onMethod">): Promise<unknown> {
        const id = this.next++;
        return new Promise((resolve, reject) => {
            this.calls.set(id, { resolve, reject, ...listeners });
            this.send({ kind: "call", id, name, args });
        });
    }

    private answer(reply: Exclude<Reply, { kind: "ready" }>): void {
        const call = this.calls.get(reply.id);
        if (!call) return;
        if (reply.kind === "progress") call.onProgress?.(reply.done, reply.all);
        else if (reply.kind === "method") call.onMethod?.(reply.loss as MethodLoss);
        else {
            this.calls.delete(reply.id);
            if (reply.kind === "result") call.resolve(reply.result);
            else call.reject(new CoreError(reply.text));
        }
    }
}

/** out = the bundled model, open. */
export async function openModel(): Promise<Model> {
    const model = new WorkerModel(await loadAssets());
    await model.opened();
    return model;
}
