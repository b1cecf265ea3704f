/* view_map.ts: the angle of every pair over every distance, and the same under each method side by side. */
import { angleColour, angleMap, excessColour } from "./angle_colours";
import { colours, hatch } from "./colour";
import { h, onPointer, pointerAt, say, sizeOf, surface } from "./dom";
import { methodName } from "./knobs";
import { count, fixed, short, tokens, tokenTicks } from "./numbers";
import {
    anglesAt,
    distance,
    excessAt,
    FAMILY,
    frequencies,
    isUnseen,
    keyOf,
    methods,
    setup,
    unseenFrom,
    unseenPairs,
    unseenStretches,
} from "./scene";
import { get, set } from "./state";
import { sentences, t } from "./text";
import { frame, onArrows, type Sheet, type View } from "./view";
import type { Setup } from "./core";

const LEFT = 74;
const BOTTOM = 34;
const TOP = 18;

/* Pairs x columns of the screen; rows are stretched when they are shown. */
interface Painted {
    angles: HTMLCanvasElement;
    past: HTMLCanvasElement; // how far past the trained arc, as opacity
}

const canvases = (): Painted => ({ angles: h("canvas"), past: h("canvas") });

function put(canvas: HTMLCanvasElement, columns: number, pairs: number, pixels: Uint32Array): void {
    if (canvas.width !== columns || canvas.height !== pairs) {
        canvas.width = columns;
        canvas.height = pairs;
    }
    const bytes = new Uint8ClampedArray(pixels.buffer);
    canvas.getContext("2d")!.putImageData(new ImageData(bytes, columns, pairs), 0, 0);
}

/* out = pixels of the screen for a width in CSS pixels. */
function screenPixels(width: number): number {
    return Math.max(1, Math.round(width * Math.max(1, window.devicePixelRatio || 1)));
}

function paint(into: Painted, of: Setup, width: number): void {
    const { angles, past, columns, pairs } = angleMap(of, screenPixels(width));
    put(into.angles, columns, pairs, angles);
    put(into.past, columns, pairs, past);
}

interface Box {
    x: number;
    y: number;
    width: number;
    height: number;
}

/* Draws the pixels into a box, without a blend of pairs. */
function stretch(pen: CanvasRenderingContext2D, pixels: HTMLCanvasElement, box: Box): void {
    pen.imageSmoothingEnabled = false;
    pen.drawImage(pixels, box.x, box.y, box.width, box.height);
}

/* Strokes over the angles that training never had, in the colour of how far past its arc they are. */
function hatchUnseen(pen: CanvasRenderingContext2D, of: Setup, painted: Painted, box: Box): void {
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    const wide = screenPixels(box.width);
    const high = screenPixels(box.height);
    if (strokes.width !== wide || strokes.height !== high) {
        strokes.width = wide;
        strokes.height = high;
    }
    const ink = strokes.getContext("2d")!;
    ink.globalCompositeOperation = "source-over";
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, box.width, box.height);
    const row = (box.height * 2) / of.headDim;
    ink.fillStyle = hatch(ink, "#000");
    for (let i = 0; i < of.headDim / 2; i++) {
        for (const [from, to] of unseenStretches(of, i)) {
            const x = (box.width * from) / of.target;
            ink.fillRect(x, i * row, (box.width * to) / of.target - x, row + 0.5);
        }
    }
    ink.globalCompositeOperation = "source-in";
    ink.imageSmoothingEnabled = false;
    ink.drawImage(painted.past, 0, 0, box.width, box.height);
    pen.drawImage(strokes, box.x, box.y, box.width, box.height);
}

function wheelLegend(): HTMLCanvasElement {
    return h("canvas", { class: "wheel", "aria-hidden": "true" });
}

function drawWheel(canvas: HTMLCanvasElement): void {
    const { context: pen, width } = surface(canvas);
    const centre = width / 2;
    for (let k = 0; k < 180; k++) {
        const angle = (k / 180) * 2 * Math.PI;
        pen.fillStyle = angleColour(angle);
        pen.beginPath();
        pen.moveTo(centre, centre);
        pen.arc(centre, centre, centre - 1, angle - Math.PI / 2, angle - Math.PI / 2 + 0.045);
        pen.fill();
    }
    pen.fillStyle = colours().panel;
    pen.beginPath();
    pen.arc(centre, centre, centre * 0.5, 0, 2 * Math.PI);
    pen.fill();
}

/* out = positions of query and key that are so far apart: the key stays where it can. */
function apart(far: number): { m: number; n: number } {
    const { n, target } = get();
    const d = Math.min(target - 1, Math.max(0, far));
    const key = Math.min(n, target - 1 - d);
    return { m: key + d, n: key };
}

function sheet(): Sheet {
    const of = setup();
    const step = of.target / 8;
    const at = Array.from({ length: 8 }, (_, k) => Math.min(of.target - 1, Math.round((k + 1) * step) - 1));
    const angles = at.map((m) => anglesAt(of, m));
    const from = unseenFrom(of);
    const far = excessAt(of, of.target - 1);
    const { wavelengths } = frequencies(of);
    return {
        head: [
            t("col.pair"),
            t("col.wavelength"),
            ...at.map((d) => t("col.angle.between", { d: count(d) })),
            t("col.excess.at", { d: count(of.target - 1) }),
            t("col.unseen"),
        ],
        rows: Array.from(from, (first, i) => [
            i,
            short(wavelengths[i]!),
            ...angles.map((row) => fixed(row[i]!, 3)),
            `${short(100 * far[i]!, 3)} %`,
            Number.isFinite(first) ? first : t("never"),
        ]),
    };
}

interface Thumb {
    method: string;
    element: HTMLButtonElement;
    canvas: HTMLCanvasElement;
    note: HTMLElement;
    drawn: string;
}

function thumbs(): Thumb[] {
    return FAMILY.map((method) => {
        const canvas = h("canvas", { "aria-hidden": "true" });
        const note = h("small");
        const element = h(
            "button",
            { type: "button", class: "thumb", click: () => set({ method }) },
            h("b", {}, methodName(method)),
            h("span", { class: "thumb-map" }, canvas),
            note,
        );
        return { method, element, canvas, note, drawn: "" };
    });
}

/* Where the strokes are drawn before they get their colours. */
const strokes = h("canvas");
const scratch = canvases();

function drawThumb(thumb: Thumb): void {
    const of = setup(thumb.method);
    const place = sizeOf(thumb.canvas);
    const key = `${keyOf(of)} ${place.width}`;
    if (thumb.drawn === key || !place.width) return;
    thumb.drawn = key;
    paint(scratch, of, place.width);
    const { context, width, height } = surface(thumb.canvas);
    const box = { x: 0, y: 0, width, height };
    stretch(context, scratch.angles, box);
    hatchUnseen(context, of, scratch, box);
    const unseen = unseenPairs(of);
    const most = Math.max(...excessAt(of, of.target - 1));
    say(
        thumb.note,
        unseen
            ? t("map.thumb", { n: unseen, pairs: of.headDim / 2, p: short(100 * most, 2) })
            : t("map.thumb.none"),
    );
}

function pastSwatch(excess: number): HTMLElement {
    const { colour } = excessColour(excess);
    const title = t("excess", { p: short(100 * excess) });
    return h("i", { class: "swatch hatched", style: `--past:${colour}`, title });
}

export function mapView(): View {
    const painted = canvases();
    const over = h("canvas", {
        class: "map-over",
        role: "slider",
        tabindex: 0,
        "aria-label": t("map.aria"),
        "aria-valuemin": 0,
    });
    const small = thumbs();
    const wheel = wheelLegend();
    const legend = h(
        "ul",
        { class: "legend" },
        h("li", {}, wheel, t("map.wheel")),
        h("li", {}, ...[0.05, 0.25, 1].map((excess) => pastSwatch(excess)), t("legend.past")),
    );
    const family = h(
        "div",
        { class: "thumbs", role: "group", "aria-label": t("map.family") },
        ...small.map((one) => one.element),
    );
    const view = frame("map", "map.title", "map.lead", sheet, h("div", { class: "map" }, over), legend, family);
    let shown = "";
    let resting = 0;
    const place = (): { width: number; height: number } => ({
        width: sizeOf(over).width - LEFT - 8,
        height: sizeOf(over).height - TOP - BOTTOM,
    });

    onPointer(over, (event) => {
        const { x, y } = pointerAt(event, over);
        const { width, height } = place();
        const { target, dim } = get();
        const pair = Math.min(dim / 2 - 1, Math.max(0, Math.floor(((y - TOP) / height) * (dim / 2))));
        set({ ...apart(Math.floor(((x - LEFT) / width) * target)), pair });
    });
    onArrows(over, (dx, dy, end) => {
        const { target, dim, pair } = get();
        const step = Math.max(1, Math.round(target / 256));
        const next = end ? (end < 0 ? 0 : target - 1) : distance() + dx * step;
        set({
            ...apart(next),
            pair: Math.min(dim / 2 - 1, Math.max(0, pair + Math.sign(dy))),
        });
    });

    function drawOver(of: Setup): void {
        const { context: pen, width: full } = surface(over);
        const ink = colours();
        const { width, height } = place();
        const pairs = of.headDim / 2;
        const row = height / pairs;
        const box = { x: LEFT, y: TOP, width, height };
        stretch(pen, painted.angles, box);
        hatchUnseen(pen, of, painted, box);
        const x = (position: number): number => LEFT + (position / of.target) * width;
        const from = unseenFrom(of);
        /* The border between seen and unseen, as steps. */
        pen.strokeStyle = ink.unseen;
        pen.lineWidth = 1.75;
        pen.beginPath();
        from.forEach((first, i) => {
            if (first >= of.target) return;
            const before = i ? from[i - 1]! : Infinity;
            pen.moveTo(x(before < of.target ? before : first), TOP + i * row);
            pen.lineTo(x(first), TOP + i * row);
            pen.lineTo(x(first), TOP + (i + 1) * row);
        });
        pen.stroke();
        pen.font = `11px ${ink.font}`;
        pen.textBaseline = "middle";
        pen.textAlign = "right";
        const { wavelengths } = frequencies(of);
        const every = Math.max(1, Math.ceil(pairs / (height / 24)));
        for (let i = 0; i < pairs; i += every) {
            pen.fillStyle = ink.ink;
            pen.fillText(String(i), 20, TOP + (i + 0.5) * row);
            pen.fillStyle = ink.quiet;
            pen.fillText(short(wavelengths[i]!, 2), LEFT - 6, TOP + (i + 0.5) * row);
        }
        pen.fillStyle = ink.quiet;
        pen.textAlign = "left";
        pen.fillText(t("map.rows"), 2, 8);
        pen.textAlign = "center";
        for (const at of tokenTicks(of.target, width / 70)) {
            pen.fillStyle = ink.quiet;
            pen.fillRect(x(at), TOP + height, 1, 4);
            pen.fillText(tokens(at), Math.min(x(at), full - 14), TOP + height + 12);
        }
        pen.textAlign = "right";
        const step = Math.round(of.target / screenPixels(width));
        const meant = step > 1 ? ` ${t("map.mean", { k: step })}` : "";
        pen.fillText(t("axis.distance") + meant, LEFT + width, TOP + height + 27);
        if (of.trained < of.target) {
            pen.strokeStyle = ink.ground;
            pen.lineWidth = 3;
            pen.beginPath();
            pen.moveTo(x(of.trained), TOP);
            pen.lineTo(x(of.trained), TOP + height);
            pen.stroke();
            pen.strokeStyle = ink.ink;
            pen.lineWidth = 1.25;
            pen.setLineDash([5, 3]);
            pen.stroke();
            pen.setLineDash([]);
            pen.fillStyle = ink.ink;
            pen.textAlign = x(of.trained) > LEFT + width * 0.7 ? "right" : "left";
            pen.fillText(t("mark.trained", { n: tokens(of.trained) }), x(of.trained), 8);
        }
        const { pair } = get();
        const d = Math.max(0, distance());
        pen.strokeStyle = ink.ground;
        pen.lineWidth = 3;
        pen.strokeRect(x(d) - 5, TOP + pair * row - 2, 10, row + 4);
        pen.strokeStyle = ink.ink;
        pen.lineWidth = 1.5;
        pen.strokeRect(x(d) - 5, TOP + pair * row - 2, 10, row + 4);
    }

    function draw(): void {
        const of = setup();
        const start = performance.now();
        const { width } = place();
        const key = `${keyOf(of)} ${screenPixels(width)}`;
        if (shown !== key) {
            paint(painted, of, width);
            shown = key;
            performance.measure("explorer:angles", { start, end: performance.now() });
        }
        drawOver(of);
        drawWheel(wheel);
        for (const thumb of small) thumb.element.setAttribute("aria-pressed", String(get().method === thumb.method));
        /* The small maps wait until a knob rests: the large one has to follow it within a frame. */
        clearTimeout(resting);
        resting = window.setTimeout(() => small.forEach(drawThumb), small[0]!.drawn ? 50 : 0);
        const { pair, target } = get();
        const d = Math.max(0, distance());
        const angle = anglesAt(of, d)[pair]!;
        const first = unseenFrom(of)[pair]!;
        const text = t(isUnseen(of, pair, d) ? "map.unseen" : "map.seen", {
            d: count(d),
            pair,
            angle: fixed(angle, 2),
            from: count(first),
            p: short(100 * excessAt(of, d)[pair]!, 2),
        });
        over.setAttribute("aria-valuemax", String(target - 1));
        over.setAttribute("aria-valuenow", String(d));
        over.setAttribute("aria-valuetext", text);
        const follows = methods().some((known) => known.followsLength && known.name === of.method);
        view.readout(follows ? sentences(text, t("map.follows", { target: count(target) })) : text);
        view.refresh();
    }
    return {
        id: "map",
        element: view.element,
        draw,
    };
}
