import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { root } from './places.mjs';

/**
 * [Note: vendored packages] Some packages ship far more than shardlab reads: source maps, five builds of the same code, binaries
 * of platforms and Nodes. The build writes what shardlab reads of them to build/node_modules, where Node and TypeScript find it
 * before the whole packages, from every file of the build, and the same in the clone and in the published package. The whole
 * packages are devDependencies. See docs/adr/021-vendored-packages.md.
 */
const SCRIPTS = join(root, 'scripts', 'lib', 'vendored');

/** The packages of TensorFlow.js; `types` are the declarations that the types of shardlab's exports name. */
const TFJS = [
  {
    name: 'tfjs-core',
    types: [
      'dist/index.d.ts',
      'dist/public/chained_ops/register_all_chained_ops.d.ts',
      'dist/register_all_gradients.d.ts',
    ],
  },
  { name: 'tfjs-layers', types: ['dist/index.d.ts'] },
  { name: 'tfjs-backend-cpu', types: ['dist/index.d.ts'] },
  { name: 'tfjs-backend-wasm', assets: ['tfjs-backend-wasm.wasm', 'tfjs-backend-wasm-simd.wasm'] },
];

/**
 * The platforms of zeromq's addon, and the folder that each comes from. An addon uses Node-API, so one serves every Node; of
 * those for Linux, this one needs the oldest glibc (2.25).
 */
const ADDONS = {
  'linux-x64': 'linux/x64/node/glibc-127-Release',
  'linux-arm64': 'linux/arm64/node/glibc-127-Release',
  'darwin-x64': 'darwin/x64/node/libc-115-Release',
  'darwin-arm64': 'darwin/arm64/node/libc-115-Release',
};

const FONT = '@expo-google-fonts/inter';
const FONT_WEIGHTS = ['400Regular', '600SemiBold', '700Bold'];

/** Writes build/node_modules anew. */
export async function vendorPackages(build) {
  const modules = join(build, 'node_modules');
  rmSync(modules, { recursive: true, force: true });
  for (const each of TFJS) await vendorTfjs(modules, each);
  copy(join(SCRIPTS, 'one-copy.cjs'), join(modules, '@tensorflow', 'one-copy.cjs'));
  vendorZeromq(modules);
  const font = folderOf(FONT);
  const files = FONT_WEIGHTS.map((weight) => join(weight, `Inter_${weight}.ttf`));
  for (const file of [...files, 'LICENSE']) copy(join(font, file), join(modules, FONT, file));
  writePackage(modules, FONT, {});
}

/** Writes one package of tfjs as one script with the packages that it needs, except the other packages of tfjs. */
async function vendorTfjs(modules, { name: short, types = [], assets = [] }) {
  const name = `@tensorflow/${short}`;
  const from = folderOf(name);
  const to = join(modules, name);
  const { main, version } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
  const { build } = createRequire(join(root, 'package.json'))('esbuild');
  await build({
    entryPoints: [join(from, main)],
    outfile: join(to, 'dist', 'bundle.js'),
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node20',
    // Names stay, because messages and stacks show them.
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'eof',
    // tfjs requires node-fetch only in Nodes that have no fetch.
    external: ['@tensorflow/*', 'node-fetch'],
    logLevel: 'warning',
  });
  const bundle = join(to, 'dist', 'bundle.js');
  writeFileSync(bundle, withOwnNames(readFileSync(bundle, 'utf8'), readFileSync(join(from, main), 'utf8')));
  const parts = [name, version, main].map((part) => `'${part}'`).join(', ');
  const script = `module.exports = require('../../one-copy.cjs').oneCopy(${parts}, () => require('./bundle.js'));\n`;
  writeFileSync(join(to, main), script);
  const entries = types.map((entry) => join(from, entry));
  for (const [file, text] of declarations(entries, name, from)) write(join(to, relative(from, file)), text);
  for (const file of assets) copy(join(from, 'dist', file), join(to, 'dist', file));
  writePackage(modules, name, { main, types: types[0] });
}

/**
 * Gives constructors their names of the source again, because messages show them. tfjs writes a class as `X = function () { function
 * X() {} … }`, and esbuild calls the inner function X2. A numbered name that the source itself has stays.
 */
function withOwnNames(bundle, source) {
  const written = new Set(source.match(/\b[A-Z]\w*\b/g));
  return bundle.replaceAll(/\b([A-Z][A-Za-z]*)[2-9]\b/g, (numbered, name) =>
    written.has(name) && !written.has(numbered) ? name : numbered,
  );
}

/** What declarations name of packages that shardlab does not contain, and what stands there instead. */
const FOREIGN_TYPES = [
  [/^\/\/\/ <reference types="@webgpu.*\n/m, ''],
  [/\bbuffer(\??): GPUBuffer;/g, 'buffer$1: object;'],
  [/: Long;/g, ': { readonly low: number; readonly high: number; toString(radix?: number): string };'],
];

/** Returns the declaration files that these files of a package reach, also by imports of the package's own name. */
function declarations(entries, name, folder) {
  const texts = new Map();
  const todo = [...entries];
  for (const file of todo) {
    if (texts.has(file)) continue;
    const text = readFileSync(file, 'utf8');
    texts.set(
      file,
      FOREIGN_TYPES.reduce((result, [foreign, ours]) => result.replace(foreign, ours), text),
    );
    for (const [, path] of text.matchAll(/(?:from |import\(|^import )["']([^"']*)["']/gm)) {
      const isOwn = path.startsWith(`${name}/`);
      if (!isOwn && !path.startsWith('.')) continue;
      const target = isOwn ? join(folder, path.slice(name.length)) : join(dirname(file), path);
      todo.push(existsSync(`${target}.d.ts`) ? `${target}.d.ts` : join(target, 'index.d.ts'));
    }
  }
  return texts;
}

function vendorZeromq(modules) {
  const from = folderOf('zeromq');
  const to = join(modules, 'zeromq');
  for (const file of ['index.js', 'draft.js', 'native.js', 'errors.js', 'util.js']) {
    write(
      join(to, 'lib', file),
      readFileSync(join(from, 'lib', file), 'utf8').replace(/^\/\/# sourceMapping.*$/m, ''),
    );
  }
  copy(join(SCRIPTS, 'load-addon.cjs'), join(to, 'lib', 'load-addon.js'));
  for (const [platform, folder] of Object.entries(ADDONS)) {
    copy(join(from, 'build', folder, 'addon.node'), join(to, 'addons', `${platform}.node`));
  }
  for (const file of ['LICENSE.txt', 'LICENSE_MPL-2.0.txt']) copy(join(from, file), join(to, file));
  writePackage(modules, 'zeromq', { main: 'lib/index.js' });
}

/** Writes the package.json of a vendored package: version, license and source of the whole one. */
function writePackage(modules, name, entries) {
  const { version, license, repository } = JSON.parse(
    readFileSync(join(folderOf(name), 'package.json'), 'utf8'),
  );
  const text = JSON.stringify({ name, version, license, repository, ...entries }, null, 2);
  write(join(modules, name, 'package.json'), `${text}\n`);
}

function folderOf(name) {
  return join(root, 'node_modules', name);
}

function write(file, text) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
  chmodSync(to, 0o644);
}
