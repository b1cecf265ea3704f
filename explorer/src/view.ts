/* view.ts: the frame that every view shares: a heading, what one sees, the figure, its numbers in words and in a table. */
import { chapterOf } from "./chapters";
import { h, say } from "./dom";
import { type Key, t } from "./text";

export interface View {
    id: string;
    element: HTMLElement;
    /** Draws the view for the state. */
    draw(): void;
}

export interface Frame {
    element: HTMLElement;
    body: HTMLElement;
    /** Says in words what the figure shows at the cursor. */
    readout(text: string): void;
    /** Fills the table if it is open. */
    refresh(): void;
}

export type Cell = string | number;
export interface Sheet {
    head: string[];
    rows: Cell[][];
}

const MOST_ROWS = 512;

/* A table is built when it is opened: the page has a dozen of them and redraws in a frame. */
function sheetTable(sheet: Sheet, caption: string): HTMLElement {
    const head = h("tr", {}, ...sheet.head.map((text) => h("th", { scope: "col" }, text)));
    const rows = sheet.rows
        .slice(0, MOST_ROWS)
        .map((row) => h("tr", {}, ...row.map((cell, i) => h(i ? "td" : "th", i ? {} : { scope: "row" }, cell))));
    return h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": `${caption}: ${t("table.title")}` },
        h("table", {}, h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, ...rows)),
    );
}

function csvLink(sheet: Sheet, name: string): HTMLElement {
    const quote = (
        cell: Cell,
    ): string => (/[",\n]/.test(String(cell)) ? `"${String(cell).replace(/"/g, '""')}"` : String(cell));
    return h(
        "button",
        {
            type: "button",
            class: "link",
            click: () => {
                const text = [sheet.head, ...sheet.rows].map((row) => row.map(quote).join(",")).join("\n");
                const url = URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" }));
                const link = h("a", { href: url, download: `${name}.csv` });
                link.click();
                URL.revokeObjectURL(url);
            },
        },
        t("table.csv"),
    );
}

/** out = a view's frame.  sheet: the numbers behind the figure, made when someone opens them. */
export function frame(id: string, title: Key, lead: Key, sheet: (() => Sheet) | null, ...children: Node[]): Frame {
    const output = h("p", { class: "readout", id: `${id}-readout`, "aria-live": "polite" });
    const body = h("div", { class: "body" }, ...children);
    const place = h("div");
    const details = h(
        "details",
        { class: "data", toggle: () => refresh() },
        h("summary", {}, t("table.title"), h("span", { class: "hidden" }, `: ${t(title)}`)),
        place,
    );
    function refresh(): void {
        if (!sheet || !details.open) return;
        const numbers = sheet();
        place.replaceChildren(sheetTable(numbers, t(title)), csvLink(numbers, id));
    }
    const element = h(
        "section",
        { id, class: "view", "aria-labelledby": `${id}-title` },
        h("h2", { id: `${id}-title` }, t(title)),
        h("p", { class: "lead" }, t(lead)),
        body,
        output,
        sheet && details,
        chapterOf(id),
    );
    return { element, body, readout: (text) => say(output, text), refresh };
}

/** out = a group of buttons of which one is pressed. */
export function choice<T extends string>(
    label: string,
    options: [T, string][],
    current: () => T,
    pick: (value: T) => void,
    name?: string,
) {
    const buttons = options.map(([value, text]) => {
        const button = h("button", { type: "button", click: () => pick(value), "data-value": value }, text);
        if (name) button.id = `${name}-${value}`; /* by which it gets the focus back when the page is built anew */
        return button;
    });
    const update = (): void =>
        options.forEach(([value], i) => buttons[i]!.setAttribute("aria-pressed", String(value === current())));
    update();
    return { element: h("div", { class: "choice", role: "group", "aria-label": label }, ...buttons), update };
}

/** out = a labelled list. */
export function picker(label: string, id: string, options: [string, string][], change: (value: string) => void) {
    const list: HTMLSelectElement = h(
        "select",
        { id, change: () => change(list.value) },
        ...options.map(([value, text]) => h("option", { value }, text)),
    );
    const element = h("label", { class: "field" }, h("span", {}, label), list);
    return { element, list };
}

/** Keys on a focused figure: arrows move by steps, Page keys and shift by ten of them, Home and End to the ends. */
export function onArrows(node: HTMLElement, move: (dx: number, dy: number, end: -1 | 0 | 1) => void): void {
    node.addEventListener("keydown", (event) => {
        const big = event.shiftKey ? 10 : 1;
        const moves: Record<string, [number, number, -1 | 0 | 1]> = {
            ArrowLeft: [-big, 0, 0],
            ArrowRight: [big, 0, 0],
            ArrowUp: [0, -big, 0],
            ArrowDown: [0, big, 0],
            PageUp: [10, 0, 0],
            PageDown: [-10, 0, 0],
            Home: [0, 0, -1],
            End: [0, 0, 1],
        };
        const found = moves[event.key];
        if (!found || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        move(...found);
    });
}
