/* scene.ts: what the core says about the state, computed once for all views. */
import type { Core, Frequencies, MethodInfo, Ramp, Setup } from "./core";
import { get, type State } from "./state";

let core: Core;

export function useCore(loaded: Core): void {
    core = loaded;
}

export function theCore(): Core {
    return core;
}

/** out = the rotation of the state, under another method if one is named. */
export function setup(method?: string, state: Readonly<State> = get()): Setup {
    const name = method ?? state.method;
    return {
        method: name,
        factor: state.factor,
        base: state.base,
        headDim: state.dim,
        trained: state.trained,
        target: state.target,
    };
}

/** out = a text that differs for setups that rotate differently. */
export function keyOf(of: Setup): string {
    return [of.method, of.factor, of.base, of.headDim, of.trained, of.target].join(" ");
}

/** out = f, which remembers what it said about the last `most` setups. */
function remember<T>(f: (of: Setup) => T, most = 16): (of: Setup) => T {
    const known = new Map<string, T>();
    return (of) => {
        const key = keyOf(of);
        if (!known.has(key)) {
            if (known.size >= most) known.delete(known.keys().next().value as string);
            known.set(key, f(of));
        }
        return known.get(key)!;
    };
}

export const frequencies: (of: Setup) => Frequencies = remember((of) => core.frequencies(of));
export const ramp: (of: Setup) => Ramp = remember((of) => core.ramp(of));
/** out = [pairs] the first distance at which the angle between query and key is one that training did not have. */
export const unseenFrom: (of: Setup) => Float64Array = remember((of) => core.angles(of, 0, 1).unseenFrom.slice());
/** out = the stretches [from, to) of distances below the target at which the angle of pair i is one that training did not
 * have. A pair that goes on past a whole turn comes back to angles that it knows. */
export function unseenStretches(of: Setup, i: number): [number, number][] {
    const first = unseenFrom(of)[i]!;
    const turn = frequencies(of).wavelengths[i]!;
    const found: [number, number][] = [];
    for (let k = 0; first + k * turn < of.target; k++) {
        found.push([first + k * turn, Math.min(of.target, (k + 1) * turn)]);
        if (!Number.isFinite(turn)) break;
    }
    return found;
}
/** out = whether the angle of pair i over a distance is one that training did not have.  A key after the query is masked. */
export function isUnseen(of: Setup, i: number, distance: number): boolean {
    const first = unseenFrom(of)[i]!;
    if (distance < first) return false;
    const turn = frequencies(of).wavelengths[i]!;
    return !Number.isFinite(turn) || distance - turn * Math.floor(distance / turn) >= first;
}
/** out = [pairs] how far past the arc that training showed the angles over a distance are, in arcs. */
export function excessAt(of: Setup, distance: number): Float32Array {
    return core.excess(of, distance, 1).slice();
}
/** out = tokens from the key to the query; below 0 the key comes after it, and a causal model masks it. */
export function distance(): number {
    return get().m - get().n;
}
/** out = pairs that meet unseen angles at distances below the target length. */
export function unseenPairs(of: Setup): number {
    return unseenFrom(of).reduce((sum, from) => sum + (from < of.target ? 1 : 0), 0);
}

/** out = [pairs] radians in -pi .. pi at a position. */
export function anglesAt(of: Setup, position: number): Float32Array {
    return core.angles(of, position, 1).angle.slice();
}

/** The methods whose frequencies the views show. */
export function methods(): MethodInfo[] {
    return core.methods().filter((m) => !m.far && ["factor", "pairs", "none"].includes(m.number));
}

/** What may follow a method and moves the views; "" = nothing. */
export const MODIFIERS = ["", "+clipped", "+clipped-hard", "+resonance"] as const;

/** out = "yarn:4", "+clipped" of "yarn:4+clipped". */
export function splitMethod(method: string): [string, string] {
    const end = method.indexOf("+");
    return end < 0 ? [method, ""] : [method.slice(0, end), method.slice(end)];
}

/** The methods of the pictures side by side, in the order of the papers. */
export const FAMILY = ["none", "linear", "ntk", "dynamic", "by-parts", "yarn"] as const;
