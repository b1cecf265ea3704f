/* numbers.ts: numbers as people read them, and as they type them. */

/** out = 16384 as "16,384". */
export function count(n: number): string {
    return n.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** out = three digits that matter: 6.28, 353, 35,300. */
export function short(x: number, digits = 3): string {
    if (x === Infinity) return "∞";
    if (!Number.isFinite(x)) return "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e7 || size < 1e-4) {
        const [mantissa = "", exponent] = x.toExponential(digits - 1).split("e");
        return `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}·10${
            superscript(Number(exponent))
        }`;
    }
    return Number(x.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 8 });
}

/** out = `places` digits after the point, always. */
export function fixed(x: number, places: number): string {
    return Number.isFinite(x) ? x.toFixed(places).replace("-", "−") : x > 0 ? "∞" : "–";
}

export function superscript(n: number): string {
    return String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹".charAt(Number(c))));
}

/** out = 8k for 8192, 300 for 300: powers of two of tokens are said so in the field. */
export function tokens(n: number): string {
    if (n >= 1 << 20 && n % (1 << 20) === 0) return `${n >> 20}M`;
    if (n >= 1024 && n % 1024 === 0) return `${n / 1024}k`;
    return count(n);
}

/** out = the number that a person typed: "8k", "1M", "1e4", "10,000", "10 000"; NaN if it is none. */
export function typed(text: string): number {
    const match = /^([0-9.]+(?:e[+-]?[0-9]+)?)(k|m)?$/i.exec(text.replace(/[\s,×_]/g, ""));
    if (!match) return NaN;
    return Number(match[1]) * (!match[2] ? 1 : match[2].toLowerCase() === "k" ? 1024 : 1 << 20);
}

/** out = steps of 1, 2 and 5 times a power of ten, at most `most` of them from low to high. */
export function ticks(low: number, high: number, most: number): number[] {
    const rough = (high - low) / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough * 0.999) ?? 10 * power;
    const found: number[] = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) {
        found.push(Number((k * step).toPrecision(12)));
    }
    return found;
}

/** out = multiples of a power of two, at most `most` of them from 0 to high: lengths in tokens. */
export function tokenTicks(high: number, most: number): number[] {
    const step = Math.max(1, 2 ** Math.ceil(Math.log2(high / Math.max(1, most))));
    const found: number[] = [];
    for (let at = 0; at <= high; at += step) found.push(at);
    return found;
}

/** out = powers of ten from low to high, thinned to at most `most`. */
export function powerTicks(low: number, high: number, most: number): number[] {
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, most)));
    const found: number[] = [];
    for (let k = first; k <= last; k += step) found.push(10 ** k);
    return found;
}

/** out = 10 as "10", 100000 as "10⁵". */
export function power(x: number): string {
    const exponent = Math.round(Math.log10(x));
    return Math.abs(exponent) < 6 ? short(x) : `10${superscript(exponent)}`;
}
