import {
  type Bytes,
  ConfigError,
  isIndex,
  isWhole,
  type Observer,
  openThreadCpuClock,
  ShardlabError,
} from '../../core';
import type { Engine } from '../../engine';
import type { CallSite } from '../transport/call';
import { MAX_RANKS } from '../transport/layout';
import type { JobLinks } from '../transport/links';
import type { Nodes } from '../transport/nodes';
import type { Plane } from '../transport/plane';
import { SharedMemoryPlane } from '../transport/shared-memory-plane';
import { createStatusBoard, StatusWriter } from '../transport/status-board';
import { openZeromqPlane } from '../transport/zeromq-plane';
import { findCallSite } from './call-site';
import { forgetGroups, type GroupContext, settleEnded } from './group-context';
import { Group, WORLD } from './process-group';
import type { ProcessGroup } from './types';

/** The way in which the ranks of a job exchange bytes. */
export type PlaneConfig =
  | {
      readonly kind: 'shared-memory';
      /** The file descriptor of the launcher's segment, which this process inherited. */
      readonly fd: number;
      readonly bytes: Bytes;
    }
  | {
      readonly kind: 'zeromq';
      /** The address of each rank (ipc:// or tcp://); each rank binds its own address. */
      readonly addresses: readonly string[];
      /** The job's secret, by which ranks recognise each other's messages. */
      readonly token: string;
      /** A buffer from createControlBuffer, into which the courier thread writes the launcher's aborts and resets. */
      readonly control: SharedArrayBuffer;
    };

export interface JoinOptions extends JobLinks {
  readonly rank: number;
  readonly world: number;
  /** The plane; required if `world` is 2 or more. */
  readonly plane?: PlaneConfig | undefined;
  readonly engine: Engine;
  readonly observer: Observer;
  /** A buffer from createStatusBoard, which the courier thread reads. */
  readonly statusBoard?: SharedArrayBuffer;
  /** Returns the call site of a collective. Default: a function that reads the call site from the stack. */
  readonly callSite?: () => CallSite;
  /**
   * Is called with every new group. The courier thread must know the ranks of each group to report which rank waits for which,
   * and it cannot read the main thread's objects.
   */
  readonly groupMade?: GroupContext['groupMade'];
}

/** A job's world, as one rank sees it. */
export interface World {
  readonly rank: number;
  readonly size: number;
  readonly group: ProcessGroup;
  readonly plane: Plane['kind'] | 'none';
  /** The job's nodes; undefined if the job has none. */
  readonly nodes?: Nodes | undefined;
  /** Must be called when a work of this rank (a cell or a call) begins; numbers of `ordinal` then start at 0. */
  beginWork(): void;
  /** Releases groups that no code can reach; see [Note: released groups]. */
  sweep(): void;
  /** Ends this rank's groups with ranks that were started again, except the group of all ranks. */
  forget(ranks: readonly number[]): void;
  /** Settles finished asynchronous work, then ends the comm thread. */
  close(): Promise<void>;
}

/**
 * Makes this process a rank of a job's world. All ranks must call this function.
 * Throws: CONFIG if rank or world is out of range, TRANSPORT if the plane does not work on this machine.
 */
export async function joinWorld(options: JoinOptions): Promise<World> {
  checkRankAndWorld(options);
  const { rank, world, engine, observer, nodes, callSite = findCallSite } = options;
  const board = options.statusBoard ?? createStatusBoard();
  const plane = await openPlane(options, board);
  const context: GroupContext = {
    engine,
    observer,
    status: new StatusWriter(board, 'main'),
    world,
    plane,
    callSite,
    groupMade: options.groupMade,
    nodes,
    numGroups: new Map(),
    restarted: new Map(),
    ordinals: new Map(),
    pending: new Set(),
    cpu: world === 1 ? undefined : openThreadCpuClock(),
  };
  return {
    rank,
    size: world,
    group: new Group(context, identityOf(options), plane?.world),
    plane: plane?.kind ?? 'none',
    nodes,
    beginWork: () => context.ordinals.clear(),
    sweep: () => plane?.sweep(),
    forget: (ranks) => forgetGroups(context, ranks),
    async close() {
      settleEnded(context);
      await plane?.close();
    },
  };
}

function identityOf({ rank, world }: JoinOptions) {
  return { name: WORLD, ranks: Array.from({ length: world }, (_, i) => i), rank, world };
}

async function openPlane(options: JoinOptions, statusBoard: SharedArrayBuffer): Promise<Plane | undefined> {
  const { plane, world, engine, link, nodes } = options;
  if (world === 1) return undefined;
  if (plane === undefined) {
    throw new ConfigError(`a world of ${world} ranks needs a plane: 'shared-memory' or 'zeromq'`);
  }
  const identity = identityOf(options);
  if (plane.kind === 'shared-memory') {
    checkAddresses(engine);
    return new SharedMemoryPlane({ ...plane, identity, link, nodes, statusBoard });
  }
  return openZeromqPlane({ ...plane, identity, link, nodes, statusBoard });
}

function checkAddresses(engine: Engine): void {
  if (engine.name === 'wasm') return;
  throw new ShardlabError(
    'TRANSPORT',
    `engine ${engine.name} does not give the addresses of its tensors, which shared memory needs; use the zeromq plane`,
  );
}

function checkRankAndWorld({ rank, world, plane }: JoinOptions): void {
  if (!isWhole(world, 1) || world > MAX_RANKS) {
    throw new ConfigError(`a world has 1 to ${MAX_RANKS} ranks, not ${world}`, { world });
  }
  if (!isIndex(rank, world)) {
    throw new ConfigError(`rank ${rank} is not in a world of ${world} (0 to ${world - 1})`, { rank, world });
  }
  if (plane?.kind === 'zeromq' && plane.addresses.length !== world) {
    throw new ConfigError(`${plane.addresses.length} addresses were given for ${world} ranks; give ${world}`);
  }
}
