/* view_model.ts: the model in the page reads a text: loss by position under each method, and a key that it finds or not. */
import type { HiddenKey } from "./core";
import { h, s, say } from "./dom";
import { methodName } from "./knobs";
import {
    BUCKETS,
    bytesOf,
    hide,
    measure,
    METHODS,
    methodsAsked,
    move,
    nameMethods,
    SAMPLE,
    session,
    stop,
    textAsked,
    watch,
} from "./losses";
import { count, fixed, short, ticks, tokens } from "./numbers";
import { drawChart, type Line, sampleOf } from "./plot";
import { theCore } from "./scene";
import { get, set } from "./state";
import { sentences, t } from "./text";
import { frame, picker, type Sheet, type View } from "./view";

const TRAINED = 256;
/* Both go by the name, as in every figure. */
const lookOf = (method: string): { class: string; symbol: string } => ({
    class: `of-${method}`,
    symbol: theCore().methods().find((known) => known.name === method)!.symbol,
});

function sheet(): Sheet {
    const losses = [...session.losses.values()];
    return {
        head: [t("col.bytes"), ...losses.map((loss) => methodName(loss.method))],
        rows: Array.from({ length: BUCKETS }, (_, k) => {
            const size = session.window / BUCKETS;
            return [
                `${Math.round(k * size)}–${Math.round((k + 1) * size)}`,
                ...losses.map((loss) => fixed(loss.byPosition[k]!, 4)),
            ];
        }),
    };
}

/* What the model read around the key, or around the question. */
function excerpt(one: HiddenKey, at: number): Node[] {
    const text = (from: number, to: number): string =>
        new TextDecoder().decode(one.window.slice(Math.max(0, from), Math.min(one.window.length, to))).replace(
            /\s+/g,
            " ",
        ).replace(/\ufffd/g, "¦");
    const digits = one.key.length;
    return [
        document.createTextNode(`… ${text(at - 60, at)}`),
        h("mark", {}, text(at, at + digits)),
        document.createTextNode(text(at + digits, at + digits + 30)),
    ];
}

/* The answer of one method, and where the key stood in what it read. */
function answers(): Node {
    if (!session.keys.length) return h("p", { class: "quiet" }, t("model.key.none"));
    const rows = session.keys.map((one) =>
        h(
            "tr",
            {},
            h("th", { scope: "row" }, methodName(one.method)),
            h("td", { class: "digits" }, one.answer),
            h("td", { class: one.found ? "found" : "lost" }, one.found ? t("model.found") : t("model.lost")),
        )
    );
    const first = session.keys[0]!;
    const size = first.window.length;
    const bar = s(
        "svg",
        {
            class: "where",
            viewBox: "0 0 1000 46",
            preserveAspectRatio: "none",
            role: "img",
            "aria-label": t("model.key.where", {
                at: count(first.keyAt),
                asked: count(first.askedAt),
                size: count(size),
            }),
        },
        s("rect", { x: 0, y: 16, width: 1000, height: 10, class: "read" }),
        s("rect", { x: 0, y: 16, width: Math.min(1000, (1000 * TRAINED) / size), height: 10, class: "seen" }),
        s("rect", { x: (1000 * first.keyAt) / size - 3, y: 8, width: 7, height: 26, class: "key" }),
        s("rect", { x: (1000 * first.askedAt) / size - 3, y: 8, width: 7, height: 26, class: "asked" }),
    );
    const words = t("model.key.text", {
        key: first.key,
        at: count(first.keyAt),
        asked: count(first.askedAt),
        d: count(first.askedAt - first.keyAt),
    });
    const table = h(
        "table",
        { class: "answers" },
        h("caption", { class: "hidden" }, t("model.key.title")),
        h(
            "thead",
            {},
            h(
                "tr",
                {},
                ...[t("col.method"), t("col.answer"), t("col.found")].map((text) => h("th", { scope: "col" }, text)),
            ),
        ),
        h("tbody", {}, ...rows),
    );
    return h(
        "div",
        {},
        bar,
        h("p", { class: "quiet" }, words),
        h(
            "div",
            { class: "key-grid" },
            table,
            h("p", { class: "excerpts" }, ...excerpt(first, first.keyAt), " … ", ...excerpt(first, first.askedAt)),
        ),
    );
}

/* The distance by which the page moves all positions. */
const FAR = 100000;

function perplexities(): Node {
    const { moved } = session;
    const rows = session.methods.map((method) => {
        const loss = session.losses.get(method);
        const other = moved.perplexity.get(method);
        return h(
            "tr",
            {},
            h("th", { scope: "row" }, sampleOf(lookOf(method)), methodName(method)),
            h("td", { "data-perplexity": method }, loss ? fixed(loss.perplexity, 3) : "…"),
            moved.by > 0 && h("td", { "data-moved": method }, other === undefined ? "…" : fixed(other, 3)),
            h("td", {}, loss ? fixed(loss.nats / Math.LN2, 3) : "…"),
        );
    });
    return h(
        "table",
        { class: "perplexities" },
        h("caption", {}, t("model.perplexity", { n: tokens(session.window) })),
        h(
            "thead",
            {},
            h(
                "tr",
                {},
                ...[
                    t("col.method"),
                    t("col.perplexity"),
                    ...(moved.by > 0 ? [t("col.moved", { n: count(moved.by) })] : []),
                    t("col.bits"),
                ].map((text) => h("th", { scope: "col" }, text)),
            ),
        ),
        h("tbody", {}, ...rows),
    );
}

export function modelView(): View {
    const area = h("textarea", {
        id: "model-text",
        rows: 17,
        spellcheck: "false",
        input: () => {
            session.text = area.value;
            set({ text: area.value === SAMPLE ? "" : area.value });
            later();
        },
    });
    area.value = session.text;
    const size = h("output", { for: "model-text", class: "quiet" });
    const window_ = picker(
        t("model.window"),
        "model-window",
        ["256", "512", "1024", "2048"].map((n) => [n, tokens(Number(n))]),
        (value) => {
            set({ window: Number(value) });
        },
    );
    const boxes = METHODS.map((method) => {
        const box = h("input", {
            type: "checkbox",
            id: `model-${method}`,
            checked: session.methods.includes(method),
            change: () => {
                session.methods = METHODS.filter((_, k) => boxes[k]!.checked);
                set({ reads: nameMethods(session.methods) });
                later();
            },
        });
        return box;
    });
    const which = h(
        "fieldset",
        { class: "checks" },
        h("legend", {}, t("model.methods")),
        ...METHODS.map((method, k) =>
            h("label", { class: "check", for: `model-${method}` }, boxes[k]!, methodName(method))
        ),
    );
    const start = h("button", {
        type: "button",
        class: "primary",
        id: "model-run",
        click: () => (session.busy ? void stop() : void measure(get().window)),
    });
    const shift = h("button", {
        type: "button",
        id: "model-shift",
        "aria-pressed": "false",
        click: () => set({ first: get().first ? 0 : FAR }),
    }, t("model.shift", { n: count(FAR) }));
    const bar = h("progress", { max: 1, "aria-label": t("model.progress") });
    const alert = h("p", { class: "alert", role: "alert" });
    const chart = s("svg", { id: "model-chart", class: "chart", role: "img", "aria-label": t("model.chart") });
    const table = h("div");
    const another = h("button", {
        type: "button",
        id: "model-hide",
        click: () => {
            const seed = session.keys.length ? get().seed + 1 : get().seed;
            set({ seed });
            void hide(get().window, seed);
        },
    });
    const found = h("div", { "aria-live": "polite" });
    const view = frame(
        "model",
        "model.title",
        "model.lead",
        sheet,
        h(
            "div",
            { class: "model-grid" },
            h(
                "div",
                { class: "model-in" },
                h("label", { for: "model-text" }, t("model.text")),
                area,
                size,
                window_.element,
                which,
                h("div", { class: "buttons" }, start, shift, bar),
                alert,
            ),
            h("div", { class: "model-out" }, chart, table),
            h(
                "div",
                { class: "model-key" },
                h("h3", {}, t("model.key.title")),
                h("p", { class: "lead" }, t("model.key.lead")),
                another,
                found,
            ),
        ),
    );
    let timer = 0;
    let shownKeys: unknown = null;
    function later(): void {
        clearTimeout(timer);
        timer = window.setTimeout(() => void measure(get().window), 700);
        if (!drawing) draw();
    }

    /* A link was opened in this page, its address was edited, or a step of the tour was taken. */
    let window_asked = get().window;
    let first_asked = get().first;
    function follow(): void {
        const { window, first } = get();
        const methods = methodsAsked();
        const is_other = window !== window_asked;
        const is_moved = first !== first_asked;
        window_asked = window;
        first_asked = first;
        if (is_other) later();
        else if (is_moved && session.losses.size && !session.busy) void move();
        else if (is_moved) later();
        const is_same = textAsked() === session.text && nameMethods(methods) === nameMethods(session.methods);
        if (is_same || document.activeElement === area) return;
        Object.assign(session, { text: textAsked(), methods });
        area.value = session.text;
        METHODS.forEach((method, k) => (boxes[k]!.checked = methods.includes(method)));
        later();
    }

    function drawLosses(): void {
        const losses = [...session.losses.values()];
        const size_ = session.window / BUCKETS;
        const middle = Float64Array.from({ length: BUCKETS }, (_, k) => (k + 0.5) * size_);
        const lines: Line[] = losses.map((loss) => (
            { x: middle, y: loss.byPosition, ...lookOf(loss.method), label: methodName(loss.method) }
        ));
        const values = losses.flatMap((loss) => Array.from(loss.byPosition)).filter(Number.isFinite);
        const high = Math.max(4, ...values) * 1.04;
        const wide = Math.max(TRAINED, session.window);
        drawChart(chart, {
            x: {
                label: t("axis.window"),
                min: 0,
                max: wide,
                ticks: ticks(0, wide / 256, 8).map((k) => k * 256),
                format: count,
            },
            y: { label: t("axis.loss"), min: 0, max: high, ticks: ticks(0, high, 6), format: (v) => short(v) },
            lines,
            bands: wide > TRAINED ? [{ from: TRAINED, to: wide, class: "beyond" }] : [],
            marks: [{ axis: "x", at: TRAINED, label: t("mark.trained", { n: tokens(TRAINED) }), class: "trained" }],
            right: 92,
        });
    }

    let drawing = false;
    function draw(): void {
        drawing = true;
        follow();
        drawing = false;
        window_.list.value = String(get().window);
        say(size, t("unit.bytes", { n: count(bytesOf(session.text)) }));
        say(start, session.busy ? t("model.stop") : t("model.run"));
        shift.setAttribute("aria-pressed", String(get().first > 0));
        say(another, session.keys.length ? t("model.key.another") : t("model.key.hide"));
        bar.value = session.progress;
        bar.hidden = !session.busy;
        say(alert, session.error);
        drawLosses();
        table.replaceChildren(perplexities());
        if (shownKeys !== session.keys) {
            shownKeys = session.keys;
            found.replaceChildren(answers());
        }
        const best = [...session.losses.values()].sort((a, b) => a.perplexity - b.perplexity)[0];
        if (best && !session.busy) {
            const words = t("model.readout", {
                method: methodName(best.method),
                p: fixed(best.perplexity, 2),
                n: count(session.window),
                k: short(session.window / TRAINED),
            });
            const { moved } = session;
            const apart = Math.max(
                ...[...moved.perplexity].map(([method, p]) => Math.abs(p / session.losses.get(method)!.perplexity - 1)),
            );
            view.readout(
                moved.perplexity.size
                    ? sentences(words, t("model.moved", { n: count(moved.by), p: short(100 * apart, 2) }))
                    : words,
            );
        }
        view.refresh();
    }
    watch(draw);
    /* The model starts to read when it is looked at for the first time. */
    const seen = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        seen.disconnect();
        if (!session.losses.size && !session.busy) void measure(get().window);
    });
    seen.observe(view.element);
    return { id: "model", element: view.element, draw };
}
