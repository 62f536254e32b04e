import { ShardlabError } from '../../core/errors';
import { probeSharedMemory } from '../../transport/native';
import { createSegment, SEGMENT_BYTES, type Segment } from '../../transport/segment';
import type { AbortSwitch } from '../control/abort-switch';
import type { ControlServer } from '../control/control-server';
import type { ToRank } from '../control/messages';
import type { LaunchPlan } from './options';

/**
 * The memory that the job's ranks will share, or undefined if they exchange tensors by messages.
 * Throws: TRANSPORT when the user demanded shared memory and the system refuses it.
 */
export function createJobSegment(transport: LaunchPlan['transport']): Segment | undefined {
  if (transport === 'zeromq') return undefined;
  const probe = probeSharedMemory(SEGMENT_BYTES);
  if (probe.ok) return createSegment();
  if (transport === 'auto') return undefined;
  throw new ShardlabError(
    'TRANSPORT',
    `shared memory between ranks is not possible here: ${probe.reason}; launch with transport: 'zeromq'`,
  );
}

/** Aborts through the shared segment if there is one, else by a message to each rank's courier. */
export function createAbortSwitch(
  segment: Segment | undefined,
  control: ControlServer,
  ranks: readonly number[],
): AbortSwitch {
  if (segment !== undefined) {
    return { abort: (reason) => void segment.abort(reason), reset: () => segment.reset() };
  }
  const tellAll = (message: ToRank): void => {
    for (const rank of ranks) control.send(rank, message);
  };
  return {
    abort: (reason) => tellAll({ type: 'abort', reason }),
    reset: () => tellAll({ type: 'reset' }),
  };
}
