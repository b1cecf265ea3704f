// support.mjs: the explorer's core under node, and the native command beside it.  GYRE and GYRE_NUMBERS name the native
// programs; build/release has them.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
process.chdir(root); // paths in messages are those of the test's files

/** out = path; without the file, the tests end with what builds it. */
function built(path, command) {
    if (existsSync(path)) return path;
    console.error(`tests/explorer: ${path} is missing; ${command} builds it`);
    process.exit(1);
}
const target = (name) => built(join(root, 'build/release', name), `cmake --build --preset release --target ${name === 'gyre' ? 'gyre_command' : name}`);
built(join(root, 'build/explorer/core.mjs'), 'scripts/build-explorer --core');

export const core = await import(join(root, 'build/explorer/core.mjs'));
const model = ['models/rope/config.json', 'models/rope/model.safetensors'];
core.setAssets(readFileSync('build/explorer/module/explorer.wasm'), new Map(model.map((path) => [path, readFileSync(path)])));

const gyre = process.env.GYRE ?? target('gyre');
const numbers = process.env.GYRE_NUMBERS ?? target('native_numbers');
// The page prints UTF-8, 100 columns wide, without colour.
const environment = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', COLUMNS: '100', HOME: '/nonexistent' };

/** out = status, out and err of the native command. */
export function native(argv) {
    const run = spawnSync(gyre, argv, { env: environment, encoding: 'utf8', maxBuffer: 1 << 26 });
    if (run.error) throw run.error;
    return { status: run.status, out: run.stdout, err: run.stderr };
}

/** out = the numbers of native_numbers.c. */
export function nativeNumbers(method, base, headDim, trained, target, from, count) {
    const argv = [method, base, headDim, trained, target, from, count].map(String);
    return JSON.parse(execFileSync(numbers, argv, { encoding: 'utf8', maxBuffer: 1 << 28 }));
}

/** out = the same run in the module, with the named files of the repository. */
export async function inPage(argv, paths = []) {
    return core.runCommand(argv, new Map(paths.map((path) => [path, readFileSync(path)])));
}

export const temporary = mkdtempSync(join(tmpdir(), 'gyre-explorer-'));
