// model.test.mjs: the bundled model in the module gives the losses of gyre eval.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { MessageChannel } from 'node:worker_threads';
import { core, inPage, native, temporary } from './support.mjs';

const path = join(temporary, 'text.txt');
writeFileSync(path, readFileSync('include/gyre/gyre.h').subarray(20000, 22100));
const text = new Uint8Array(readFileSync(path));
const methods = ['none', 'linear', 'ntk:4', 'yarn', 'dynamic', 'self-extend', 'clipped', 'dca',
    'yarn+clipped-hard'];
const model = new core.ModelEngine(await core.loadAssets());
const near = (a, b, what) => assert.ok(Math.abs(a - b) <= 1e-5 * Math.abs(b), `${what}: ${a} is not ${b}`);

const evaluate = ['eval', 'models/rope', `--text=${path}`, '--contexts=512', `--methods=${methods}`, '--by-position=8',
    '--passkey=16', '--json'];
const here = JSON.parse(native(evaluate).out).results;

test('what the model is', () => {
    assert.deepEqual(model.info,
        { name: 'models/rope', parameters: 1037696, layers: 5, heads: 4, headDim: 32, base: 10000, trained: 256 });
});

test('loss by position under each method', () => {
    const seen = [], reported = [];
    const losses = model.lossByPosition(text, { methods, context: 512, buckets: 8 }, (done, all) => seen.push([done, all]),
        (loss) => reported.push(loss.method));
    assert.deepEqual(reported, methods);
    losses.forEach((loss, i) => {
        assert.equal(here[i].label, methods[i]);
        near(loss.perplexity, here[i].perplexity, `perplexity under ${methods[i]}`);
        here[i].by_position.forEach((nats, b) => near(loss.byPosition[b], nats, `${methods[i]}, part ${b}`));
        assert.equal(loss.windows, here[i].windows);
        assert.equal(loss.scored, here[i].scored);
    });
    assert.ok(losses[0].perplexity > losses[3].perplexity, 'yarn helps past the trained length');
    const [done, all] = seen.at(-1);
    assert.equal(done, all, 'progress ends at its whole');
    assert.ok(seen.length > 10 && seen.every(([d], i) => i === 0 || d >= seen[i - 1][0]));
});

test('gyre eval as a command prints the same losses', async () => {
    const argv = ['eval', 'models/rope', `--text=${path}`, '--contexts=256,512', '--methods=none,yarn', '--windows=2'];
    const page = await inPage([...argv, '--json'], [path]);
    assert.equal(page.status, 0, page.err);
    const [there, native_] = [page.out, native([...argv, '--json']).out].map((out) => JSON.parse(out).results);
    assert.equal(there.length, 4);
    there.forEach((row, i) => near(row.perplexity, native_[i].perplexity, `${row.label} at ${row.context}`));
    assert.equal((await inPage(argv, [path])).out, native(argv).out, 'the table, which is rounded');
});

test('with all positions moved the losses stay', () => {
    const options = { methods: ['none', 'yarn'], context: 256, windows: 2 };
    const here_ = model.lossByPosition(text, options), moved = model.lossByPosition(text, { ...options, first: 100000 });
    const there = JSON.parse(native(['eval', 'models/rope', `--text=${path}`, '--contexts=256', '--methods=none,yarn',
        '--windows=2', '--first-position=100000', '--json']).out).results;
    moved.forEach((loss, i) => {
        near(loss.perplexity, there[i].perplexity, `${loss.method}, as the command`);
        assert.ok(Math.abs(loss.nats - here_[i].nats) < 1e-4, `${loss.method} moved by ${loss.nats - here_[i].nats}`);
    });
});

test('weights of a head are those of gyre plot attention', () => {
    const part = text.subarray(0, 48);
    writeFileSync(join(temporary, 'part.txt'), part);
    const rows = native(['plot', 'attention', 'models/rope', `--text=${join(temporary, 'part.txt')}`, '--tokens=48', '--layer=3',
        '--head=2', '--methods=none,yarn:4', '--csv']).out.trim().split('\n').slice(1).map((line) => line.split(','));
    const heads = model.attention(part, ['none', 'yarn:4'], 3, 2);
    assert.equal(rows.length, 2 * 48 * 49 / 2);
    for (const [method, , query, key, weight] of rows) {
        const got = heads[method === 'none' ? 0 : 1].weights[query * 48 + +key];
        assert.ok(Math.abs(got - weight) < 1e-5, `${method}: query ${query}, key ${key}: ${got}, ${weight}`);
    }
    const { q, k, weights } = heads[0], setup = { method: 'none', factor: 0, base: 10000, headDim: 32, trained: 256, target: 256 };
    return core.loadCore().then((page) => {
        const score = (m, n) => page.score(setup, q.subarray(32 * m, 32 * m + 32), k.subarray(32 * n, 32 * n + 32), m, n)
            .bars.reduce((a, b) => a + b);
        const sum = Array.from({ length: 48 }, (_, n) => Math.exp(score(47, n))).reduce((a, b) => a + b);
        for (const n of [0, 20, 47])
            assert.ok(Math.abs(Math.exp(score(47, n)) / sum - weights[47 * 48 + n]) < 1e-4, `softmax of the sums at key ${n}`);
    });
});

test('keys found, as gyre eval counts them', () => {
    const rates = model.passkey(text, { methods, context: 512, trials: 16 });
    rates.forEach((rate, i) => near(rate.right / rate.trials, here[i].passkey, `keys under ${methods[i]}`));
    assert.ok(rates.some((rate) => rate.right > 0) && rates.some((rate) => rate.right < rate.trials));
});

test('one hidden key', () => {
    const near_ = model.hideKey(text, ['none', 'yarn'], 200, 7);
    for (const hidden of near_) {
        const digits = (at) => String.fromCharCode(...hidden.window.subarray(at, at + 4));
        assert.match(hidden.key, /^\d{4}$/);
        assert.equal(digits(hidden.keyAt), hidden.key);
        assert.equal(digits(hidden.askedAt), hidden.key);
        assert.equal(hidden.window.length, 200);
        assert.ok(hidden.keyAt < hidden.askedAt - 6);
        assert.equal(hidden.found, hidden.answer === hidden.key);
    }
    assert.ok(near_[0].found, 'within the trained length');
    const far = [1, 2, 3, 4, 5, 6].map((seed) => model.hideKey(text, ['none'], 1500, seed)[0]);
    assert.ok(far.some((hidden) => !hidden.found), 'not all at six times that length');
});

test('wrong calls are refused, and the model goes on', () => {
    assert.throws(() => model.lossByPosition(text, { methods: ['yarm'], context: 64 }), /did you mean yarn/);
    assert.throws(() => model.lossByPosition('short', { methods: ['none'], context: 64 }), /text/);
    assert.throws(() => model.hideKey(text, ['none'], 5000, 1), /context/);
    assert.equal(model.lossByPosition(text.subarray(0, 100), { methods: ['none'] }).length, 1);
});

test('the worker answers calls in order', async () => {
    const { port1, port2 } = new MessageChannel();
    const thread = { onmessage: null, postMessage: (reply) => port2.postMessage(reply) };
    core.serve(thread);
    const replies = [];
    const finished = new Promise((resolve) => port1.on('message', (reply) => {
        replies.push(reply);
        if (reply.id === 2) resolve();
    }));
    const { bytes, files } = await core.loadAssets();
    const send = (data) => thread.onmessage({ data });
    send({ kind: 'call', id: 0, name: 'hideKey', args: [text, ['none'], 200, 7] }); // before the model is there
    send({ kind: 'assets', bytes, files });
    send({ kind: 'call', id: 1, name: 'lossByPosition', args: [text, { methods: ['none'], context: 256, windows: 1 }] });
    send({ kind: 'call', id: 2, name: 'hideKey', args: [text, ['none'], 200, 7] });
    await finished;
    port1.close();
    assert.deepEqual(replies.filter((r) => r.kind !== 'progress').map((r) => [r.kind, r.id]),
        [['error', 0], ['ready', undefined], ['method', 1], ['result', 1], ['result', 2]]);
    assert.equal(replies.at(-1).result[0].found, true);
});
