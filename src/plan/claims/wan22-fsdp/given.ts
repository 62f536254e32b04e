import { shapeOf } from '../../model-shape';
import { modelOf } from '../../models';
import { type Claim, claimOf } from '../claim';

/** What the document says of its run. */
export const WAN_GIVEN = {
  params: 27e9,
  layers: 40,
  experts: 2,
  gpus: 8,
  gpu: 'A100-80G',
  param_dtype: 'bf16',
  reduce_dtype: 'fp32',
  strategy: 'FULL_SHARD',
  expert_strategy: 'SHARD_GRAD_OP',
  gate: 'replicated',
  ulysses: 8,
  batch: 32,
  grad_accum: 8,
} as const;

/** The four parts of the document's memory table, GB a GPU. */
export const WAN_TABLE = { params: 12.8, optimizer: 18.5, activations: 22.3, temporary: 8.4 } as const;

/** A claim of the document. */
export function wan(claim: Omit<Claim, 'document'>): Claim {
  return claimOf('wan22-fsdp', claim);
}

/** The model with two experts as it was published. */
export const PUBLISHED = shapeOf(modelOf('wan2.2-a14b'));
