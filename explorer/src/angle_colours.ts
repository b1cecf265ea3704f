/* angle_colours.ts: the colours of angles, which are the same on every ground, and the map of them as pixels.  Nothing here
 * needs a page, so the tests run it under node. */

import type { Core, Setup } from "./core";

const STEPS = 1024;
const SHADES = 64; /* of grey between a wheel and its middle */
/* Wheels by how alike the angles of a pixel are; the core has the colours of all figures. */
const wheels = new Map<number, Uint32Array>();
let core: Core;

/** Takes the colours of angles from the core. */
export function takeColours(loaded: Core): void {
    core = loaded;
}

function wheelOf(resultant: number): Uint32Array {
    const step = Math.round(resultant * SHADES);
    let found = wheels.get(step);
    if (!found) wheels.set(step, (found = core.wheel(step / SHADES, STEPS)));
    return found;
}

/* out[k] = the pixel of angles[k], radians in -pi .. pi.  One row for each of resultants: 1 = the angles within a pixel point
 * alike; towards 0 they point all ways, and the pixel is grey. */
function paintAngles(angles: Float32Array, resultants: Float64Array, out: Uint32Array): void {
    const scale = STEPS / (2 * Math.PI);
    const columns = angles.length / resultants.length;
    resultants.forEach((resultant, row) => {
        const wheel = wheelOf(resultant);
        const end = (row + 1) * columns;
        for (let k = row * columns; k < end; k++) out[k] = wheel[((angles[k]! + Math.PI) * scale) & (STEPS - 1)]!;
    });
}

const STRENGTHS = 256;
let excesses: { colour: string; strength: number }[] = [];
let excessPixels = new Uint32Array(0);

function knowExcesses(): void {
    if (excesses.length) return;
    excesses = Array.from({ length: STRENGTHS + 1 }, (_, k) => core.excessColour((k / STRENGTHS) ** 2));
    excessPixels = Uint32Array.from(excesses, ({ colour, strength }) => {
        const rgb = parseInt(colour.slice(1), 16);
        const alpha = Math.round(255 * (0.25 + 0.75 * strength));
        return ((alpha << 24) | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
    });
}

/** out = the colour of an angle past the trained arc, and how strongly it is shown, 0 .. 1; excess: in arcs. */
export function excessColour(excess: number): { colour: string; strength: number } {
    knowExcesses();
    return excesses[Math.round(Math.sqrt(Math.min(1, Math.max(0, excess))) * STRENGTHS)]!;
}

/* out[k] = a pixel in the colour of excess[k], as opaque as it is strong. */
function paintExcess(excess: Float32Array, out: Uint32Array): void {
    knowExcesses();
    for (let k = 0; k < excess.length; k++) {
        if (excess[k] === 0) continue;
        out[k] = excessPixels[Math.round(Math.sqrt(Math.min(1, excess[k]!)) * STRENGTHS)]!;
    }
}

/** out = the colour of an angle as CSS. */
export function angleColour(angle: number): string {
    const turn = angle / (2 * Math.PI) + 0.5;
    const pixel = wheelOf(1)[Math.floor((turn - Math.floor(turn)) * STEPS) & (STEPS - 1)]!;
    return `rgb(${pixel & 255},${(pixel >> 8) & 255},${(pixel >> 16) & 255})`;
}

/* Pixels of a canvas, [pairs][columns]. */
export interface AngleMap {
    columns: number;
    pairs: number;
    angles: Uint32Array;
    past: Uint32Array; // how far past the trained arc, as opacity
}

/** out = the map of a rotation in so many columns, which share the distances below the target evenly; each has the mean over
 * all that it spans.  Distance d fills d - 1/2 .. d + 1/2. */
export function angleMap(of: Setup, columns: number): AngleMap {
    const step = of.target / columns;
    const from = (step - 1) / 2;
    const resultants = core.resultant(of, step);
    const { angle, pairs } = core.angles(of, from, columns, step);
    const map = { columns, pairs, angles: new Uint32Array(pairs * columns), past: new Uint32Array(pairs * columns) };
    paintAngles(angle, resultants, map.angles);
    paintExcess(core.excess(of, from, columns, step), map.past);
    return map;
}
