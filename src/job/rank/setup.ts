import type { Link } from '../../transport/link';
import type { ControlAddress } from '../control/messages';

/** Name of the variable in which a rank finds what it is to do. */
const VARIABLE = 'SHARDLAB_RANK';

/** Descriptors that a rank inherits beside its standard streams. */
export const SEGMENT_FD = 3;
export const LIFELINE_FD = 4;

/** What a rank process needs to know beside its descriptors. */
export interface RankSetup {
  readonly rank: number;
  readonly world: number;
  readonly engine: 'wasm';
  /** What multiplies matrices: found by itself, none, or the library at `path`. */
  readonly blas: 'auto' | 'none' | { readonly path: string };
  readonly memoryLimit: number | null;
  /** null where the wire is as fast as it can. */
  readonly link: Link | null;
  readonly baseDir: string;
  readonly searchPaths: readonly string[];
  /** Size of the shared segment; null where ranks exchange tensors by messages. */
  readonly segmentBytes: number | null;
  /** One address a rank, where ranks exchange tensors by messages. */
  readonly planeAddresses: readonly string[];
  readonly control: ControlAddress;
  readonly folder: string;
  /** When the launcher started the process, on the host's monotonic clock. */
  readonly startedSeconds: number;
}

/** The environment of a rank: torchrun's variables, and the setup. */
export function rankEnvironment(
  setup: RankSetup,
  base: NodeJS.ProcessEnv,
  masterPort: number,
): NodeJS.ProcessEnv {
  const rank = String(setup.rank);
  const world = String(setup.world);
  return {
    ...base,
    RANK: rank,
    LOCAL_RANK: rank,
    GROUP_RANK: '0',
    WORLD_SIZE: world,
    LOCAL_WORLD_SIZE: world,
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(masterPort),
    [VARIABLE]: JSON.stringify(setup),
  };
}

/** Takes the setup out of the environment, so that processes that the rank starts do not get it. */
export function takeRankSetup(env: NodeJS.ProcessEnv): RankSetup | undefined {
  const text = env[VARIABLE];
  delete env[VARIABLE];
  // Written by rankEnvironment of the same version.
  return text === undefined ? undefined : (JSON.parse(text) as RankSetup);
}
