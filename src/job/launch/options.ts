import { networkInterfaces } from 'node:os';
import { findBlas } from '../../backend/blas';
import { LONGEST_PATH } from '../../config/call-options';
import { requireKnownOptions } from '../../config/option-names';
import { ConfigError, ShardlabError } from '../../core/errors';
import { isFolder } from '../../core/regular-file';
import { shortened } from '../../core/shortened';
import { isRecord, shown } from '../../core/shown';
import { type Bytes, formatBytes } from '../../core/units';
import { type Link, type LinkName, type LinkNumbers, linkOf } from '../../transport/link';
import { CLUSTER_OPTIONS, type Cluster, type ClusterOptions, planCluster } from './cluster';

/**
 * The most ranks of one job. A rank is a process with its own engine on this machine; for larger jobs, use a plan instead.
 */
export const MAX_RANKS = 64;

/** Memory of a rank before it holds any tensor: Node, tfjs, the engine and its heap (measured 110 MB; rounded up). */
export const RANK_BASE_BYTES: Bytes = 128e6;

/** Memory of a rank of PyTorch before it holds any tensor (measured 310 MB with torch 2.13 for CPUs; rounded up). */
const TORCH_BASE_BYTES: Bytes = 350e6;

const BASE_BYTES = { wasm: RANK_BASE_BYTES, torch: TORCH_BASE_BYTES };

/** How long ranks may take to start. The import of PyTorch takes seconds, and on a busy machine up to a minute. */
const START_SECONDS = { wasm: 60, torch: 180 };

/** Options of `launch`: the number of ranks, and their engine, link and memory. */
export interface LaunchOptions extends ClusterOptions {
  /** Number of rank processes, 1 to 64. */
  readonly ranks: number;
  /** 'wasm' (default): Node processes with this library's engine; 'torch': processes of PyTorch, which torchrun starts. */
  readonly engine?: (typeof ENGINES)[number];
  /** With engine 'torch', the Python that has PyTorch; default: the Python of `npx shardlab engine torch`. */
  readonly python?: string;
  /**
   * The library for matmuls: 'auto' searches for one, 'none' uses WebAssembly, { path } names a library's file. Default
   * 'auto'.
   */
  readonly blas?: 'auto' | 'none' | { readonly path: string };
  /** How ranks exchange tensors; 'auto' (default) means shared memory if koffi and memfd work, else zeromq. */
  readonly transport?: 'auto' | 'shared-memory' | 'zeromq';
  /**
   * Slows the wire between ranks down to this link: a name such as '10GbE', or bandwidth and latency. By default, the wire is
   * as fast as the transport. A link that is faster than the transport has no effect.
   */
  readonly link?: LinkName | LinkNumbers;
  /** The most bytes that a rank's engine may hold; an allocation above this limit throws OUT_OF_MEMORY. */
  readonly memoryLimit?: Bytes;
  /** The folder from which ranks resolve imports; default: the current folder. */
  readonly baseDir?: string;
  /** The time that ranks may take to start, in seconds; default 60, with engine 'torch' 180. */
  readonly startSeconds?: number;
}

/** Checked launch options with all defaults filled in. */
export interface LaunchPlan
  extends Required<Omit<LaunchOptions, 'link' | 'memoryLimit' | 'python' | keyof ClusterOptions>> {
  /** Where ranks of PyTorch run; undefined if the engine is 'wasm'. */
  readonly cluster: Cluster | undefined;
  readonly python: string | undefined;
  readonly link: Link | undefined;
  readonly memoryLimit: Bytes | undefined;
}

const ENGINES = ['wasm', 'torch'] as const;

const KNOWN = [
  'ranks',
  'engine',
  'python',
  'blas',
  'transport',
  'link',
  'memoryLimit',
  'baseDir',
  'startSeconds',
  ...CLUSTER_OPTIONS,
];

/**
 * Checks the options of `launch` against this machine.
 * Throws: CONFIG for a wrong or unknown option, LAUNCH when the ranks do not fit into memory.
 */
export function planLaunch(options: LaunchOptions, availableMemory: Bytes): LaunchPlan {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError(`launch takes options, as launch({ ranks: 4 }), not ${show(options)}`);
  }
  requireKnownOptions('launch({ … })', options, KNOWN);
  const { engine = 'wasm', blas = 'auto', transport = 'auto', memoryLimit } = options;
  oneOf('engine', engine, ENGINES);
  checkEngineOptions(engine, options);
  const numHosts = engine === 'torch' && Array.isArray(options.hosts) ? options.hosts.length : 0;
  checkRanks(options.ranks, Math.max(1, numHosts));
  const cluster = engine === 'torch' ? planCluster(options, networkInterfaces()) : undefined;
  oneOf('transport', transport, ['auto', 'shared-memory', 'zeromq']);
  const isPath = isRecord(blas) && typeof blas.path === 'string';
  if (!isPath && blas !== 'auto' && blas !== 'none') throw wrong('blas', blas, "'auto', 'none' or { path }");
  if (isPath) checkBlas(blas);
  if (memoryLimit !== undefined) positive('memoryLimit', memoryLimit, 'bytes, as 24e6');
  const startSeconds = options.startSeconds ?? START_SECONDS[engine];
  positive('startSeconds', startSeconds, 'seconds');
  if (startSeconds > MOST_SECONDS)
    throw wrong('startSeconds', startSeconds, `at most ${MOST_SECONDS}, because no timer waits longer`);
  if (!cluster?.isElsewhere) checkFits(options.ranks, BASE_BYTES[engine], availableMemory);
  const baseDir = options.baseDir ?? currentFolder();
  if (typeof baseDir !== 'string' || baseDir.length > LONGEST_PATH || !isFolder(baseDir))
    throw wrong('baseDir', baseDir, 'the path of a folder');
  const link = options.link === undefined ? undefined : linkOf(options.link);
  const { python } = options;
  return {
    ranks: options.ranks,
    engine,
    python,
    cluster,
    blas,
    transport,
    link,
    memoryLimit,
    baseDir,
    startSeconds,
  };
}

/** Node's timers wait at most 2^31 - 1 ms; longer ones end at once. */
const MOST_SECONDS = Math.floor((2 ** 31 - 1) / 1e3);

/** Throws: CONFIG if the file that the user names is not a BLAS, because ranks would silently use WebAssembly. */
function checkBlas(blas: { readonly path: string }): void {
  const found = findBlas({ blas });
  if (found.library !== null) return;
  throw new ConfigError(`blas: { path } names no BLAS that can be used: ${found.reason}`, {
    path: shown(blas.path),
  });
}

function checkRanks(ranks: unknown, numHosts: number): asserts ranks is number {
  const most = numHosts * MAX_RANKS;
  if (typeof ranks !== 'number' || !Number.isInteger(ranks) || ranks < 1) {
    throw wrong('ranks', ranks, `a whole number from 1 to ${most}`);
  }
  if (ranks > most) {
    throw new ConfigError(
      `ranks is ${ranks}, but a job on ${numHosts === 1 ? 'one host' : `${numHosts} hosts`} has at most ${most} rank processes; launch ${most} or fewer`,
      { ranks, most },
    );
  }
}

function checkFits(ranks: number, baseBytes: Bytes, availableMemory: Bytes): void {
  const fits = Math.floor(availableMemory / baseBytes);
  if (ranks <= fits) return;
  throw new ShardlabError(
    'LAUNCH',
    `${ranks} ranks need ${formatBytes(ranks * baseBytes)} before they hold any tensor (${formatBytes(baseBytes)} each), ` +
      `but ${formatBytes(availableMemory)} of memory is free; ${fits === 0 ? 'free some memory' : `launch ${fits} or fewer`}`,
    { details: { ranks, fits, availableBytes: availableMemory } },
  );
}

/** Options that have an effect with one engine only. */
const ONLY_OF: Readonly<Record<(typeof ENGINES)[number], readonly (keyof LaunchOptions)[]>> = {
  wasm: ['blas', 'transport', 'link', 'memoryLimit'],
  torch: ['python', ...CLUSTER_OPTIONS],
};

/** Refuses options that the engine would ignore. */
function checkEngineOptions(engine: (typeof ENGINES)[number], options: LaunchOptions): void {
  for (const [only, names] of Object.entries(ONLY_OF)) {
    const given = only === engine ? undefined : names.find((name) => options[name] !== undefined);
    if (given === undefined) continue;
    throw new ConfigError(
      `launch({ ${given} }) is an option of engine '${only}', and the engine is '${engine}'; leave it out`,
      {
        option: given,
        engine,
      },
    );
  }
  const { python } = options;
  if (python !== undefined && (typeof python !== 'string' || python.length > LONGEST_PATH))
    throw wrong('python', python, 'the path of a Python');
}

function oneOf(name: string, value: unknown, allowed: readonly string[]): void {
  if (typeof value === 'string' && allowed.includes(value)) return;
  throw wrong(name, value, allowed.map((word) => `'${word}'`).join(' or '));
}

function positive(name: string, value: unknown, unit: string): void {
  if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return;
  throw wrong(name, value, `a positive number of ${unit}`);
}

/** Returns this process's folder. Throws: IO if the folder was deleted. */
function currentFolder(): string {
  try {
    return process.cwd();
  } catch (cause) {
    const message = 'the current folder was deleted; change to another folder, or set baseDir';
    throw new ShardlabError('IO', message, { cause });
  }
}

function wrong(name: string, value: unknown, wanted: string): ConfigError {
  return new ConfigError(`${name} is ${show(value)}, but must be ${wanted}`, { [name]: value });
}

function show(value: unknown): string {
  return typeof value === 'string' ? `'${shortened(value)}'` : shown(value);
}
