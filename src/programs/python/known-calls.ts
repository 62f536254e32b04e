import type { KeyTable } from '../rows/key-row';
import { PLUGINS } from './accelerate-plugin';
import { MESHES } from './meshes';
import { OFFLOADS, PRECISIONS, ZERO } from './policies';
import { WRAPPERS } from './pytorch-fsdp';
import { ACCELERATE_CALLS, ADAPTER_CALLS } from './trainer-calls';
import { TRAINING_CALLS } from './training-calls';

/** Returns the table of the calls that are read in a script of Python. `trainers` are the calls of programs, whose place is among the others. */
export function knownCalls(trainers: KeyTable): KeyTable {
  return {
    ...WRAPPERS,
    ...ZERO,
    ...PRECISIONS,
    ...OFFLOADS,
    ...MESHES,
    ...PLUGINS,
    ...ACCELERATE_CALLS,
    ...trainers,
    ...ADAPTER_CALLS,
    ...TRAINING_CALLS,
  };
}
