// numbers.test.mjs: the numbers behind the views are those of the native library.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { core, native, nativeNumbers } from './support.mjs';

const page = await core.loadCore();
const setup = (method, more = {}) => ({ method, factor: 0, base: 10000, headDim: 128, trained: 4096, target: 16384, ...more });
const near = (a, b, relative, what) =>
    assert.ok(Math.abs(a - b) <= relative * Math.max(Math.abs(b), 1e-300), `${what}: ${a} is not ${b}`);

const setups = [setup('none'), setup('linear'), setup('linear:8'), setup('ntk:4'), setup('ntk-mixed'), setup('llama3'),
    setup('dynamic:2'), setup('by-parts'), setup('by-parts-paper'), setup('yarn', { base: 500000, trained: 8192, target: 131072 }),
    setup('dynamic-yarn'), setup('base:500000'), setup('ntk-past:4'), setup('yarn+resonance'),
    setup('clipped'), setup('clipped:30'), setup('clipped-hard'), setup('ntk:4+clipped-hard:12'),
    setup('yarn', { headDim: 32, trained: 256, target: 1024 })];

for (const s of setups)
    test(`angles, frequencies and a rotation: ${s.method}, ${s.headDim} channels, base ${s.base}`, () => {
        const from = s.target - 300, count = 300;
        const here = nativeNumbers(s.method, s.base, s.headDim, s.trained, s.target, from, count);
        const frequencies = page.frequencies(s), angles = page.angles(s, from, count);
        near(frequencies.attentionFactor, here.attention_factor, 1e-14, 'attention factor');
        here.inv_freq.forEach((rate, i) => near(frequencies.invFreq[i], rate, 1e-14, `frequency ${i}`));
        assert.equal(angles.angle.length, here.cos.length);
        here.cos.forEach((cosine, i) => {
            const angle = angles.angle[i]; // a float: half a unit of its last place below pi is 2^-23
            assert.ok(Math.abs(angle) <= Math.fround(Math.PI));
            assert.ok(Math.hypot(Math.cos(angle) - cosine, Math.sin(angle) - here.sin[i]) < 2 ** -22, `angle ${i}`);
        });
        const rotated = page.rotate(s, Float32Array.from({ length: s.headDim }, (_, i) => i + 1), from);
        here.rotated.forEach((value, i) => assert.ok(Math.abs(rotated[i] - value) <= 1e-6 * s.headDim, `channel ${i}`));
    });

test('a method without a number takes the factor', () => {
    assert.deepEqual(page.frequencies(setup('yarn', { factor: 8 })), page.frequencies(setup('yarn:8')));
    assert.equal(page.frequencies(setup('linear')).factor, 4);
    assert.equal(page.frequencies(setup('dynamic')).factor, 4);
    assert.equal(page.frequencies(setup('linear:2', { factor: 8 })).factor, 2);
});

test('the first unseen position', () => {
    const first = (s) => page.angles(s, 0, 1).unseenFrom;
    const none = first(setup('none')), turns = page.ramp(setup('none')).revolutions;
    none.forEach((at, i) => assert.equal(at, turns[i] >= 1 ? Infinity : 4096, `pair ${i}`));
    first(setup('linear')).forEach((at, i) => assert.equal(at, turns[i] >= 1 ? Infinity : 16384, `linear, pair ${i}`));
    first(setup('linear:2')).forEach((at, i) => assert.equal(at, turns[i] >= 1 ? Infinity : 8192, `linear:2, pair ${i}`));
    for (const method of ['rerope', 'leaky', 'self-extend', 'dca', 'dca-paper'])
        assert.ok(first(setup(method)).every((at) => at >= 16384), `${method} fits the target`);
    assert.ok(first(setup('self-extend:2')).some((at) => at < 16384), 'a group that is too small');
});

test('how far past the trained arc: the nearer end of it, in arcs', () => {
    for (const s of [setup('none'), setup('dynamic'), setup('ntk')]) {
        const trained = page.frequencies(s).trainedInvFreq, now = page.frequencies(s).invFreq, turn = 2 * Math.PI;
        const first = page.angles(s, 0, 1).unseenFrom;
        for (const d of [100, 4095, 5000, 9000, 16383]) {
            const got = page.excess(s, d, 1).slice();
            trained.forEach((rate, i) => {
                const arc = rate * s.trained, at = (d * now[i]) % turn;
                const want = arc >= turn || at <= arc ? 0 : Math.min(at - arc, turn - at) / arc;
                assert.ok(Math.abs(got[i] - want) < 1e-5 * Math.max(1, want), `${s.method}, pair ${i} at ${d}: ${got[i]}, ${want}`);
                if (d < Math.min(first[i], s.trained)) assert.equal(got[i], 0);
            });
        }
    }
    const worst = (method) => Math.max(...page.excess(setup(method, { headDim: 32, trained: 256, target: 1024 }), 1023, 1));
    assert.ok(worst('none') > 2.9 && worst('dynamic') < 1 && worst('linear') === 0, 'none is past it by three arcs');
    assert.deepEqual(page.excess(setup('none'), -5000, 1).slice(), page.excess(setup('none'), 5000, 1).slice());
});

test('a pixel of several distances has their mean, and none for a pair that goes round', () => {
    const s = setup('none'), { invFreq, wavelengths } = page.frequencies(s);
    const got = page.resultant(s, 8);
    for (const [i, rate] of invFreq.entries()) {
        let real = 0, imaginary = 0;
        for (let k = 0; k < 4096; k++) {
            const x = ((k + 0.5) / 4096 - 0.5) * 8;
            real += Math.cos(rate * x) / 4096;
            imaginary += Math.sin(rate * x) / 4096;
        }
        if (wavelengths[i] <= 8) assert.equal(got[i], 0, `pair ${i} goes round`);
        else near(got[i], Math.hypot(real, imaginary), 1e-4, `pair ${i}`);
    }
    assert.ok(wavelengths[0] < 8 && wavelengths[2] > 8);
    assert.ok(page.resultant(s, 0).every((r) => r === 1));
});

const STEPS = 1024; // of the wheel in this test
const channels = (pixel) => [0, 1, 2].map((k) => (pixel >>> (8 * k)) & 255);
const apart = (a, b) => Math.max(...a.map((value, k) => Math.abs(value - b[k])));
const wheels = Array.from({ length: 257 }, (_, k) => page.wheel(k / 256, STEPS));
/* out = the colour of the mean of e^(i angle) over distances from .. from + width. */
function meanColour(rate, from, width) {
    let real = 0, imaginary = 0;
    for (let k = 0; k < 128; k++) {
        const x = from + ((k + 0.5) / 128) * width;
        real += Math.cos(rate * x) / 128;
        imaginary += Math.sin(rate * x) / 128;
    }
    const turn = Math.atan2(imaginary, real) / (2 * Math.PI) + 0.5;
    return channels(wheels[Math.round(256 * Math.hypot(real, imaginary))][Math.floor(turn * STEPS) & (STEPS - 1)]);
}

/* 613 and 279: pixels of the map where the page has 1280 and 390; 1100: where a distance has more than a pixel. */
for (const [target, columns] of [[32768, 613], [32768, 279], [32768, 1226], [131072, 613], [1024, 1100]])
    test(`the map of angles paints the mean over each column: ${target} tokens, ${columns} columns`, () => {
        core.takeColours(page);
        const s = setup('none', { target }), span = target / columns, map = core.angleMap(s, columns);
        const { invFreq, wavelengths } = page.frequencies(s), grey = channels(page.wheel(0, 1)[0]);
        assert.equal(map.angles.length, invFreq.length * columns);
        invFreq.forEach((rate, i) => {
            const row = Array.from(map.angles.subarray(i * columns, (i + 1) * columns), channels);
            if (wavelengths[i] <= span) {
                assert.ok(row.every((colour) => apart(colour, grey) === 0), `pair ${i} goes round within a column: grey`);
                return;
            }
            for (let c = 0; c < columns; c += 7) {
                const wanted = meanColour(rate, c * span - 0.5, span);
                assert.ok(apart(row[c], wanted) <= 8, `pair ${i}, column ${c}: ${row[c]}, not ${wanted}`);
            }
            // A wave shorter than two pixels shows as one of another period: never as a slow one that can be seen.
            if (wavelengths[i] >= 2 * span) return;
            for (let c = 0; c + 8 <= columns; c++) {
                const mean = grey.map((_, k) => row.slice(c, c + 8).reduce((sum, colour) => sum + colour[k], 0) / 8);
                assert.ok(apart(mean, grey) <= 12, `pair ${i}, columns from ${c}: ${mean}`);
            }
        });
    });

test('a score is a sum of one bar for each pair, which only the distance moves', () => {
    const vector = (seed) => Float32Array.from({ length: 128 }, (_, i) => Math.sin(seed * (i + 1)));
    const q = vector(1.7), k = vector(0.6);
    for (const s of [setup('none'), setup('yarn')]) {
        const { bars, amplitude, phase } = page.score(s, q, k, 700, 450);
        const { invFreq } = page.frequencies(s);
        const rotated = [page.rotate(s, q, 700), page.rotate(s, k, 450)];
        let dot = 0;
        for (let i = 0; i < 128; i++) dot += rotated[0][i] * rotated[1][i];
        near(bars.reduce((a, b) => a + b), dot / Math.sqrt(128), 1e-4, 'the sum is the score');
        bars.forEach((bar, i) =>
            assert.ok(Math.abs(bar - amplitude[i] * Math.cos(250 * invFreq[i] + phase[i])) < 1e-5, `${s.method}, bar ${i}`));
        page.score(s, q, k, 700 + 100000, 450 + 100000).bars.forEach((bar, i) =>
            assert.ok(Math.abs(bar - bars[i]) < 1e-5, `bar ${i} stands still`));
        assert.ok(page.score(s, q, k, 701, 450).bars.some((bar, i) => Math.abs(bar - bars[i]) > 1e-2), 'and moves with the distance');
    }
    assert.throws(() => page.score(setup('none'), q.slice(1), k, 1, 0), core.CoreError);
});

test('colours of angles are those of the figures', () => {
    const of = (argv) => native(argv).out;
    const wheel = page.wheel(1, 4), grey = page.wheel(0, 4), part = (pixel, k) => (pixel >>> (8 * k)) & 255;
    assert.ok(grey.every((pixel) => pixel === grey[0]) && part(grey[0], 0) === part(grey[0], 2), 'no resultant is grey');
    const light = (pixel) => part(pixel, 0) + part(pixel, 1) + part(pixel, 2);
    assert.ok(light(wheel[1]) > light(wheel[0]) && light(wheel[2]) > light(wheel[3]), 'light near 0, dark near half a turn');
    assert.ok(part(wheel[2], 0) > part(wheel[2], 2) && part(wheel[1], 0) < part(wheel[1], 2), 'orange for positive angles');
    assert.equal(page.excessColour(0).strength, 0);
    assert.equal(page.excessColour(1).colour, '#b20020');
});

test('the angles of far pairs follow their rules', () => {
    const at = (method, distance) => page.angles(setup(method), distance, 1).angle[40];
    assert.equal(at('rerope:1000', 5000), at('none', 1000));
    assert.ok(Math.abs(at('leaky:4', 2048 + 400) - at('none', 2048 + 100)) < 1e-6);
    assert.equal(at('self-extend:8', 4000), at('none', 500 + 2048 - 256));
    assert.equal(at('dca:1200', 900), at('none', 900)); // chunks of 1000: within one
    for (const distance of [1500, 2500, 7500]) // the last token of a chunk, at 1200, and the key at 499
        assert.equal(at('dca:1200', distance), at('none', 701), `dca, distance ${distance}`);
});

test('decay is 1 at distance 0 and falls', () => {
    const distances = Float64Array.from({ length: 200 }, (_, i) => i * 20), decay = page.decay(setup('none'), distances);
    assert.equal(decay.mean[0], 1);
    near(decay.bound[0], 65 / 128, 1e-14, 'mean of 1 .. 64, over 64');
    const rates = page.frequencies(setup('none')).invFreq;
    for (const d of [1, 7, 199]) {
        let real = 0, imaginary = 0, sizes = 0;
        for (const rate of rates) {
            real += Math.cos(rate * distances[d]);
            imaginary += Math.sin(rate * distances[d]);
            sizes += Math.hypot(real, imaginary);
        }
        near(decay.mean[d], real / 64, 1e-12, `mean at ${distances[d]}`);
        near(decay.bound[d], sizes / 64 / 64, 1e-12, `bound at ${distances[d]}`);
        assert.ok(decay.bound[d] < decay.bound[0] && decay.mean[d] < 1);
    }
});

test('the ramp agrees with the counts of the command', () => {
    for (const method of ['yarn', 'by-parts', 'llama3', 'linear', 'none']) {
        const s = setup(method, { headDim: 32, trained: 256, target: 1024 }), ramp = page.ramp(s);
        const row = JSON.parse(native(['extend', 'models/rope', '--to=1k', `--methods=${method}:4`.replace('none:4', 'none'),
            '--json']).out);
        const text = JSON.stringify(row);
        assert.ok(text.includes(`"kept":${ramp.parts.kept}`), `${method}: ${ramp.parts.kept} kept`);
        assert.ok(text.includes(`"divided":${ramp.parts.divided}`), `${method}: ${ramp.parts.divided} divided`);
        assert.equal(ramp.kept.filter((k) => k === 1).length, ramp.parts.kept, method);
    }
});

test('clipping stops the last pairs', () => {
    const rates = page.frequencies(setup('none')).invFreq, kept = page.ramp(setup('clipped-hard:10')).kept;
    const soft = page.frequencies(setup('clipped:10')).invFreq, hard = page.frequencies(setup('clipped-hard:10')).invFreq;
    rates.forEach((rate, i) => {
        const j = i - 54; // its place among the last ten
        near(soft[i], j < 0 ? rate : rate * (1 + Math.cos((Math.PI * j) / 9)) / 2, 1e-14, `soft, pair ${i}`);
        assert.equal(hard[i], j < 0 ? rate : 0, `hard, pair ${i}`);
        assert.equal(kept[i], j < 0 ? 1 : 0, `kept, pair ${i}`);
    });
    const still = page.angles(setup('clipped-hard:10'), 5000, 1);
    assert.ok(still.unseenFrom.slice(54).every((at) => at === Infinity) && still.angle.slice(54).every((angle) => angle === 0));
});

test('biases', () => {
    const n = 64, cell = (bias, h, m, k) => bias.map[(h * n + m) * n + k];
    const alibi = page.bias('alibi', { heads: 8 }, n);
    for (const h of [0, 3, 7]) near(cell(alibi, h, 50, 20), -30 * 2 ** -(h + 1), 1e-7, `ALiBi, head ${h}`);
    assert.equal(alibi.bucket, null);
    for (const [h, factor] of [[0, 4], [3, 4], [7, 2.5]]) {
        const linear = page.bias('alibi-linear', { heads: 8, factor }, n), ntk = page.bias('alibi-ntk', { heads: 8, factor }, n);
        near(cell(linear, h, 50, 20), (-30 * 2 ** -(h + 1)) / factor, 1e-6, `linear slopes, head ${h}`);
        near(cell(ntk, h, 50, 20), (-30 * 2 ** -(h + 1)) / factor ** (h / 7), 1e-6, `NTK slopes, head ${h}`);
    }
    near(cell(page.bias('alibi-linear', {}, n), 0, 50, 20), -30 / 8, 1e-6, 'stretched four times unless told');
    assert.throws(() => page.bias('alibi-ntk', { factor: 0.5 }, n), /factor/);
    const log = page.bias('kerple-log', { heads: 2, r1: 2, r2: 0.5 }, n);
    near(cell(log, 1, 40, 10), -2 * Math.log(1 + 0.5 * 30), 1e-6, 'KERPLE, logarithm');
    const power = page.bias('kerple-power', { heads: 2, r1: 2, r2: 0.5 }, n);
    near(cell(power, 0, 40, 15), -2 * 25 ** 0.5, 1e-6, 'KERPLE, power');
    const table = Float32Array.from({ length: 64 }, (_, i) => i), t5 = page.bias('t5', { heads: 2, table }, n);
    for (const [m, k] of [[5, 5], [20, 3], [63, 0]])
        assert.equal(cell(t5, 1, m, k), table[2 * t5.bucket[m * n + k] + 1], `T5, query ${m}, key ${k}`);
    assert.equal(t5.bucket[20 * n + 15], 5, 'near distances have a bucket each');
    const deberta = page.bias('deberta', {}, n);
    assert.ok(deberta.map.every(Number.isNaN) && deberta.bucket[0] >= 0);
    const fire = page.bias('fire', { seed: 3 }, n), again = page.bias('fire', { seed: 3 }, n);
    assert.deepEqual(fire.map, again.map);
    assert.ok(page.bias('sandwich', {}, n).map.every(Number.isFinite) && fire.map.every(Number.isFinite));
    assert.throws(() => page.bias('alibi', {}, 5000), core.CoreError);
});

test('wrong setups are refused with the words of the core', () => {
    const refused = (s, words) => assert.throws(() => page.frequencies(s), (error) =>
        error instanceof core.CoreError && words.test(error.message));
    refused(setup('yarm'), /did you mean yarn/);
    refused(setup('ntk-past'), /needs a number/);
    refused(setup('none', { headDim: 7 }), /even|dim/);
    refused(setup('none', { trained: 0.5 }), /trained/);
    refused(setup('linear', { factor: 0.5 }), /factor/);
    refused(setup('none', { base: 0.5 }), /base/);
    assert.equal(page.frequencies(setup('none')).invFreq[0], 1, 'the core goes on');
});

test('methods have the colours and symbols of reports and figures', () => {
    const table = (path, pattern) => Object.fromEntries([...readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
        .matchAll(pattern)].map(([, name, ...rest]) => [name, rest]));
    const paints = table('src/report/report_palette.def', /^GYRE_REPORT_PAINT\((\w+), "(#\w+)", "(#\w+)"\)$/gm);
    const subjects = table('tools/common/subject_looks.def', /^METHOD_LOOK\("([^"]+)", (\w+), (\w+)\)$/gm);
    const marks = table('src/report/report_marks.def', /^GYRE_REPORT_MARK\((\w+), \d+, \d+, "([^"]+)"\)$/gm);
    const encodings = table('tools/common/subject_looks.def', /^ENCODING_LOOK\("([^"]+)", (\w+), (\w+)\)$/gm);
    const biases = ['alibi', 't5', 'kerple', 'kerple-power', 'fire', 'sandwich', 'deberta', 'rope'].map((name) => page.look(name));
    for (const { name, colour, symbol } of [...page.methods(), ...biases]) {
        const [paint, mark] = subjects[name] ?? encodings[name];
        assert.deepEqual([colour.light, colour.dark, symbol], [...paints[paint], ...marks[mark]], name);
    }
});

test('methods are those of the command', () => {
    const names = page.methods().map((m) => m.name);
    const help = native(['eval', '--help']).out.replace(/\s+/g, ' ');
    assert.match(help, new RegExp(`Any of ${names.join(', ')} `));
    const numbers = Object.fromEntries(page.methods().map((m) => [m.name, m.number]));
    assert.deepEqual([numbers.clipped, numbers['clipped-hard'], numbers['dynamic-linear'], numbers.dca],
        ['pairs', 'pairs', 'slopes', 'factor']);
});
