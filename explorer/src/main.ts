/* main.ts: builds the page, and draws the views that are on the screen whenever the state changes. */
import "./page.css";
import "./knobs.css";
import "./charts.css";
import "./panels.css";
import "./figures.css";
import { loadCore } from "./core";
import { onlyViews } from "./chapters";
import { takeColours } from "./angle_colours";
import { forgetPalette, paintLooks } from "./colour";
import { h, onResize } from "./dom";
import { loadExamples } from "./examples";
import { type Knobs, knobs } from "./knobs";
import { theCore, useCore } from "./scene";
import { get, set, subscribe, type Theme } from "./state";
import { type Key, setLanguage, t } from "./text";
import { goTo, type Tour, tour, touredViews } from "./tour";
import { choice, type View } from "./view";
import { attentionView } from "./view_attention";
import { BIAS_LOOKS, biasView } from "./view_bias";
import { clockView } from "./view_clock";
import { decayView } from "./view_decay";
import { helixView } from "./view_helix";
import { mapView } from "./view_map";
import { modelView } from "./view_model";
import { wavesView } from "./view_waves";
import { yoursView } from "./view_yours";

let views: View[] = [];
let bar: Knobs;
let guide: Tour;
let observer: IntersectionObserver | null = null;
const visible = new Set<string>();
/* All views are drawn once when they appear: readers find their values before anyone scrolls. */
let everything = true;

function draw(): void {
    const start = performance.now();
    try {
        bar.update();
        for (const view of views) {
            if (!visible.has(view.id) && !(everything && !view.element.hidden)) continue;
            const begin = performance.now();
            view.draw();
            performance.measure(`explorer:${view.id}`, { start: begin, end: performance.now() });
        }
        everything = false;
        bar.complain("");
    } catch (error) {
        bar.complain((error as Error).message);
    }
    performance.measure("explorer:redraw", { start, end: performance.now() });
}

let waiting = false;
function schedule(): void {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
        waiting = false;
        draw();
    });
}

/* While the tour is on, only the views that a step looks at are there; in a page of the guide, those that it names. */
function arrange(): void {
    const only = onlyViews();
    const shown = touredViews() ?? only;
    everything = true;
    document.body.classList.toggle("touring", shown !== null);
    document.body.classList.toggle("alone", only !== null);
    for (const view of views) {
        view.element.hidden = shown !== null && !shown.includes(view.id);
        view.element.style.order = shown ? String(shown.indexOf(view.id)) : "";
    }
}

const VIEW_NAMES: [string, Key][] = [
    ["clock", "clock.title"],
    ["map", "map.title"],
    ["waves", "waves.title"],
    ["helix", "helix.title"],
    ["decay", "decay.title"],
    ["bias", "bias.title"],
    ["yours", "yours.title"],
    ["model", "model.title"],
    ["attention", "attention.title"],
];

function header(): HTMLElement {
    const languages = choice<"en" | "zh">(
        t("header.language"),
        [
            ["en", "English"],
            ["zh", "中文"],
        ],
        chosenLanguage,
        (lang) => set({ lang }),
        "language",
    );
    const themes = choice<Theme>(
        t("header.theme"),
        [
            ["auto", t("theme.auto")],
            ["light", t("theme.light")],
            ["dark", t("theme.dark")],
        ],
        () => get().theme,
        (theme) => set({ theme }),
        "theme",
    );
    return h(
        "header",
        {},
        h("div", { class: "title" }, h("h1", {}, t("header.title")), h("p", {}, t("header.lead"))),
        h("div", { class: "settings" }, languages.element, themes.element),
        h(
            "nav",
            { "aria-label": t("header.views") },
            h("button", { type: "button", class: "primary", id: "tour-start", click: () => goTo(1) }, t("tour.start")),
            ...VIEW_NAMES.map(([id, key]) =>
                h("a", { href: `#${id}`, click: (event: Event) => jump(event, id) }, t(key))
            ),
        ),
    );
}

/* The address holds the state, so links within the page scroll by hand. */
function jump(event: Event, id: string): void {
    event.preventDefault();
    if (get().step) goTo(0);
    const title = document.getElementById(`${id}-title`);
    title?.setAttribute("tabindex", "-1");
    document.getElementById(id)?.scrollIntoView();
    title?.focus({ preventScroll: true });
}

function chosenLanguage(): "en" | "zh" {
    return get().lang || (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
}

/* The rest of the body holds the module and the model. */
function place(): HTMLElement {
    return document.getElementById("page")!;
}

/* "auto" follows the system; a change of it builds the page anew. */
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
function setTheme(): void {
    const { theme } = get();
    document.documentElement.dataset.theme = theme !== "auto" ? theme : darkSystem.matches ? "dark" : "light";
}

/** Builds the page anew: at the start, and in another language or theme. */
function mount(): void {
    const focused = document.activeElement?.id;
    setLanguage(chosenLanguage());
    setTheme();
    forgetPalette();
    document.title = t("header.title");
    observer?.disconnect();
    visible.clear();
    bar = knobs();
    guide = tour();
    views = [clockView(), mapView(), wavesView(), helixView(), decayView(), biasView(), yoursView(), modelView(), attentionView()];
    const main = h("main", {}, ...views.map((view) => view.element));
    const footer = h("footer", {}, h("p", {}, t("footer.core", { version: theCore().version() })));
    place().replaceChildren(
        h("a", { class: "skip", href: "#map", click: (event: Event) => jump(event, "map") }, t("header.skip")),
        header(),
        bar.element,
        guide.element,
        main,
        footer,
    );
    observer = new IntersectionObserver(
        (entries) => {
            for (const entry of entries) {
                if (entry.isIntersecting) visible.add(entry.target.id);
                else visible.delete(entry.target.id);
            }
            schedule();
        },
        { rootMargin: "200px" },
    );
    for (const view of views) observer.observe(view.element);
    arrange();
    guide.update(false);
    schedule();
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

async function start(): Promise<void> {
    setTheme();
    place().append(h("p", { class: "loading", role: "status" }, "Gyre …"));
    try {
        useCore(await loadCore());
        await loadExamples();
        takeColours(theCore());
        paintLooks([...theCore().methods(), ...BIAS_LOOKS.map((name) => theCore().look(name))]);
    } catch (error) {
        place().replaceChildren(h("p", { class: "alert", role: "alert" }, String((error as Error).message)));
        return;
    }
    const given = document.getElementById("given-config"); /* gyre explore CONFIG puts it there */
    if (given && !get().config) set({ config: decodeURIComponent(given.textContent ?? "") });
    onResize(schedule);
    mount();
    if (given) requestAnimationFrame(() => document.getElementById("yours")?.scrollIntoView());
    subscribe((_, changed) => {
        if (changed.has("lang") || changed.has("theme")) return mount();
        if (changed.has("only")) arrange();
        if (changed.has("step")) {
            arrange();
            guide.update(true);
            scrollTo({ top: document.querySelector<HTMLElement>("header")!.offsetHeight });
        }
        schedule();
    });
    darkSystem.addEventListener("change", mount);
}

void start();
