import { dirname, join, normalize } from 'node:path';
import * as ts from 'typescript';

/** The flats of src, lowest first; a flat imports itself, and the doors of those before it. */
export const FLATS: readonly string[] = [
  'core',
  'config',
  'engine',
  'wire',
  'nn',
  'sharding',
  'training',
  'ledger',
  'programs',
  'planner',
  'figures',
  'cell',
  'launch',
  'torch',
  'session',
  'claims',
  'cli',
  'extras',
];

/**
 * Folders whose rooms have an order too, lowest first; a room imports itself and those before it. '.' is the files of the folder
 * itself and all rooms that are not named here.
 */
export const ROOMS: Readonly<Record<string, readonly string[]>> = {
  engine: ['backend', 'autograd'],
  wire: ['transport', 'dist'],
  sharding: ['optim', '.', 'names'],
  training: ['data', 'checkpoint', '.'],
  'training/checkpoint': ['format', 'state', 'save', 'load', 'reshard', 'pretrained'],
  programs: [
    'shell',
    'rows',
    'launchers',
    'megatron',
    'deepspeed',
    'accelerate',
    'trainers',
    'python',
    'videos',
    'export',
    'registry',
    '.',
    'bundle',
  ],
  figures: ['format', 'grammar', 'static', '.', 'parity', 'plans'],
  launch: ['control', 'rank', '.'],
  session: ['plans', 'launch-check', 'walk', 'widgets', 'run', 'notebook'],
  claims: ['.', 'figures', 'notebook'],
};

/** Files beside a door that other flats may import: namespaces that cells see as a whole, and code that runs before any door. */
const BESIDE_DOORS =
  /^src\/(core\/(tf|code-cache\/.*)|cell\/tslab|programs\/toolkit|(nn|sharding)\/names\/.*)\.ts$/;

/** The names of src/index.ts and src/rank.ts in the order: above every folder. */
const FACADE = 'index and rank';

/** The flat that no import names: src works without it ([Note: extras] in src/programs/registry/registry.ts). */
const UNNAMED = 'extras';

/** The part of src that the kernel's front process may use. */
const FRONT_MAY_USE = ['core', 'cell'];

/** Source texts by their path from the clone's root, with forward slashes. */
export type Sources = ReadonlyMap<string, string>;

/** A relative import, of values or types, as two paths. */
interface Import {
  readonly from: string;
  readonly to: string;
}

/** Every import that points up the order, passes a door, or leaves the part for the kernel's front, each in a sentence. */
export function layerViolations(sources: Sources): readonly string[] {
  const imports = importsOf(sources);
  const wrong = imports.flatMap(({ from, to }) => upwardImport(from, to) ?? passedDoor(from, to) ?? []);
  return [...wrong, ...frontViolations(imports)];
}

/** An import of a file in another flat that is not the flat's door, or of a flat that no import names. */
function passedDoor(from: string, to: string): string | undefined {
  const flat = flatOf(to);
  if (flat === undefined || flat === FACADE || flat === flatOf(from)) return undefined;
  if (flat === UNNAMED) return `${from} imports ${to}: src/${UNNAMED} may be deleted, so no import names it.`;
  if (isDoor(to) || to.endsWith('.json') || BESIDE_DOORS.test(to)) return undefined;
  return `${from} imports ${to}: import from the flat's door, src/${flat}, and export the name there.`;
}

function upwardImport(from: string, to: string): string | undefined {
  const [lower, upper] = [flatOf(from), flatOf(to)];
  if (lower === undefined) return undefined;
  if (upper === undefined && /^claims\/.*\.json$/.test(to)) return undefined; // data that belongs to no folder of src
  if (upper === undefined) return `${from} imports ${to}: src imports nothing outside src.`;
  if (rankOf(upper) < rankOf(lower)) return undefined;
  if (upper === lower) return upwardRoom(lower, from, to);
  return (
    `${from} imports ${to}: ${lower} lies below ${upper}, and a flat imports only those below itself. ` +
    `Move what both need down, or pass it as an argument.`
  );
}

function upwardRoom(folder: string, from: string, to: string): string | undefined {
  const rooms = ROOMS[folder];
  if (rooms === undefined || isDoor(from)) return undefined;
  const [lower, upper] = [roomOf(folder, from, rooms), roomOf(folder, to, rooms)];
  if (upper === lower) return upwardRoom(`${folder}/${lower}`, from, to);
  if (rooms.indexOf(upper) <= rooms.indexOf(lower)) return undefined;
  return `${from} imports ${to}: ${folder}/${lower} lies below ${folder}/${upper}.`;
}

/** Whether a file is the door of a flat, which may export names of all rooms. */
export function isDoor(path: string): boolean {
  return /^src\/\w+\/index\.ts$/.test(path);
}

function roomOf(folder: string, path: string, rooms: readonly string[]): string {
  const [name = ''] = path.slice(`src/${folder}/`.length).split('/');
  const room = name.replace(/\.ts$/, '');
  return rooms.includes(room) ? room : '.';
}

/** The front process is kernel/main.ts and all its imports of kernel/; the executor is started by its path. */
function frontViolations(imports: readonly Import[]): readonly string[] {
  const front = new Set(['kernel/main.ts']);
  for (const file of front) {
    for (const { from, to } of imports) if (from === file && to.startsWith('kernel/')) front.add(to);
  }
  return imports
    .filter(({ from, to }) => front.has(from) && to.startsWith('src/'))
    .filter(({ to }) => !FRONT_MAY_USE.includes(flatOf(to) ?? ''))
    .map(({ from, to }) => `${from} imports ${to}: the kernel's front imports core and cell only.`);
}

/** The flat that contains a file; undefined outside src. Throws: Error when the order does not know the folder. */
export function flatOf(path: string): string | undefined {
  const [top, folder, ...rest] = path.split('/');
  if (top !== 'src' || folder === undefined) return undefined;
  if (rest.length === 0) return FACADE;
  if (!FLATS.includes(folder)) throw new Error(`${path}: src/${folder} is not in the order of flats.`);
  return folder;
}

function rankOf(layer: string): number {
  return layer === FACADE ? FLATS.length : FLATS.indexOf(layer);
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
