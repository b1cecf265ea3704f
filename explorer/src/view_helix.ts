/* view_helix.ts: e^(i d theta), the angle over a distance d, in three dimensions, turned by hand, and its three projections. */
import { colours, type Palette } from "./colour";
import { h, pointerAt, surface } from "./dom";
import { count, fixed, short } from "./numbers";
import { anglesAt, distance, frequencies, isUnseen, setup, theCore } from "./scene";
import { get, set } from "./state";
import { t } from "./text";
import { choice, frame, onArrows, type Sheet, type View } from "./view";

/* Points of the curve: along distances for one pair; or one for each pair at one distance, with no curve between them. */
interface Curve {
    cos: Float64Array;
    sin: Float64Array;
    along: Float64Array; // 0 .. 1
    at: Float64Array; // distance or pair
    unseen: boolean[];
    end: number; // of the axis
    here: number; // index of the state's distance or pair; -1 = not on it
    dots: boolean;
    joined: boolean;
}

const MOST_POINTS = 1500;
const TURNS = 6;

function alongDistances(): Curve {
    const of = setup();
    const { pair } = get();
    const d = distance();
    const wavelength = frequencies(of).wavelengths[pair]!;
    /* A fast pair would be a solid tube: its first turns are enough. */
    const end = Math.min(of.target, Math.max(16, Math.ceil(TURNS * wavelength)));
    const step = Math.max(1, Math.ceil(end / MOST_POINTS));
    const points = Math.floor((end - 1) / step) + 1;
    const { angle } = theCore().angles(of, 0, points, step);
    const row = angle.slice(pair * points, (pair + 1) * points);
    const at = Float64Array.from({ length: points }, (_, k) => k * step);
    return {
        cos: Float64Array.from(row, Math.cos),
        sin: Float64Array.from(row, Math.sin),
        along: at.map((far) => far / (end - 1 || 1)),
        at,
        unseen: Array.from(at, (far) => isUnseen(of, pair, far)),
        end,
        here: d >= 0 && d < end ? Math.round(d / step) : -1,
        dots: points < 140,
        joined: true,
    };
}

function alongPairs(): Curve {
    const of = setup();
    const { pair } = get();
    const d = distance();
    const row = anglesAt(of, d);
    const at = Float64Array.from(row, (_, i) => i);
    return {
        cos: Float64Array.from(row, Math.cos),
        sin: Float64Array.from(row, Math.sin),
        along: at.map((i) => i / Math.max(1, row.length - 1)),
        at,
        unseen: Array.from(row, (_, i) => isUnseen(of, i, d)),
        end: row.length,
        here: pair,
        dots: true,
        joined: false,
    };
}

const curve = (): Curve => (get().axis === "pair" ? alongPairs() : alongDistances());

type Project = (cos: number, sin: number, along: number) => [number, number, number]; // x, y on the screen; depth

/* Length of the axis against the radius of the circle. */
const LONG = 3.4;

function rotation(): Project {
    const yaw = (get().yaw * Math.PI) / 180;
    const pitch = (get().pitch * Math.PI) / 180;
    return (cos, sin, along) => {
        const x = (along - 0.5) * LONG;
        const turned = x * Math.cos(yaw) - sin * Math.sin(yaw);
        const depth = x * Math.sin(yaw) + sin * Math.cos(yaw);
        return [
            turned,
            -cos * Math.cos(pitch) + depth * Math.sin(pitch),
            depth * Math.cos(pitch) + cos * Math.sin(pitch),
        ];
    };
}

function drawSpace(canvas: HTMLCanvasElement, of: Curve, ink: Palette): void {
    const { context: pen, width, height } = surface(canvas);
    const project = rotation();
    const size = Math.min(width / (LONG + 1.1), height / 3.1);
    const place = (cos: number, sin: number, along: number): [number, number, number] => {
        const [x, y, depth] = project(cos, sin, along);
        return [width / 2 + x * size, height / 2 + y * size, depth];
    };
    const stroke = (from: [number, number, number], to: [number, number, number]): void => {
        pen.beginPath();
        pen.moveTo(...(place(...from).slice(0, 2) as [number, number]));
        pen.lineTo(...(place(...to).slice(0, 2) as [number, number]));
        pen.stroke();
    };
    pen.strokeStyle = ink.line;
    pen.lineWidth = 1;
    for (const end of [0, 1]) {
        pen.beginPath();
        for (let k = 0; k <= 72; k++) {
            const a = (k / 72) * 2 * Math.PI;
            const [x, y] = place(Math.cos(a), Math.sin(a), end);
            if (k) pen.lineTo(x, y);
            else pen.moveTo(x, y);
        }
        pen.stroke();
    }
    pen.strokeStyle = ink.quiet;
    stroke([0, 0, 0], [0, 0, 1]);
    stroke([0, 0, 0], [1, 0, 0]);
    stroke([0, 0, 0], [0, 1, 0]);
    pen.font = `11px ${ink.font}`;
    pen.fillStyle = ink.quiet;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const name = (text: string, at: [number, number, number]): void => {
        const [x, y] = place(...at);
        const half = pen.measureText(text).width / 2 + 2;
        pen.fillText(text, Math.min(width - half, Math.max(half, x)), y);
    };
    name("cos", [1.16, 0, 0]);
    name("sin", [0, 1.2, 0]);
    name(get().axis === "pair" ? t("axis.pair") : t("axis.distance"), [-0.25, 0, 1.14]);
    const n = of.cos.length;
    for (let k = of.joined ? 1 : 0; k < n; k++) {
        /* A pair is a hand of its own: it stands on the axis. */
        const [x0, y0] = of.joined
            ? place(of.cos[k - 1]!, of.sin[k - 1]!, of.along[k - 1]!)
            : place(0, 0, of.along[k]!);
        const [x1, y1, depth] = place(of.cos[k]!, of.sin[k]!, of.along[k]!);
        const near = (depth + 2) / 4; // what is far is thin
        pen.strokeStyle = of.unseen[k] ? ink.unseen : ink.accent;
        pen.globalAlpha = 0.35 + 0.65 * Math.min(1, Math.max(0, 1 - near));
        pen.lineWidth = 1 + 1.6 * Math.min(1, Math.max(0, 1 - near));
        if (of.dots) pen.globalAlpha *= 0.6;
        if (of.unseen[k]) pen.setLineDash([5, 3]);
        pen.beginPath();
        pen.moveTo(x0, y0);
        pen.lineTo(x1, y1);
        pen.stroke();
        pen.setLineDash([]);
        pen.globalAlpha = 1;
        if (!of.dots) continue;
        pen.fillStyle = of.unseen[k] ? ink.unseen : ink.accent;
        pen.beginPath();
        pen.arc(x1, y1, 2.4, 0, 2 * Math.PI);
        pen.fill();
    }
    if (of.here < 0 || of.here >= n) return;
    const tip: [number, number, number] = [of.cos[of.here]!, of.sin[of.here]!, of.along[of.here]!];
    pen.strokeStyle = ink.ink;
    pen.lineWidth = 2;
    stroke([0, 0, tip[2]], tip);
    const [x, y] = place(...tip);
    pen.fillStyle = ink.ink;
    pen.beginPath();
    pen.arc(x, y, 5, 0, 2 * Math.PI);
    pen.fill();
}

type Plane = "front" | "top" | "side";

/* One projection: the circle, or cosine or sine along the axis. */
function drawPlane(canvas: HTMLCanvasElement, of: Curve, plane: Plane, ink: Palette): void {
    const { context: pen, width, height } = surface(canvas);
    const r = Math.min(height, width) / 2 - 8;
    const place = (k: number): [number, number] => {
        if (plane === "front") return [width / 2 + of.sin[k]! * r, height / 2 - of.cos[k]! * r];
        const value = plane === "top" ? of.cos[k]! : of.sin[k]!;
        return [8 + of.along[k]! * (width - 16), height / 2 - value * r];
    };
    pen.strokeStyle = ink.line;
    pen.lineWidth = 1;
    pen.beginPath();
    if (plane === "front") pen.arc(width / 2, height / 2, r, 0, 2 * Math.PI);
    else {
        pen.moveTo(8, height / 2);
        pen.lineTo(width - 8, height / 2);
    }
    pen.stroke();
    /* Where the hand of a pair begins: on the axis. */
    const foot = (k: number): [number, number] =>
        plane === "front" ? [width / 2, height / 2] : [8 + of.along[k]! * (width - 16), height / 2];
    for (let k = of.joined ? 1 : 0; k < of.cos.length; k++) {
        pen.strokeStyle = of.unseen[k] ? ink.unseen : ink.accent;
        pen.lineWidth = 1.4;
        pen.globalAlpha = plane === "front" && of.dots ? 0.35 : 0.9;
        pen.beginPath();
        pen.moveTo(...(of.joined ? place(k - 1) : foot(k)));
        pen.lineTo(...place(k));
        pen.stroke();
    }
    pen.globalAlpha = 1;
    if (of.dots) {
        for (let k = 0; k < of.cos.length; k++) {
            pen.fillStyle = of.unseen[k] ? ink.unseen : ink.accent;
            pen.beginPath();
            pen.arc(...place(k), 1.9, 0, 2 * Math.PI);
            pen.fill();
        }
    }
    if (of.here < 0 || of.here >= of.cos.length) return;
    pen.fillStyle = ink.ink;
    pen.beginPath();
    pen.arc(...place(of.here), 4, 0, 2 * Math.PI);
    pen.fill();
}

function sheet(): Sheet {
    const of = curve();
    return {
        head: [get().axis === "pair" ? t("col.pair") : t("col.distance"), "cos", "sin", t("col.unseen.now")],
        rows: Array.from(
            of.cos,
            (cos, k) => [of.at[k]!, fixed(cos, 4), fixed(of.sin[k]!, 4), of.unseen[k] ? t("yes") : t("no")],
        ),
    };
}

export function helixView(): View {
    const space = h("canvas", {
        class: "helix-space",
        role: "slider",
        tabindex: 0,
        "aria-label": t("helix.turn"),
        "aria-valuemin": -180,
        "aria-valuemax": 180,
    });
    const axis = choice(
        t("helix.axis"),
        [
            ["position", t("helix.position")],
            ["pair", t("helix.pair")],
        ],
        () => get().axis,
        (value) => set({ axis: value }),
    );
    const planes: [Plane, HTMLCanvasElement][] = (["front", "top", "side"] as const).map((
        plane,
    ) => [plane, h("canvas", { role: "img" })]);
    const names = { front: t("helix.front"), top: t("helix.top"), side: t("helix.side") };
    const row = h(
        "div",
        { class: "planes" },
        ...planes.map(([plane, canvas]) => {
            canvas.setAttribute("aria-label", names[plane]);
            return h("figure", { class: plane }, canvas, h("figcaption", {}, names[plane]));
        }),
    );
    const view = frame("helix", "helix.title", "helix.lead", sheet, axis.element, space, row);

    const turnTo = (yaw: number, pitch: number): void =>
        set({ yaw: ((Math.round(yaw) + 540) % 360) - 180, pitch: Math.min(90, Math.max(-90, Math.round(pitch))) });
    let from: { x: number; y: number; yaw: number; pitch: number } | null = null;
    space.addEventListener("pointerdown", (event) => {
        space.setPointerCapture(event.pointerId);
        from = { ...pointerAt(event, space), yaw: get().yaw, pitch: get().pitch };
    });
    space.addEventListener("pointermove", (event) => {
        if (!from) return;
        const at = pointerAt(event, space);
        turnTo(from.yaw + (at.x - from.x) * 0.5, from.pitch + (at.y - from.y) * 0.5);
    });
    for (const end of ["pointerup", "pointercancel"]) space.addEventListener(end, () => (from = null));
    onArrows(space, (dx, dy, end) => (end ? turnTo(28, 18) : turnTo(get().yaw + dx * 4, get().pitch + dy * 4)));

    function draw(): void {
        const of = curve();
        const ink = colours();
        axis.update();
        drawSpace(space, of, ink);
        for (const [plane, canvas] of planes) drawPlane(canvas, of, plane, ink);
        const { pair, yaw, pitch } = get();
        space.setAttribute("aria-valuenow", String(yaw));
        space.setAttribute("aria-valuetext", t("helix.angles", { yaw, pitch }));
        const wavelength = short(frequencies(setup()).wavelengths[pair]!);
        view.readout(
            get().axis === "pair"
                ? t("helix.readout.pair", { d: count(distance()), n: of.end })
                : t("helix.readout.position", { pair, end: count(of.end), wavelength }),
        );
        view.refresh();
    }
    return { id: "helix", element: view.element, draw };
}
