/* view_clock.ts: pairs of channels as clocks with two hands, of a query and a key.  A score sees the angle between them, so
 * the arc that training showed begins at the key's hand, and goes round with it. */
import type { Setup } from "./core";
import { excessColour } from "./angle_colours";
import { colours, type Palette } from "./colour";
import { h, onPointer, pointerAt, reducedMotion, say, setHeight, sizeOf, surface } from "./dom";
import { count, fixed, short } from "./numbers";
import { anglesAt, distance, excessAt, frequencies, isUnseen, ramp, setup, unseenFrom } from "./scene";
import { get, set } from "./state";
import { t } from "./text";
import { frame, onArrows, type Sheet, type View } from "./view";
import { wallClock } from "./wall_clock";

interface Hands {
    setup: Setup;
    query: Float32Array;
    key: Float32Array;
    plainQuery: Float32Array; // under "none"
    arc: Float32Array; // from the least to the greatest trained distance, under "none"
    between: Float32Array; // from key to query
    excess: Float32Array; // of `between`, in arcs
    revolutions: Float64Array;
    unseenFrom: Float64Array;
}

function hands(): Hands {
    const { m, n, trained } = get();
    const now = setup();
    const none = setup("none");
    return {
        setup: now,
        query: anglesAt(now, m),
        key: anglesAt(now, n),
        plainQuery: anglesAt(none, m),
        arc: anglesAt(none, trained - 1),
        between: anglesAt(now, m - n),
        excess: excessAt(now, Math.max(0, m - n)),
        revolutions: ramp(now).revolutions,
        unseenFrom: unseenFrom(now),
    };
}

/* Clocks run clockwise from twelve: a canvas angle for a rotation. */
const turn = (angle: number): number => angle - Math.PI / 2;
const positive = (angle: number): number => (angle < 0 ? angle + 2 * Math.PI : angle);

interface Dial {
    x: number;
    y: number;
    r: number;
}

function hand(pen: CanvasRenderingContext2D, at: Dial, angle: number, reach: number): void {
    pen.beginPath();
    pen.moveTo(at.x, at.y);
    pen.lineTo(at.x + Math.cos(turn(angle)) * at.r * reach, at.y + Math.sin(turn(angle)) * at.r * reach);
    pen.stroke();
}

function face(pen: CanvasRenderingContext2D, at: Dial, i: number, of: Hands, ink: Palette, big: boolean): void {
    pen.lineWidth = 1;
    pen.strokeStyle = ink.line;
    pen.fillStyle = ink.ground;
    pen.beginPath();
    pen.arc(at.x, at.y, at.r, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
    /* The angles to a query that training had: a band along the rim, from the key's hand on. */
    const whole = of.revolutions[i]! >= 1;
    const rim = big ? 7 : Math.max(2, at.r * 0.13);
    pen.lineWidth = rim;
    pen.strokeStyle = ink.trained;
    pen.beginPath();
    const start = whole ? 0 : of.key[i]!; /* a sum with a whole turn may round to nothing */
    pen.arc(at.x, at.y, at.r - rim / 2, turn(start), whole ? turn(2 * Math.PI) : turn(start + positive(of.arc[i]!)));
    pen.stroke();
    const unseen = isUnseen(of.setup, i, distance());
    const hue = unseen ? excessColour(of.excess[i]!).colour : ink.ink;
    pen.lineCap = "round";
    if (big && get().method !== "none") {
        pen.setLineDash([2, 4]);
        pen.lineWidth = 1.5;
        pen.strokeStyle = ink.quiet;
        hand(pen, at, of.plainQuery[i]!, 0.86);
        pen.setLineDash([]);
    }
    pen.lineWidth = big ? 2 : 1;
    pen.strokeStyle = ink.quiet;
    if (big) pen.setLineDash([6, 4]);
    hand(pen, at, of.key[i]!, big ? 0.84 : 0.8);
    pen.setLineDash([]);
    pen.lineWidth = big ? 4 : 2;
    pen.strokeStyle = hue;
    hand(pen, at, of.query[i]!, big ? 0.84 : 0.8);
    pen.fillStyle = hue;
    pen.beginPath();
    pen.arc(at.x, at.y, big ? 5 : 1.8, 0, 2 * Math.PI);
    pen.fill();
    if (!unseen) return;
    /* A mark that does not need its colour: a square at the tip. */
    const tip = turn(of.query[i]!);
    const size = big ? 11 : 4;
    const reach = at.r * (big ? 0.84 : 0.8);
    pen.fillRect(at.x + Math.cos(tip) * reach - size / 2, at.y + Math.sin(tip) * reach - size / 2, size, size);
}

/* out = dials in rows that fill the width, as large as `most` pixels of height allow. */
function grid(width: number, most: number, pairs: number): { dials: Dial[]; columns: number; height: number } {
    let columns = Math.min(pairs, Math.max(1, Math.floor(width / 72)));
    while (columns < pairs && Math.ceil(pairs / columns) * (width / columns) > most) columns++;
    const cell = Math.min(width / columns, 84);
    const dials = Array.from({ length: pairs }, (_, i) => ({
        x: ((i % columns) + 0.5) * cell,
        y: (Math.floor(i / columns) + 0.5) * cell,
        r: cell * 0.4,
    }));
    return { dials, columns, height: Math.ceil(Math.ceil(pairs / columns) * cell) };
}

function degrees(angle: number): string {
    return `${fixed((positive(angle) * 180) / Math.PI, 0)}°`;
}

/* out = how far the angle between the hands is past what training showed, in words. */
function past(of: Hands, i: number): string {
    if (distance() < 0) return t("clock.masked");
    return isUnseen(of.setup, i, distance()) ? t("excess", { p: short(100 * of.excess[i]!, 2) }) : t("clock.seen");
}

function sheet(): Sheet {
    const of = hands();
    const { wavelengths } = frequencies(setup());
    const { m, n } = get();
    return {
        head: [
            t("col.pair"),
            t("col.wavelength"),
            t("col.angle.at", { m: count(m) }),
            t("col.angle.at", { m: count(n) }),
            t("col.angle.between", { d: m - n }),
            t("col.excess"),
            t("col.turns.trained"),
            t("col.unseen"),
        ],
        rows: Array.from(of.query, (angle, i) => [
            i,
            short(wavelengths[i]!),
            fixed(angle, 3),
            fixed(of.key[i]!, 3),
            fixed(of.between[i]!, 3),
            past(of, i),
            short(of.revolutions[i]!),
            Number.isFinite(of.unseenFrom[i]!) ? of.unseenFrom[i]! : t("never"),
        ]),
    };
}

function positions(): { element: HTMLElement; update(): void } {
    const rows = (["m", "n"] as const).map((key) => {
        const slider: HTMLInputElement = h("input", {
            type: "range",
            id: `clock-${key}`,
            min: 0,
            step: 1,
            input: () => set({ [key]: Number(slider.value) }),
        });
        const value = h("output", { for: `clock-${key}`, class: "number" });
        const label = h("label", { for: `clock-${key}`, class: `hand-${key}` }, t(key === "m" ? "clock.m" : "clock.n"));
        return { key, slider, value, element: h("div", { class: "slide" }, label, slider, value) };
    });
    let playing = 0;
    const play = h("button", { type: "button", class: "play", click: () => (playing ? stop() : start()) });
    function stop(): void {
        cancelAnimationFrame(playing);
        playing = 0;
        say(play, t("clock.play"));
    }
    function start(): void {
        const { m, n, target } = get();
        const gap = m - n;
        if (reducedMotion()) {
            const next = (m + Math.max(1, Math.round(target / 16))) % target;
            set({ m: next, n: Math.max(0, next - gap) });
            return;
        }
        let at = m;
        let last = performance.now();
        const tick = (now: number): void => {
            if (!play.isConnected) return;
            at = (at + ((now - last) / 1000) * (target / 24)) % target;
            last = now;
            set({ m: Math.floor(at), n: Math.min(target - 1, Math.max(0, Math.floor(at) - gap)) });
            playing = requestAnimationFrame(tick);
        };
        playing = requestAnimationFrame(tick);
        say(play, t("clock.pause"));
    }
    say(play, t("clock.play"));
    if (get().play && !reducedMotion()) requestAnimationFrame(start);
    return {
        element: h("div", { class: "slides" }, ...rows.map((row) => row.element), play),
        update() {
            for (const row of rows) {
                row.slider.max = String(get().target - 1);
                row.slider.value = String(get()[row.key]);
                say(row.value, count(get()[row.key]));
            }
        },
    };
}

export function clockView(): View {
    const large = h("canvas", { class: "clock-large", role: "img" });
    const small = h("canvas", {
        class: "clock-small",
        role: "slider",
        tabindex: 0,
        "aria-label": t("clock.dials"),
        "aria-valuemin": 0,
    });
    const ends = [0.05, 1].map((excess) => excessColour(excess).colour);
    const tip = h("i", { class: "swatch tip", style: `background:linear-gradient(90deg,${ends.join()})` });
    const facts = h("dl", { class: "facts" });
    const slides = positions();
    const legend = h(
        "ul",
        { class: "legend" },
        h("li", {}, h("i", { class: "swatch hand-m" }), t("clock.m")),
        h("li", {}, h("i", { class: "swatch hand-n" }), t("clock.n")),
        h("li", {}, h("i", { class: "swatch ghost" }), t("clock.plain")),
        h("li", {}, h("i", { class: "swatch rim" }), t("legend.seen")),
        h("li", {}, tip, t("legend.unseen")),
    );
    const top = h("div", { class: "clock-top" }, large, facts);
    const wall = wallClock();
    const view = frame("clock", "clock.title", "clock.lead", sheet, top, slides.element, small, legend, wall.element);
    let layout = grid(300, 180, 16);

    onPointer(small, (event) => {
        const { x, y } = pointerAt(event, small);
        let best = 0;
        layout.dials.forEach((dial, i) => {
            if (Math.hypot(dial.x - x, dial.y - y) < Math.hypot(layout.dials[best]!.x - x, layout.dials[best]!.y - y)) {
                best = i;
            }
        });
        set({ pair: best });
    });
    onArrows(small, (dx, dy, end) => {
        const last = get().dim / 2 - 1;
        const next = end ? (end < 0 ? 0 : last) : get().pair + dx + dy * layout.columns;
        set({ pair: Math.min(last, Math.max(0, next)) });
    });

    function fact(term: string, value: string, kind = ""): Node[] {
        return [h("dt", {}, term), h("dd", { class: kind }, value)];
    }

    function draw(): void {
        const { pair, m, n, dim } = get();
        const of = hands();
        const ink = colours();
        slides.update();
        wall.draw();
        const big = surface(large);
        const r = Math.min(big.width, big.height) / 2 - 3;
        face(big.context, { x: big.width / 2, y: big.height / 2, r }, pair, of, ink, true);
        const { width } = sizeOf(small);
        layout = grid(width, Math.max(170, width * 0.4), dim / 2);
        setHeight(small, layout.height);
        const { context } = surface(small);
        layout.dials.forEach((dial, i) => {
            if (i === pair) {
                context.fillStyle = ink.line;
                const side = dial.r * 2.4;
                context.fillRect(dial.x - side / 2, dial.y - side / 2, side, side);
            }
            face(context, dial, i, of, ink, false);
        });
        const d = distance();
        const unseen = isUnseen(of.setup, pair, d);
        const turns = of.revolutions[pair]!;
        const wavelength = frequencies(setup()).wavelengths[pair]!;
        const frequency = (2 * Math.PI) / wavelength;
        const text = past(of, pair);
        facts.replaceChildren(
            ...fact(t("col.pair"), `${pair} / ${dim / 2 - 1}`),
            ...fact(t("clock.wavelength"), t("unit.tokens", { n: short(wavelength) })),
            ...fact(t("clock.trained"), t("unit.turns", { n: short(turns) })),
            ...fact(
                t("clock.relative", { d: count(d) }),
                degrees(of.between[pair]!),
            ),
            ...fact(
                t("clock.unwrapped"),
                t("clock.unwrapped.value", {
                    angle: short(d * frequency),
                    turns: short((d * frequency) / (2 * Math.PI)),
                }),
            ),
            ...fact(t("clock.state"), text, unseen ? "unseen" : ""),
        );
        const at = t("clock.aria", {
            pair,
            m: count(m),
            angle: degrees(of.query[pair]!),
            n: count(n),
            other: degrees(of.key[pair]!),
            state: text,
        });
        large.setAttribute("aria-label", at);
        small.setAttribute("aria-valuemax", String(dim / 2 - 1));
        small.setAttribute("aria-valuenow", String(pair));
        small.setAttribute("aria-valuetext", at);
        const strange = Array.from(of.query).filter((_, i) => isUnseen(of.setup, i, d)).length;
        view.readout(
            d < 0
                ? t("clock.readout.masked", { d: count(-d) })
                : t("clock.readout", { d: count(d), unseen: strange, pairs: dim / 2 }),
        );
        view.refresh();
    }
    return { id: "clock", element: view.element, draw };
}
