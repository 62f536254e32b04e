import { ACCELERATE, ACCELERATE_LAUNCH, FSDP_CONFIG } from './accelerate/accelerate';
import { DEEPSPEED } from './deepspeed/deepspeed';
import { ENVIRONMENT, SLURM } from './launchers/environment';
import { DEEPSPEED_LAUNCHER, TORCHRUN } from './launchers/torchrun';
import { MEGATRON } from './megatron/megatron';
import { PYTHON_CALLS } from './python/read-python';
import type { KeyRow, KeyTable } from './rows/key-row';
import type { Dialect } from './rows/meant';
import { AXOLOTL } from './trainers/axolotl';
import { LLAMA_FACTORY } from './trainers/llama-factory';
import { LLAMA_FACTORY_V1 } from './trainers/llama-factory-v1';
import { MEGATRON_SWIFT } from './trainers/megatron-swift';
import { SWIFT, SWIFT_FSDP } from './trainers/swift';
import { TORCHTITAN } from './trainers/torchtitan';
import { TRANSFORMERS } from './trainers/transformers';
import { TRL } from './trainers/trl';
import { DIFFSYNTH } from './videos/diffsynth';
import { WAN } from './videos/wan';

/** Every dialect that is read, in the order of docs/dialects.md. */
export const DIALECTS: readonly Dialect[] = [
  ACCELERATE,
  ACCELERATE_LAUNCH,
  DEEPSPEED,
  DEEPSPEED_LAUNCHER,
  TORCHRUN,
  TRANSFORMERS,
  TRL,
  FSDP_CONFIG,
  SWIFT,
  SWIFT_FSDP,
  MEGATRON_SWIFT,
  LLAMA_FACTORY,
  LLAMA_FACTORY_V1,
  AXOLOTL,
  TORCHTITAN,
  MEGATRON,
  WAN,
  DIFFSYNTH,
  PYTHON_CALLS,
  ENVIRONMENT,
  SLURM,
];

/**
 * Returns the row of a key, or the row of a section that stands for all keys in it; null if the dialect does not know the key.
 */
export function rowOf(keys: KeyTable, key: string): KeyRow | null {
  let table: KeyTable | undefined = keys;
  let row: KeyRow | null = null;
  for (const name of key.split('.')) {
    if (table === undefined) return row;
    row = Object.hasOwn(table, name) ? (table[name] ?? null) : null;
    if (row === null) return null;
    table = row.parts;
  }
  return row;
}
