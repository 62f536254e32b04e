import type { Engine } from '../backend/engine';
import type { HalfDType } from '../core/dtypes';
import * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';
import type { Parameter } from '../nn/parameter';
import { signatureOf } from '../transport/record';
import { unionOfRows } from './sparse/row-masks';

/*
 * [Note: missing gradients] A parameter that the loss does not depend on has no gradient. That differs from a zero
 * gradient: an optimizer does not change its values and states. Zeros travel in its place, because another rank may
 * have a gradient. Ranks learn whether one does without another collective: every reduction carries a note about the
 * gradients that this rank lacks. If all ranks' notes are equal, a gradient that is missing here is missing everywhere;
 * if not, one more small reduction decides. Source: torch's find_unused_parameters, which always has that reduction;
 * fully_shard, which expects all ranks to be alike.
 */

/** A reduction's note about the gradients that are missing on this rank; 0: none is missing. */
export function noteOf(missing: readonly boolean[]): number {
  return missing.includes(true) ? signatureOf(missing.flatMap((is, place) => (is ? [place] : []))) : 0;
}

/** Where a reduction is done. */
export interface ReducedBy {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly module: string;
}

/**
 * Which gradients no rank of a group has, after a reduction with `noteOf(missing)`. `agrees`: the field of its work;
 * undefined if it had no note, and then none counts as missing. Blocks if ranks differ.
 */
export function missingEverywhere(
  { engine, group, module }: ReducedBy,
  missing: readonly boolean[],
  agrees: boolean | undefined,
): readonly boolean[] {
  if (agrees === undefined) return missing.map(() => false);
  if (agrees) return missing;
  const there = Uint8Array.from(missing, (is) => (is ? 0 : 1));
  return Array.from(unionOfRows(engine, group, there, { module }), (flag) => flag === 0);
}

/** Zeros in place of a parameter's missing gradient; the caller owns them. */
export function zeroGradient(
  engine: Engine,
  { shape, module }: Parameter,
  declared?: HalfDType | undefined,
): tf.Tensor {
  const zeros = tf.keep(engine.allocate(shape, 'float32', { cause: 'grad.full', module, declared }));
  engine.fill(zeros, 0);
  return zeros;
}
