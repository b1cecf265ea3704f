/* assets.ts: what the page carries: the module, the bundled model, the worker's script.  scripts/build-explorer puts each
 * into the page as base64 of gzip; tests give them by setAssets. */
import type { Assets } from "./core_instance";

/* Not yet in the declarations of the compiler that Debian has. */
declare class DecompressionStream implements GenericTransformStream {
    constructor(format: "gzip");
    readonly readable: ReadableStream;
    readonly writable: WritableStream;
}

let given: Promise<Assets> | null = null;

/** For programs outside a page. */
export function setAssets(bytes: Uint8Array, files: Map<string, Uint8Array>): void {
    given = WebAssembly.compile(bytes).then((module) => ({ module, bytes, files }));
}

async function unpack(base64: string): Promise<Uint8Array> {
    const text = atob(base64.trim());
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(plain).arrayBuffer());
}

function element(id: string): string {
    const found = document.getElementById(id);
    if (!found) throw new Error(`the page lacks ${id}`);
    return found.textContent ?? "";
}

async function fromPage(): Promise<Assets> {
    const bytes = await unpack(element("asset-module"));
    const files = new Map<string, Uint8Array>();
    const [module] = await Promise.all([
        WebAssembly.compile(bytes),
        ...[...document.querySelectorAll("script[data-path]")].map(async (script) => {
            files.set((script as HTMLElement).dataset.path ?? "", await unpack(script.textContent ?? ""));
        }),
    ]);
    return { module, bytes, files };
}

/** out = the page's assets, unpacked once. */
export function loadAssets(): Promise<Assets> {
    given ??= fromPage();
    return given;
}

/** out = names of models that people know, and what their config.json says. */
export async function loadConfigs(): Promise<[string, object][]> {
    return JSON.parse(new TextDecoder().decode(await unpack(element("asset-configs")))) as [string, object][];
}

/** out = the text that the model reads until somebody gives another. */
export function sampleText(): string {
    return element("asset-sample");
}

/** out = the worker's script. */
export function workerSource(): string {
    return element("asset-worker").replace(/<\\\/script/g, "</script");
}
