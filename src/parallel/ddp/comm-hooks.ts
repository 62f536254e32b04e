import type { WireDType } from '../../core/dtypes';
import type { PieceList, ProcessGroup, Work } from '../../dist/types';
import type { Parameter } from '../../nn/parameter';

/** Gradients that are reduced together, in place. Source: torch.distributed.GradBucket. */
export interface GradBucket {
  /** Index in the order of reduction. */
  readonly index: number;
  readonly isLast: boolean;
  readonly parameters: readonly Parameter[];
  /** The gradients' own storage; a hook's work writes their mean there. */
  readonly pieces: PieceList;
  /** DDP's ranks. */
  readonly group: ProcessGroup;
  /** For ledgers. */
  readonly module: string;
}

/**
 * Starts a bucket's reduction: when the work ends, the pieces contain the mean over ranks. The hook runs in the middle
 * of backward, so the work should be asynchronous; all ranks must start the same collectives. Source: torch's DDP
 * communication hooks.
 */
export type CommHook<S = ProcessGroup | null> = (state: S, bucket: GradBucket) => Work<void>;

/** The mean in float32. `state`: the group; null: DDP's. Source: torch's default_hooks.allreduce_hook. */
export const allreduceHook: CommHook = (state, bucket) => averaged(state, bucket, 'float32');

/**
 * Gradients travel as float16. torch divides by the number of ranks and then sums in float16; here the sum is computed
 * in float32 and then divided, so it neither overflows nor loses small values twice.
 * Source: torch's default_hooks.fp16_compress_hook.
 */
export const fp16CompressHook: CommHook = (state, bucket) => averaged(state, bucket, 'float16');

/** Gradients travel as bfloat16. Source: torch's default_hooks.bf16_compress_hook. */
export const bf16CompressHook: CommHook = (state, bucket) => averaged(state, bucket, 'bfloat16');

function averaged(
  state: ProcessGroup | null,
  { group, pieces, module }: GradBucket,
  wireDType: WireDType,
): Work<void> {
  return (state ?? group).allReducePieces(pieces, 'avg', { async: true, cause: 'grad', module, wireDType });
}
