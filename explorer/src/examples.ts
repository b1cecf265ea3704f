/* examples.ts: configs to begin with, from the tests of the library (configs.txt lists them). */
import { loadConfigs } from "./core";

let known: [string, string][] = [];

/** Unpacks the configs, before the page is built. */
export async function loadExamples(): Promise<void> {
    known = (await loadConfigs()).map(([name, config]) => [name, JSON.stringify(config, null, 2)]);
}

/** out = names, and texts of config.json; those that most people look for first. */
export function examples(): [string, string][] {
    return known;
}
