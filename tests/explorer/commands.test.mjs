// commands.test.mjs: explain, diff, extend and show in the module print what the native command prints, byte for byte.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { core, inPage, native, temporary } from './support.mjs';

/** long double has 64 bits on x86 and falls back to double in the module: the last of 17 digits may differ. */
const rounded = (text) => text.replace(/\d+\.\d{15,}(e-?\d+)?/g, (digits) => Number(digits).toPrecision(14));

/** Both runs end alike.  out = that of the module. */
async function same(argv, paths = []) {
    const page = await inPage(argv, paths), here = native(argv);
    assert.equal(rounded(page.out), rounded(here.out), `standard output of gyre ${argv.join(' ')}`);
    assert.equal(rounded(page.err), rounded(here.err), `standard error of gyre ${argv.join(' ')}`);
    assert.equal(page.status, here.status, `status of gyre ${argv.join(' ')}`);
    return page;
}

/** The same for --json, whose numbers have every digit. */
async function sameJson(argv, paths) {
    const page = await inPage([...argv, '--json'], paths), here = native([...argv, '--json']);
    assert.equal(page.status, here.status, page.err);
    assert.equal(rounded(page.err), rounded(here.err));
    if (here.out) compare(JSON.parse(page.out), JSON.parse(here.out), argv.join(' '));
}

function compare(page, here, at) {
    if (typeof here === 'number' && !Number.isInteger(here))
        return assert.ok(Math.abs(page - here) <= 1e-9 * Math.abs(here), `${at}: ${page} is not ${here}`);
    if (typeof here === 'string') return assert.equal(rounded(page), rounded(here), at);
    if (here === null || typeof here !== 'object') return assert.equal(page, here, at);
    assert.deepEqual(Object.keys(page), Object.keys(here), at);
    for (const key of Object.keys(here)) compare(page[key], here[key], `${at}.${key}`);
}

const configs = ['llama-3.1-8b', 'qwen2.5-7b', 'deepseek-v3', 'gemma-3-12b', 'gpt-oss-20b', 'bloom-7b1', 'bert-base', 'gpt2',
    'chatglm3-6b', 'codellama-7b', 'deberta-v3-base', 'gemma-4', 'glm-4-9b-chat-1m', 'falcon-40b'];

for (const name of configs) {
    const path = `tests/configs/${name}.json`;
    test(`explain ${name}`, async () => {
        const page = await same(['explain', path], [path]);
        assert.equal(page.status, 0);
        assert.ok(page.out.length > 100, 'a page of text');
        await sameJson(['explain', path], [path]);
        for (const profile of ['hf-4.51', 'vllm', 'llama.cpp', 'reference'])
            await same(['explain', path, `--as=${profile}`, '--length=32k'], [path]);
    });
    test(`diff ${name}`, async () => {
        for (const profile of ['vllm', 'llama.cpp', 'hf-4.43']) await same(['diff', path, `--with=${profile}`], [path]);
    });
    test(`extend ${name}`, async () => {
        await same(['extend', path, '--to=128k'], [path]);
        await sameJson(['extend', path, '--to=1M'], [path]);
    });
}

test('diff of two files tells apart what they mean', async () => {
    const paths = ['tests/configs/llama-3.1-8b.json', 'tests/configs/qwen2.5-7b.json'];
    assert.equal((await same(['diff', ...paths], paths)).status, 3);
});

test('wrong options and files fail as in the command', async () => {
    await same(['explain']);
    await same(['explain', 'models/rope', '--lenght=4']);
    await same(['explain', 'models/rope', '--as']);
    await same(['explain', 'models/rope', '--as=hf']);
    await same(['explain', 'models/rope', 'models/rope']);
    await same(['explain', 'nowhere/config.json']);
    await same(['extend', 'models/rope']);
    const path = join(temporary, 'broken.json');
    writeFileSync(path, '{"model_type": "llama", "rope_theta": }');
    await same(['explain', path], [path]);
});

test('a config that extend writes is the one that the command writes', async () => {
    const source = 'tests/configs/qwen2.5-7b.json', target = join(temporary, 'new.json');
    const argv = ['extend', source, '--to=128k', '--method=yarn', `--write=${target}`];
    const here = native(argv);
    assert.equal(here.status, 0, here.err);
    const page = await core.runCommand(argv, new Map([[source, readFileSync(source)], [join(temporary, 'x'), new Uint8Array()]]));
    assert.equal(page.out, here.out);
    assert.deepEqual(page.written.get(target), new Uint8Array(readFileSync(target)));
});

test('the head of a GGUF is explained as the whole file', async () => {
    const path = join(temporary, 'rope.gguf');
    const converted = native(['convert', 'models/rope', '-o', path]);
    assert.equal(converted.status, 0, converted.err);
    const whole = native(['explain', path]), bytes = readFileSync(path);
    for (const length of [16384, bytes.length]) {
        const page = await core.explain({ name: path, data: new Uint8Array(bytes.subarray(0, length)) });
        assert.equal(page.err, whole.err);
        assert.equal(page.out, whole.out, `the first ${length} bytes`);
    }
    const cut = await core.explain({ name: path, data: new Uint8Array(bytes.subarray(0, 1000)) });
    assert.equal(cut.status, 1);
    assert.match(cut.err, /bytes are left|ends within/);
});

test('explain, diff and extend take options as the page has them', async () => {
    const data = readFileSync('tests/configs/llama-3.1-8b.json', 'utf8'), name = 'tests/configs/llama-3.1-8b.json';
    assert.equal((await core.explain({ name, data }, { as: 'vllm', length: 32768 })).out,
        native(['explain', name, '--as=vllm', '--length=32768']).out);
    assert.equal((await core.diff({ name, data }, null, { as: 'hf-4.43', with: 'hf-5' })).out,
        native(['diff', name, '--as=hf-4.43', '--with=hf-5']).out);
    assert.equal((await core.extend({ name, data }, { to: 262144 })).out, native(['extend', name, '--to=262144']).out);
    assert.equal((await core.explain('models/rope')).out, native(['explain', 'models/rope']).out);
});
