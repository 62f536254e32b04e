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
  // Every supported Node has SIMD, for which tfjs then asks.
  { name: 'tfjs-backend-wasm', assets: ['tfjs-backend-wasm-simd.wasm'] },
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

/** The declarations of tfjs that a user reads in an editor: operations, tensors, and what the packages export. Others lose their comments. */
const READ_BY_USERS = /\/ops\/[^/]*$|\/(tensor|globals|gradients|exports\w*)\.d\.ts$|\/optimizers\//;

/** Writes build/node_modules anew. */
export async function vendorPackages(build) {
  const modules = join(build, 'node_modules');
  rmSync(modules, { recursive: true, force: true });
  for (const each of TFJS) await vendorTfjs(modules, each);
  copy(join(SCRIPTS, 'one-copy.cjs'), join(modules, '@tensorflow', 'one-copy.cjs'));
  vendorZeromq(modules);
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
    const ours = FOREIGN_TYPES.reduce((result, [foreign, own]) => result.replace(foreign, own), text);
    texts.set(file, READ_BY_USERS.test(file) ? ours : withoutComments(ours));
    for (const [, path] of text.matchAll(/(?:from |import\(|^import )["']([^"']*)["']/gm)) {
      const isOwn = path.startsWith(`${name}/`);
      if (!isOwn && !path.startsWith('.')) continue;
      const target = isOwn ? join(folder, path.slice(name.length)) : join(dirname(file), path);
      todo.push(existsSync(`${target}.d.ts`) ? `${target}.d.ts` : join(target, 'index.d.ts'));
    }
  }
  return texts;
}

function withoutComments(declarations) {
  const ts = createRequire(join(root, 'package.json'))('typescript');
  const file = ts.createSourceFile('types.d.ts', declarations, ts.ScriptTarget.Latest);
  return ts.createPrinter({ removeComments: true }).printFile(file);
}

/**
 * Returns a library of Linux (ELF, 64 bits, little-endian) without its symbols for debuggers and its table of sections, which come
 * after everything that the program headers name; only these headers are read when it is loaded. Source: elf(5); as sstrip of ELFkickers.
 */
function withoutSymbols(library) {
  const [first, size, count] = [
    Number(library.readBigUInt64LE(32)),
    library.readUInt16LE(54),
    library.readUInt16LE(56),
  ];
  const ends = Array.from({ length: count }, (_, i) => {
    const at = first + i * size;
    return Number(library.readBigUInt64LE(at + 8) + library.readBigUInt64LE(at + 32));
  });
  const loaded = Buffer.from(library.subarray(0, Math.max(first + count * size, ...ends)));
  loaded.writeBigUInt64LE(0n, 40); // place of the table of sections
  loaded.writeUInt32LE(0, 60); // number of sections, and the one with their names
  return loaded;
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
    const addon = readFileSync(join(from, 'build', folder, 'addon.node'));
    write(
      join(to, 'addons', `${platform}.node`),
      platform.startsWith('linux') ? withoutSymbols(addon) : addon,
    );
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
