// bench.mjs: times the core under node: node explorer/bench.mjs, after scripts/build-explorer --core.  Prints medians.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))));
const core = await import(join(process.cwd(), 'build/explorer/core.mjs'));
const model = ['models/rope/config.json', 'models/rope/model.safetensors'];
core.setAssets(readFileSync('build/explorer/module/explorer.wasm'), new Map(model.map((path) => [path, readFileSync(path)])));

async function time(what, runs, work) {
    const times = [];
    for (let i = 0; i < runs; i++) {
        const start = performance.now();
        await work(i);
        times.push(performance.now() - start);
    }
    times.sort((a, b) => a - b);
    console.log(`${what}: ${times[runs >> 1].toFixed(2)} ms (least ${times[0].toFixed(2)}, most ${times.at(-1).toFixed(2)})`);
    return times[runs >> 1];
}

const page = await core.loadCore();
const setup = (base) => ({ method: 'yarn', factor: 0, base, headDim: 128, trained: 1024, target: 4096 });
await time('angles, 64 pairs x 4096 positions, another base each time', 101, (i) => page.angles(setup(10000 + i), 0, 4096));
await time('decay, 64 pairs x 512 distances', 101, (i) =>
    page.decay(setup(10000 + i), Float64Array.from({ length: 512 }, (_, d) => 8 * d)));
await time('bias alibi, 8 heads, 256 x 256', 51, () => page.bias('alibi', {}, 256));
const config = { name: 'config.json', data: readFileSync('tests/configs/llama-3.1-8b.json', 'utf8') };
await time('explain', 21, () => core.explain(config));
await time('extend to 512k', 11, () => core.extend(config, { to: 524288 }));
const engine = new core.ModelEngine(await core.loadAssets());
const text = readFileSync('include/gyre/gyre.h').subarray(0, 1025);
const once = await time('loss of 1024 bytes, one window', 11, () =>
    engine.lossByPosition(text, { methods: ['yarn'], context: 1024 }));
console.log(`${Math.round(1024 / (once / 1000))} bytes a second`);
