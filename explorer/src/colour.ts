/* colour.ts: the colours of canvases, which follow the style sheet. */

import type { Look } from "./core";
import { h } from "./dom";

export interface Palette {
    ground: string;
    panel: string;
    ink: string;
    quiet: string;
    line: string;
    accent: string;
    unseen: string;
    trained: string;
    font: string;
}

let palette: Palette | null = null;

export function forgetPalette(): void {
    palette = null;
}

/** out = the colours that the style sheet gives in this theme. */
export function colours(): Palette {
    if (palette) return palette;
    const style = getComputedStyle(document.documentElement);
    const of = (name: string): string => style.getPropertyValue(name).trim();
    palette = {
        ground: of("--ground"),
        panel: of("--panel"),
        ink: of("--ink"),
        quiet: of("--quiet"),
        line: of("--line"),
        accent: of("--accent"),
        unseen: of("--unseen"),
        trained: of("--trained"),
        font: getComputedStyle(document.body).fontFamily,
    };
    return palette;
}

/** Gives each method and encoding its colour, which the core names: elements of class "of-yarn" have it as --own, in either
 * theme. */
export function paintLooks(looks: Look[]): void {
    const rules = looks.map(({ name, colour }) =>
        `.of-${name}{--own:${colour.light}}:root[data-theme="dark"] .of-${name}{--own:${colour.dark}}`
    );
    document.head.append(h("style", {}, rules.join("\n")));
}

type Rgb = [number, number, number];

/* OKLab to 8-bit sRGB. */
function fromOklab(lightness: number, a: number, b: number): Rgb {
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ];
    return linear.map((x) => {
        const y = x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
        return Math.round(255 * Math.min(1, Math.max(0, y)));
    }) as Rgb;
}

/** out = a pixel between two shades of one hue for x in 0 .. 1: dark blue for 0, cream for 1. */
export function shade(x: number): number {
    const y = Math.min(1, Math.max(0, x));
    const [r, g, b] = fromOklab(0.28 + 0.68 * y, 0.0 - 0.03 * (1 - y), -0.1 + 0.14 * y);
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** Fills the path with strokes of the colour at 45 degrees: what training never met, without relying on hue. */
export function hatch(context: CanvasRenderingContext2D, colour: string): CanvasPattern {
    const tile = document.createElement("canvas");
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    const size = 7;
    tile.width = tile.height = Math.round(size * ratio);
    const pen = tile.getContext("2d")!;
    pen.scale(ratio, ratio);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.3;
    pen.beginPath();
    for (const shift of [-size, 0, size]) {
        pen.moveTo(shift - 1, size + 1);
        pen.lineTo(shift + size + 1, -1);
    }
    pen.stroke();
    const pattern = context.createPattern(tile, "repeat")!;
    pattern.setTransform(new DOMMatrix().scale(1 / ratio));
    return pattern;
}
