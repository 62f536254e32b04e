import type { Link, Nodes } from '../../wire';
import type { ControlAddress } from '../control/messages';

/** Name of the environment variable that holds a rank's setup. */
const VARIABLE = 'SHARDLAB_RANK';

/** Descriptors that a rank inherits in addition to its standard streams. */
export const SEGMENT_FD = 3;
export const LIFELINE_FD = 4;

/** The values that a rank process needs in addition to its descriptors. */
export interface RankSetup {
  readonly rank: number;
  readonly world: number;
  readonly engine: 'wasm';
  /** The library for matmuls: 'auto' searches for one, 'none' uses WebAssembly, { path } names a library's file. */
  readonly blas: 'auto' | 'none' | { readonly path: string };
  readonly memoryLimit: number | null;
  /** The shaped link; null if the wire is not slowed down. */
  readonly link: Link | null;
  /** The job's nodes; null if it has none. */
  readonly nodes: Nodes | null;
  readonly baseDir: string;
  readonly searchPaths: readonly string[];
  /** Size of the shared segment; null if ranks exchange tensors by messages. */
  readonly segmentBytes: number | null;
  /** One address per rank, if ranks exchange tensors by messages. */
  readonly planeAddresses: readonly string[];
  readonly control: ControlAddress;
  readonly folder: string;
  /** When the launcher started the process, on the machine's monotonic clock. */
  readonly startedSeconds: number;
}

/** Returns the environment of a rank: torchrun's variables, by node if the job has nodes, and the setup. */
export function rankEnvironment(
  setup: RankSetup,
  base: NodeJS.ProcessEnv,
  masterPort: number,
): NodeJS.ProcessEnv {
  const { rank, world, nodes } = setup;
  const places = nodes?.ranksPerNode ?? world;
  const node = Math.floor(rank / places);
  const first = node * places;
  return {
    ...base,
    RANK: String(rank),
    LOCAL_RANK: String(rank - first),
    GROUP_RANK: String(node),
    WORLD_SIZE: String(world),
    LOCAL_WORLD_SIZE: String(Math.min(world - first, places)),
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(masterPort),
    [VARIABLE]: JSON.stringify(setup),
  };
}

/** Returns the setup and removes it from the environment, so that child processes of the rank do not get it. */
export function takeRankSetup(env: NodeJS.ProcessEnv): RankSetup | undefined {
  const text = env[VARIABLE];
  delete env[VARIABLE];
  // `rankEnvironment` of the same version wrote this text.
  return text === undefined ? undefined : (JSON.parse(text) as RankSetup);
}
