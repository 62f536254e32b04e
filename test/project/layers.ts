import { dirname, join, normalize } from 'node:path';
import * as ts from 'typescript';

/** The folders of src, lowest first; a folder imports itself and those before it. */
export const LAYERS: readonly string[] = [
  'core',
  'config',
  'dialects',
  'backend',
  'autograd',
  'transport',
  'dist',
  'nn',
  'data',
  'optim',
  'parallel',
  'checkpoint',
  'train',
  'ledger',
  'plan',
  'figures',
  'cell',
  'job',
  'cli',
];

/**
 * Folders whose rooms have an order too, lowest first; a room imports itself and those before it. '.' is the files of the folder
 * itself, except those that are named here.
 */
export const ROOMS: Readonly<Record<string, readonly string[]>> = {
  dialects: [
    'shell',
    'rows',
    'launchers',
    'megatron',
    'deepspeed',
    'accelerate',
    'trainers',
    'python',
    'videos',
    '.',
  ],
  figures: ['format', 'grammar', 'static', '.', 'parity', 'plans', 'claims'],
  checkpoint: ['format', 'state', 'save', 'load', 'reshard', 'pretrained'],
  job: ['control', 'rank', 'plans', 'launch', 'torch', 'export', 'run', 'notebook'],
};

/** The names of src/index.ts and src/rank.ts in the order: above every folder. */
const FACADE = 'index and rank';

/** The part of src that the kernel's front process may use. */
const FRONT_MAY_USE = ['core', 'cell'];

/** Source texts by their path from the clone's root, with forward slashes. */
export type Sources = ReadonlyMap<string, string>;

/** A relative import, of values or types, as two paths. */
interface Import {
  readonly from: string;
  readonly to: string;
}

/** Every import that points up the folder order or leaves the part for the kernel's front, each in a sentence. */
export function layerViolations(sources: Sources): readonly string[] {
  const imports = importsOf(sources);
  const upward = imports.flatMap(({ from, to }) => upwardImport(from, to) ?? []);
  return [...upward, ...frontViolations(imports)];
}

function upwardImport(from: string, to: string): string | undefined {
  const [lower, upper] = [layerOf(from), layerOf(to)];
  if (lower === undefined) return undefined;
  if (upper === undefined && /^claims\/.*\.json$/.test(to)) return undefined; // data that belongs to no folder of src
  if (upper === undefined) return `${from} imports ${to}: src imports nothing outside src.`;
  if (rankOf(upper) < rankOf(lower)) return undefined;
  if (upper === lower) return upwardRoom(from, to);
  return (
    `${from} imports ${to}: ${lower} lies below ${upper}, and a folder imports only those below itself. ` +
    `Move what both need down, or pass it as an argument.`
  );
}

function upwardRoom(from: string, to: string): string | undefined {
  const folder = layerOf(from) ?? '';
  const rooms = ROOMS[folder];
  if (rooms === undefined) return undefined;
  const [lower, upper] = [roomOf(from, rooms), roomOf(to, rooms)];
  if (rooms.indexOf(upper) <= rooms.indexOf(lower)) return undefined;
  return `${from} imports ${to}: ${folder}/${lower} lies below ${folder}/${upper}.`;
}

function roomOf(path: string, rooms: readonly string[]): string {
  const [, , name = '', ...rest] = path.split('/');
  const room = name.replace(/\.ts$/, '');
  return rest.length > 0 || rooms.includes(room) ? room : '.';
}

/** The front process is kernel/main.ts and all its imports of kernel/; the executor is started by its path. */
function frontViolations(imports: readonly Import[]): readonly string[] {
  const front = new Set(['kernel/main.ts']);
  for (const file of front) {
    for (const { from, to } of imports) if (from === file && to.startsWith('kernel/')) front.add(to);
  }
  return imports
    .filter(({ from, to }) => front.has(from) && to.startsWith('src/'))
    .filter(({ to }) => !FRONT_MAY_USE.includes(layerOf(to) ?? ''))
    .map(({ from, to }) => `${from} imports ${to}: the kernel's front imports core and cell only.`);
}

/** The folder of src that contains a file; undefined outside src. Throws: Error when the order does not know the folder. */
function layerOf(path: string): string | undefined {
  const [top, folder, ...rest] = path.split('/');
  if (top !== 'src' || folder === undefined) return undefined;
  if (rest.length === 0) return FACADE;
  if (!LAYERS.includes(folder)) throw new Error(`${path}: src/${folder} is not in the order of folders.`);
  return folder;
}

function rankOf(layer: string): number {
  return layer === FACADE ? LAYERS.length : LAYERS.indexOf(layer);
}

/** All relative imports of these files, in every form of import. */
export function importsOf(sources: Sources): readonly Import[] {
  return [...sources].flatMap(([from, text]) =>
    ts
      .preProcessFile(text, true, true)
      .importedFiles.filter(({ fileName }) => fileName.startsWith('.'))
      .map(({ fileName }) => ({ from, to: resolve(from, fileName, sources) })),
  );
}

function resolve(from: string, specifier: string, sources: Sources): string {
  const path = normalize(join(dirname(from), specifier)).replace(/\.js$/, '');
  return [path, `${path}.ts`, `${path}/index.ts`].find((candidate) => sources.has(candidate)) ?? path;
}
