/* view_yours.ts: a config.json or the head of a GGUF, explained, compared and extended as the command prints it. */
import { type Profile, runCommand } from "./core";
import { h, say } from "./dom";
import { examples } from "./examples";
import { count, short, tokens, typed } from "./numbers";
import { address, get, LONGEST_CONFIG, set, type State, subscribe, type Task } from "./state";
import { t } from "./text";
import { goTo } from "./tour";
import { choice, frame, picker, type View } from "./view";

const PROFILES: Profile[] = [
    "hf-5",
    "hf-4.56",
    "hf-4.55",
    "hf-4.51",
    "hf-4.43",
    "vllm",
    "vllm-2026.05",
    "sglang",
    "mlx",
    "llama.cpp",
    "reference",
];
/** Names that have a button of their own. */
const FIRST = 5;
/** Of a GGUF the metadata is enough: it stands at the front. */
const HEAD_BYTES = 48 << 20;
/** Configs of published models are smaller than 0.1 MiB. */
const MOST_CONFIG_BYTES = 4 << 20;

interface Given {
    name: string;
    bytes: Uint8Array;
}

/** A GGUF that was dropped: it is too large for the address.  drop: its number among what was given. */
let dropped: (Given & { drop: number }) | null = null;
/* What was given so far: files, links and texts.  Two files may have one name, and a large one may be read while another thing
 * takes its place. */
let drops = 0;
/* An address with a config says what to show: a file that was dropped before must not stand in front of it. */
subscribe((state, changed) => {
    if (!changed.has("config") || !state.config) return;
    dropped = null;
    drops++;
});
let programs = false; // the person chose a program: a GGUF is read by llama.cpp otherwise

function file(): Given | null {
    if (dropped) return dropped;
    const { config } = get();
    return config.trim() ? { name: "config.json", bytes: new TextEncoder().encode(config) } : null;
}

/* out = the trained length that the config states, times four; a round guess if it states none. */
function reach(): number {
    const { to, config } = get();
    if (to) return to;
    const stated = /"(?:max_position_embeddings|n_positions|seq_length|max_seq_len)"\s*:\s*(\d+)/.exec(config);
    return stated ? 4 * Number(stated[1]) : 131072;
}

/** out = the arguments of the command that the state asks for. */
export function argumentsOf(state: Readonly<State>, name: string, bytes: boolean): string[] {
    const as = bytes && !programs ? [] : ["--as", state.as];
    if (state.task === "explain") return ["explain", name, ...as];
    if (state.task === "diff") return ["diff", name, ...as, "--with", state.with];
    return ["extend", name, "--to", String(reach()), "--all", ...as];
}

/* A file may be dropped anywhere on the page; a browser would leave the page for it otherwise.  A text that is dropped on a
 * field goes into that field. */
let receive: (given: File) => void = () => {};
let mark: (over: boolean) => void = () => {};
const hasFile = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
for (const name of ["dragover", "dragenter"] as const) {
    window.addEventListener(name, (event) => {
        if (!hasFile(event)) return;
        event.preventDefault();
        mark(true);
    });
}
window.addEventListener("dragleave", (event) => event.relatedTarget === null && mark(false));
window.addEventListener("drop", (event) => {
    const given = event.dataTransfer?.files[0];
    mark(false);
    if (!given) return;
    event.preventDefault();
    receive(given);
});

export function yoursView(): View {
    const area = h("textarea", {
        id: "config",
        rows: 14,
        spellcheck: "false",
        autocomplete: "off",
        placeholder: t("yours.placeholder"),
        input: () => {
            dropped = null;
            drops++;
            say(refusal, "");
            set({ config: area.value });
        },
    });
    /* The browser words its own file button in its own language, so the page has one in the page's. */
    const upload: HTMLInputElement = h("input", {
        type: "file",
        id: "config-file",
        hidden: true,
        accept: ".json,.gguf",
        change: () => {
            const given = upload.files?.[0];
            if (given) void take(given);
            upload.value = ""; /* the same file again is a change too */
        },
    });
    const samples = h(
        "div",
        { class: "samples", role: "group", "aria-label": t("yours.examples") },
        h("span", { class: "quiet" }, t("yours.examples")),
        ...examples().slice(0, FIRST).map(([name, text]) =>
            h("button", { type: "button", class: "link", click: () => show(text) }, name)
        ),
    );
    const named = picker(
        t("yours.named"),
        "yours-named",
        [["", t("yours.named.none", { n: examples().length })], ...examples().map(([name]): [string, string] => [name, name])],
        (name) => {
            const found = examples().find(([known]) => known === name);
            if (found) show(found[1]);
        },
    );
    const refusal = h("p", { class: "alert", role: "alert" });
    const drop = h(
        "div",
        { class: "drop" },
        named.element,
        samples,
        h("label", { for: "config" }, t("yours.config")),
        area,
        h(
            "div",
            { class: "file" },
            h("button", { type: "button", id: "choose-file", click: () => upload.click() }, t("yours.file")),
            upload,
        ),
        refusal,
    );
    const tasks = choice<Task>(
        t("yours.task"),
        [
            ["explain", t("yours.explain")],
            ["diff", t("yours.diff")],
            ["extend", t("yours.extend")],
        ],
        () => get().task,
        (task) => set({ task }),
    );
    const listed = PROFILES.map((name): [string, string] => [name, name]);
    const as = picker(t("yours.as"), "yours-as", listed, (value) => ((programs = true), set({ as: value as Profile })));
    const other = picker(t("yours.with"), "yours-with", listed, (value) => set({ with: value as Profile }));
    const to = h("input", {
        id: "yours-to",
        type: "text",
        inputmode: "numeric",
        size: 7,
        change: () => {
            const value = typed(to.value);
            if (Number.isFinite(value) && value >= 1) set({ to: Math.round(value) });
            to.value = tokens(reach());
        },
    });
    const toField = h("label", { class: "field" }, h("span", {}, t("yours.to")), to);
    /* What to do is the first question; the tasks below say why. */
    const answer = h("pre", { class: "answer", tabindex: 0, role: "region", "aria-label": t("yours.answer") });
    const answerTitle = h("h3", {});
    const sides = [0, 1].map(() => ({
        name: h("h3", {}),
        out: h("pre", { class: "terminal-side", tabindex: 0, role: "region", "aria-label": t("yours.side") }),
    }));
    const beside = h("div", { class: "sides" }, ...sides.map((side) => h("div", {}, side.name, side.out)));
    const line = h("code", { class: "command" });
    const out = h("pre", { class: "terminal", tabindex: 0, role: "region", "aria-label": t("yours.output") });
    const note = h("span", { class: "quiet", role: "status" });
    const link = h("button", { type: "button", click: () => void copy() }, t("yours.link"));
    const apply = h("button", { type: "button", click: () => void adopt() }, t("yours.apply"));
    const result = h(
        "div",
        { class: "result" },
        answerTitle,
        answer,
        h("div", { class: "fields" }, tasks.element, as.element, other.element, toField),
        line,
        out,
        beside,
        h("div", { class: "buttons" }, apply, link, note),
    );
    const view = frame("yours", "yours.title", "yours.lead", null, h("div", { class: "yours-grid" }, drop, result));

    function show(text: string): void {
        dropped = null;
        drops++;
        say(refusal, "");
        set({ config: text, to: 0 });
    }
    async function take(given: File): Promise<void> {
        const mine = ++drops;
        const { name, size } = given;
        try {
            const gguf = new TextDecoder().decode(await given.slice(0, 4).arrayBuffer()) === "GGUF";
            if (mine !== drops) return; /* something else was given meanwhile */
            if (!gguf && size > MOST_CONFIG_BYTES) {
                return say(refusal, t("yours.large", { name, size: short(size / (1 << 20), 3) }));
            }
            const bytes = new Uint8Array(await given.slice(0, gguf ? HEAD_BYTES : MOST_CONFIG_BYTES).arrayBuffer());
            if (mine !== drops) return;
            say(refusal, "");
            if (!gguf) return show(new TextDecoder().decode(bytes));
            dropped = { name, bytes, drop: mine };
            area.value = "";
            set({ config: "" });
            draw();
        } catch {
            if (mine === drops) say(refusal, t("yours.unread", { name })); /* a folder, or a file that went away */
        }
    }
    async function copy(): Promise<void> {
        const url = address();
        try {
            await navigator.clipboard.writeText(url);
            say(note, t(get().config.length > LONGEST_CONFIG || dropped ? "yours.copied.short" : "yours.copied"));
        } catch {
            say(note, url);
        }
    }
    /* Sets the knobs to what the config says. */
    async function adopt(): Promise<void> {
        const given = file();
        if (!given) return;
        const { status, out: text, err } = await runCommand(
            ["explain", given.name, "--json"],
            new Map([[given.name, given.bytes]]),
        );
        if (status !== 0) return say(note, err.trim());
        const read = JSON.parse(text) as {
            rotary_dim?: number;
            base?: number;
            trained_length?: number;
            encoding?: string;
        };
        if (!read.rotary_dim || !read.base || !read.trained_length) return say(note, t("yours.apply.none"));
        set({
            dim: read.rotary_dim,
            base: read.base,
            trained: read.trained_length,
            target: 4 * read.trained_length,
            factor: 0,
        });
        say(note, t("yours.applied", { d: read.rotary_dim, b: read.base, n: count(read.trained_length) }));
        document.getElementById("map")?.scrollIntoView();
    }

    receive = (given): void => {
        if (get().step) goTo(0);
        if (!view.element.contains(document.activeElement)) view.element.scrollIntoView();
        void take(given);
    };
    mark = (over): void => void drop.classList.toggle("over", over);

    let asked = "";
    let shown = ""; // the config of the last drawing
    let timer = 0;
    async function run(given: Given, argv: string[]): Promise<void> {
        const key = asked;
        view.element.setAttribute("aria-busy", "true");
        const { out: text, err } = await runCommand(argv, new Map([[given.name, given.bytes]]));
        if (key !== asked) return;
        out.textContent = text + (err ? `${text ? "\n" : ""}${err}` : "");
        view.element.removeAttribute("aria-busy");
        await runBeside(given, key);
    }
    /* The answer of extend, and of a comparison what each program makes of the config. */
    async function runBeside(given: Given, key: string): Promise<void> {
        const files = (): Map<string, Uint8Array> => new Map([[given.name, given.bytes]]);
        const as_ = dropped && !programs ? [] : ["--as", get().as];
        const told = await runCommand(["extend", given.name, "--to", String(reach()), ...as_], files());
        if (key !== asked) return;
        answer.hidden = answerTitle.hidden = told.status !== 0;
        say(answerTitle, t("yours.answer.to", { n: tokens(reach()) }));
        say(answer, told.out.trimEnd());
        const compares = get().task === "diff";
        beside.hidden = !compares;
        if (!compares) return;
        const programs_ = [dropped && !programs ? "llama.cpp" : get().as, get().with];
        for (const [k, program] of programs_.entries()) {
            const read = await runCommand(["explain", given.name, "--as", program], files());
            if (key !== asked) return;
            say(sides[k]!.name, program);
            say(sides[k]!.out, read.out + read.err);
        }
    }

    function draw(): void {
        const state = get();
        if (state.config && state.config !== shown) say(refusal, ""); /* of a file that this one follows */
        shown = state.config;
        tasks.update();
        as.list.value = dropped && !programs ? "llama.cpp" : state.as;
        other.list.value = state.with;
        named.list.value = examples().find(([, text]) => text === state.config)?.[0] ?? "";
        other.element.hidden = state.task !== "diff";
        toField.hidden = state.task !== "extend";
        if (document.activeElement !== to) to.value = tokens(reach());
        if (area.value !== state.config && !(document.activeElement === area && !state.config)) {
            area.value = state.config;
        }
        area.placeholder = dropped ? t("yours.gguf", { name: dropped.name }) : t("yours.placeholder");
        const given = file();
        result.hidden = !given;
        if (!given) {
            asked = "";
            return;
        }
        const argv = argumentsOf(state, given.name, dropped !== null);
        say(line, `gyre ${argv.join(" ")}`);
        /* Not `drops`, which counts a file before it is read. */
        const key = JSON.stringify(argv) + (dropped ? dropped.drop : state.config);
        if (key === asked) return;
        asked = key;
        clearTimeout(timer);
        timer = window.setTimeout(() => void run(given, argv), 60);
    }
    return { id: "yours", element: view.element, draw };
}
