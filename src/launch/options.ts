import { networkInterfaces } from 'node:os';
import { z } from 'zod';
import { anyValue, countSchema, parseOptions, pathSchema, positiveSchema, type ShapeOf } from '../config';
import { type Bytes, ConfigError, formatBytes, isFolder, ShardlabError, shown } from '../core';
import { findBlas } from '../engine';
import { type Link, type LinkName, type LinkNumbers, linkOf, type Nodes } from '../wire';
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
  /**
   * Divides the ranks into this number of nodes of equal size, in rank order, as torchrun does. Then `link` is each node's link to the other
   * nodes, of which the node's ranks have equal parts, and figures show which bytes leave a node. Default: no nodes.
   */
  readonly nodes?: number;
  /** Slows the wire between the ranks of one node down to this link. Default: as fast as the transport. */
  readonly intraNodeLink?: LinkName | LinkNumbers;
  /** The most bytes that a rank's engine may hold; an allocation above this limit throws OUT_OF_MEMORY. */
  readonly memoryLimit?: Bytes;
  /** The folder from which ranks resolve imports; default: the current folder. */
  readonly baseDir?: string;
  /** The time that ranks may take to start, in seconds; default 60, with engine 'torch' 180. */
  readonly startSeconds?: number;
}

/** Checked launch options with all defaults filled in. */
export interface LaunchPlan
  extends Required<
    Omit<LaunchOptions, 'link' | 'memoryLimit' | 'python' | keyof NodeOptions | keyof ClusterOptions>
  > {
  /** Where ranks of PyTorch run; undefined if the engine is 'wasm'. */
  readonly cluster: Cluster | undefined;
  readonly python: string | undefined;
  readonly link: Link | undefined;
  readonly nodes: Nodes | undefined;
  readonly memoryLimit: Bytes | undefined;
}

type NodeOptions = Pick<LaunchOptions, 'nodes' | 'intraNodeLink'>;

const ENGINES = ['wasm', 'torch'] as const;

/** Node's timers wait at most 2^31 - 1 ms; longer ones end at once. */
const MOST_SECONDS = Math.floor((2 ** 31 - 1) / 1e3);

const OPTIONS = {
  ...CLUSTER_OPTIONS,
  ranks: countSchema.describe(`a whole number from 1 to ${MAX_RANKS} per host`).nonoptional(),
  engine: z.enum(ENGINES).default('wasm'),
  python: pathSchema.describe('the path of a Python'),
  blas: z
    .union([z.enum(['auto', 'none']), z.object({ path: pathSchema })])
    .describe("'auto', 'none' or { path }")
    .default('auto'),
  transport: z.enum(['auto', 'shared-memory', 'zeromq']).default('auto'),
  link: anyValue<LinkName | LinkNumbers>(), // `linkOf` checks it
  nodes: countSchema,
  intraNodeLink: anyValue<LinkName | LinkNumbers>(), // `linkOf` checks it
  memoryLimit: positiveSchema.describe('a positive number of bytes, as 24e6'),
  baseDir: pathSchema.refine((folder) => isFolder(folder)).describe('the path of a folder'),
  startSeconds: positiveSchema
    .max(MOST_SECONDS)
    .describe(`a positive number of seconds, at most ${MOST_SECONDS}, because no timer waits longer`),
} satisfies ShapeOf<LaunchOptions>;

/**
 * Checks the options of `launch` against this machine.
 * Throws: CONFIG for a wrong or unknown option, LAUNCH when the ranks do not fit into memory.
 */
export function planLaunch(launchOptions: LaunchOptions, availableMemory: Bytes): LaunchPlan {
  const options = parseOptions('launch({ … })', launchOptions, OPTIONS);
  const { engine, blas, transport, memoryLimit, python } = options;
  checkEngineOptions(engine, launchOptions);
  const numHosts = engine === 'torch' ? (options.hosts?.length ?? 0) : 0;
  const { ranks } = options;
  checkRanks(ranks, Math.max(1, numHosts));
  const cluster = engine === 'torch' ? planCluster({ ...options, ranks }, networkInterfaces()) : undefined;
  if (typeof blas === 'object') checkBlas(blas);
  if (!cluster?.isElsewhere) checkFits(ranks, BASE_BYTES[engine], availableMemory);
  const baseDir = options.baseDir ?? currentFolder();
  const link = options.link === undefined ? undefined : linkOf(options.link);
  const nodes = nodesOf(ranks, options);
  const startSeconds = options.startSeconds ?? START_SECONDS[engine];
  return { ranks, engine, python, cluster, blas, transport, link, nodes, memoryLimit, baseDir, startSeconds };
}

/** Throws: CONFIG if the nodes do not divide the ranks, or if there is a link within nodes, but no nodes. */
function nodesOf(ranks: number, { nodes, intraNodeLink }: NodeOptions): Nodes | undefined {
  if (nodes === undefined) {
    if (intraNodeLink === undefined) return undefined;
    throw new ConfigError(
      'launch({ intraNodeLink }) is the link within a node, and the job has no nodes; add nodes, or write link',
    );
  }
  if (ranks % nodes !== 0) {
    throw new ConfigError(
      `launch({ nodes }): ${nodes} nodes do not divide ${ranks} ranks evenly; launch ${nodes * Math.max(1, Math.round(ranks / nodes))} ranks, or give another number of nodes`,
      { ranks, nodes },
    );
  }
  return { ranksPerNode: ranks / nodes, link: intraNodeLink === undefined ? null : linkOf(intraNodeLink) };
}

/** Throws: CONFIG if the file that the user names is not a BLAS, because ranks would silently use WebAssembly. */
function checkBlas(blas: { readonly path: string }): void {
  const blasOrReason = findBlas({ blas });
  if (blasOrReason.library !== null) return;
  throw new ConfigError(`blas: { path } names no BLAS that can be used: ${blasOrReason.reason}`, {
    path: shown(blas.path),
  });
}

function checkRanks(ranks: number, numHosts: number): void {
  const most = numHosts * MAX_RANKS;
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
  wasm: ['blas', 'transport', 'link', 'nodes', 'intraNodeLink', 'memoryLimit'],
  torch: ['python', 'launcher', 'hosts', 'partition', 'interface'],
};

/** Refuses options that the engine would ignore. */
function checkEngineOptions(engine: (typeof ENGINES)[number], options: LaunchOptions): void {
  for (const [only, names] of Object.entries(ONLY_OF)) {
    const option = only === engine ? undefined : names.find((name) => options[name] !== undefined);
    if (option === undefined) continue;
    throw new ConfigError(
      `launch({ ${option} }) is an option of engine '${only}', and the engine is '${engine}'; leave it out`,
      {
        option,
        engine,
      },
    );
  }
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
