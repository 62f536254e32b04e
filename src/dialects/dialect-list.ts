import { ACCELERATE, ACCELERATE_LAUNCH, FSDP_CONFIG } from './accelerate';
import { AXOLOTL } from './axolotl';
import { DEEPSPEED } from './deepspeed';
import { DIFFSYNTH } from './diffsynth';
import { ENVIRONMENT, SLURM } from './environment';
import type { KeyRow, KeyTable } from './key-row';
import { LLAMA_FACTORY } from './llama-factory';
import type { Dialect } from './meant';
import { MEGATRON } from './megatron';
import { MEGATRON_SWIFT, SWIFT } from './swift';
import { DEEPSPEED_LAUNCHER, TORCHRUN } from './torchrun';
import { TORCHTITAN } from './torchtitan';
import { TRANSFORMERS } from './transformers';
import { WAN } from './wan';

/** Every dialect that is read, in the order of docs/dialects.md. */
export const DIALECTS: readonly Dialect[] = [
  ACCELERATE,
  ACCELERATE_LAUNCH,
  DEEPSPEED,
  DEEPSPEED_LAUNCHER,
  TORCHRUN,
  TRANSFORMERS,
  FSDP_CONFIG,
  SWIFT,
  MEGATRON_SWIFT,
  LLAMA_FACTORY,
  AXOLOTL,
  TORCHTITAN,
  MEGATRON,
  WAN,
  DIFFSYNTH,
  ENVIRONMENT,
  SLURM,
];

/** Returns the row of a key, or of the section that stands for all its keys; null: the dialect does not know it. */
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
