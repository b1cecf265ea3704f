// assemble.mjs: makes the one HTML file: node explorer/assemble.mjs OUT.html, after the module and the bundles in the folder
// of OUT.html.  page.html has a place for each part.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const explorer = dirname(fileURLToPath(import.meta.url));
const root = dirname(explorer);
const target = process.argv[2];
const built = dirname(target);
const model = ['models/rope/config.json', 'models/rope/model.safetensors'];

const pack = (bytes) => gzipSync(bytes, { level: 9 }).toString('base64');
/** Of the text that the model reads first: more would take longer to read than people wait. */
const SAMPLE_BYTES = 4096;
const packed = (path) => pack(readFileSync(path));
/** The configs of configs.txt: a file of tests/configs and a name in each line. */
const configs = readFileSync(join(explorer, 'configs.txt'), 'utf8').trim().split('\n').map((line) => {
    const [file, ...name] = line.split(' ');
    return [name.join(' '), JSON.parse(readFileSync(join(root, 'tests/configs', `${file}.json`), 'utf8'))];
});
/** Text that may stand inside a <script>. */
const inert = (text) => text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
const script = (attributes, content) => `<script type="text/plain" ${attributes}>${content}</script>`;

const assets = [
    '<!-- CONFIG -->', // gyre explore CONFIG puts it here
    script('id="asset-module"', packed(join(built, 'module/explorer.wasm'))),
    script('id="asset-sample"', inert(readFileSync(join(root, 'include/gyre/gyre.h'), 'utf8').slice(0, SAMPLE_BYTES))),
    script('id="asset-configs"', pack(JSON.stringify(configs))),
    script('id="asset-worker"', inert(readFileSync(join(built, 'worker.js'), 'utf8'))),
    ...model.map((path) => script(`data-path="${path}"`, packed(join(root, path)))),
];
const style = join(built, 'page.css');
const parts = {
    STYLE: existsSync(style) ? `<style>${readFileSync(style, 'utf8')}</style>` : '',
    ASSETS: assets.join('\n'),
    SCRIPT: `<script>${inert(readFileSync(join(built, 'page.js'), 'utf8'))}</script>`,
};
let page = readFileSync(join(explorer, 'src/page.html'), 'utf8');
for (const [name, text] of Object.entries(parts)) {
    const place = `<!-- ${name} -->`;
    if (page.split(place).length !== 2) throw new Error(`page.html: needs one ${place}`);
    page = page.replace(place, () => text);
}
writeFileSync(target, page);
console.log(`${target}: ${(page.length / 1e6).toFixed(2)} MB`);
