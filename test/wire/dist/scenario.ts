import type { ErrorJson } from '../../../src/core/errors';
import type { CollectiveEvent } from '../../../src/core/events';
import type { Engine } from '../../../src/engine/backend/engine';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import type { World } from '../../../src/wire/dist/world';
import type { JobLinks } from '../../../src/wire/transport/links';

/** What a scenario works with, in a rank process. */
export interface RankContext {
  readonly world: World;
  readonly group: ProcessGroup;
  readonly engine: Engine;
  /** Collectives of this scenario so far. */
  readonly events: CollectiveEvent[];
  readonly statusBoard: SharedArrayBuffer;
}

/** Runs in every rank; what it returns goes to the test as JSON. */
export type Scenario = (context: RankContext) => unknown;

export type TestPlane = 'shared-memory' | 'zeromq';

/** The job's links and nodes, where there are any, and what a rank needs to join. */
export interface RankSetup extends JobLinks {
  readonly rank: number;
  readonly world: number;
  readonly plane?:
    | { readonly kind: 'shared-memory'; readonly fd: number; readonly bytes: number }
    | { readonly kind: 'zeromq'; readonly addresses: readonly string[]; readonly token: string };
}

export type RankRequest =
  | { readonly kind: 'scenario'; readonly file: string; readonly name: string }
  | { readonly kind: 'epoch' }
  | { readonly kind: 'close' };

export type RankReply =
  | { readonly kind: 'ready' }
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'error'; readonly error: ErrorJson };
