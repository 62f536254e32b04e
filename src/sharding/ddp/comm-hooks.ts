import type { WireDType } from '../../core';
import type { Engine } from '../../engine';
import type { Parameter } from '../../nn';
import type { Contents, PieceList, ProcessGroup, Work } from '../../wire';

/** Gradients that are reduced together, in place. Source: torch.distributed.GradBucket. */
export interface GradBucket {
  /** The bucket's index in the order of reduction. */
  readonly index: number;
  readonly isLast: boolean;
  readonly parameters: readonly Parameter[];
  /** The gradients themselves; the hook's work overwrites them with their mean over the ranks. */
  readonly pieces: PieceList;
  /** The ranks of this DDP. */
  readonly group: ProcessGroup;
  readonly engine: Engine;
  /** The module name under which ledgers count the bytes. */
  readonly module: string;
  /** What the reduction carries; ranks compare it if the hook gives it to its collectives. See [Note: contents]. */
  readonly contents: Contents;
}

/** The work of a bucket's reduction. */
export interface HookWork extends Work<void> {
  /**
   * Is called in place of `wait` if backward was interrupted and its gradients are dropped. After this call, the hook's state
   * must be the same as before the bucket. Hooks without state omit this method.
   */
  abandon?(): void;
}

/**
 * Starts a bucket's reduction and returns its work; when the work ends, the bucket's pieces contain the mean over ranks. The
 * hook runs during backward, so the work should be asynchronous. All ranks must start the same collectives. Source: torch's DDP
 * communication hooks.
 */
export type CommHook<S = ProcessGroup | null> = (state: S, bucket: GradBucket) => HookWork;

/**
 * Makes the work of a hook that has a state. `wait` runs `finish`, and also `abandon` if `finish` fails; the work's `abandon`
 * runs only `abandon`. Only the first call has an effect.
 */
export function statefulWork(finish: () => void, abandon: () => void): HookWork {
  let isOpen = true;
  const close = (work: () => void): void => {
    if (!isOpen) return;
    isOpen = false;
    work();
  };
  return {
    get done() {
      return !isOpen;
    },
    wait: () =>
      close(() => {
        try {
          finish();
        } catch (error) {
          abandon();
          throw error;
        }
      }),
    abandon: () => close(abandon),
  };
}

/** Averages gradients in float32. `state` is the group; null: DDP's group. Source: torch's default_hooks.allreduce_hook. */
export const allreduceHook: CommHook = (state, bucket) => averaged(state, bucket, 'float32');

/**
 * Sends gradients as float16. Torch divides by the number of ranks and then sums in float16; here the sum is computed in
 * float32 and then divided. So the sum does not overflow, and small values are rounded only when they are sent.
 * Source: torch's default_hooks.fp16_compress_hook.
 */
export const fp16CompressHook: CommHook = (state, bucket) => averaged(state, bucket, 'float16');

/** Sends gradients as bfloat16. Source: torch's default_hooks.bf16_compress_hook. */
export const bf16CompressHook: CommHook = (state, bucket) => averaged(state, bucket, 'bfloat16');

function averaged(
  state: ProcessGroup | null,
  { group, pieces, module, contents }: GradBucket,
  wireDType: WireDType,
): Work<void> {
  const options = { async: true, cause: 'grad', module, contents, wireDType } as const;
  return (state ?? group).allReducePieces(pieces, 'avg', options);
}
