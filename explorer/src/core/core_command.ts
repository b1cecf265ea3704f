/* core_command.ts: subcommands of gyre with arguments and files; each run has an instance of its own. */
import { loadAssets } from "./assets";
import { instantiate } from "./core_instance";
import { Exit } from "./wasi";
import type { CommandResult, DiffOptions, ExplainOptions, ExtendOptions, ModelFile } from "./index";

const POINTER = 4, FAILED = 1;

/** Runs `gyre ARGUMENTS...` over files by path, beside those of the bundled model.  columns: width of what it prints. */
export async function runCommand(argv: string[], files: Map<string, Uint8Array> = new Map(),
    columns = 100): Promise<CommandResult> {
    const core = instantiate(await loadAssets(), files, [`COLUMNS=${columns}`]);
    let status = 0, trap = "";
    try {
        const pointers = argv.map((argument) => core.holdText(argument));
        const list = core.hold((argv.length + 1) * POINTER);
        core.integers(list, argv.length + 1).set([...pointers, 0]);
        core.c.explorer_command(argv.length, list);
    } catch (error) {
        status = error instanceof Exit ? error.status : FAILED;
        if (!(error instanceof Exit)) trap = `gyre: ${error}\n`;
    }
    const decoder = new TextDecoder();
    const written = new Map<string, Uint8Array>();
    for (const path of core.wasi.files.written) written.set(path, core.wasi.files.get(path) ?? new Uint8Array(0));
    return { status, out: decoder.decode(core.wasi.printed(1)), err: decoder.decode(core.wasi.printed(2)) + trap, written };
}

function add(files: Map<string, Uint8Array>, model: ModelFile): string {
    if (typeof model === "string") return model;
    files.set(model.name, typeof model.data === "string" ? new TextEncoder().encode(model.data) : model.data);
    return model.name;
}

/** `gyre explain MODEL`. */
export function explain(model: ModelFile, options: ExplainOptions = {}): Promise<CommandResult> {
    const files = new Map<string, Uint8Array>(), argv = ["explain", add(files, model)];
    if (options.as) argv.push(`--as=${options.as}`);
    if (options.length) argv.push(`--length=${options.length}`);
    return runCommand([...argv, ...(options.more ?? [])], files);
}

/** `gyre diff LEFT [RIGHT]`. */
export function diff(left: ModelFile, right: ModelFile | null, options: DiffOptions = {}): Promise<CommandResult> {
    const files = new Map<string, Uint8Array>(), argv = ["diff", add(files, left)];
    if (right) argv.push(add(files, right));
    if (options.as) argv.push(`--as=${options.as}`);
    if (options.with) argv.push(`--with=${options.with}`);
    if (options.length) argv.push(`--length=${options.length}`);
    return runCommand([...argv, ...(options.more ?? [])], files);
}

/** `gyre extend MODEL --to N`. */
export function extend(model: ModelFile, options: ExtendOptions): Promise<CommandResult> {
    const files = new Map<string, Uint8Array>(), argv = ["extend", add(files, model), `--to=${options.to}`];
    if (options.as) argv.push(`--as=${options.as}`);
    return runCommand([...argv, ...(options.more ?? [])], files);
}
