import type { HalfDType } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import type { Parameter } from '../nn';
import { type ProcessGroup, signatureOf } from '../wire';
import { unionOfRows } from './sparse/row-masks';

/*
 * [Note: missing gradients] A parameter that the loss does not depend on has no gradient. A missing gradient differs from a zero
 * gradient: if the gradient is missing, an optimizer does not change the parameter's values and states. This rank sends zeros in
 * place of the missing gradient, because another rank may have the gradient. To find out whether a rank has the gradient, every
 * reduction carries a note: a number that depends on which gradients are missing on this rank. If the notes of all ranks are
 * equal, a gradient that is missing here is missing on all ranks. If the notes differ, one more small reduction finds the
 * gradients that no rank has.
 * Source: torch's find_unused_parameters, which always runs such a reduction; fully_shard, which assumes that the same
 * gradients are missing on all ranks.
 */

/** Returns a reduction's note about the gradients that are missing on this rank; 0 if none is missing. */
export function noteOf(missing: readonly boolean[]): number {
  return missing.includes(true) ? signatureOf(missing.flatMap((isMissing, i) => (isMissing ? [i] : []))) : 0;
}

/** The engine, the group and the module of a reduction. */
export interface ReducedBy {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly module: string;
}

/**
 * Returns, per gradient, whether no rank of the group has this gradient. `agrees` comes from the work of a reduction with the
 * note `noteOf(missing)`; if `agrees` is undefined, the reduction had no note, and no gradient counts as missing. If `agrees`
 * is false, waits for a small reduction.
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

/**
 * Disposes the gradients of parameters that forward used only for collectives, and of parameters that were frozen after the unit
 * was made; replaces these gradients by null.
 */
export function withoutSpare(
  parameters: readonly Parameter[],
  grads: readonly (tf.Tensor | null)[],
): (tf.Tensor | null)[] {
  return grads.map((grad, i) => {
    const parameter = parameters[i];
    if (parameter?.isSpare !== true && parameter?.requiresGrad === true) return grad;
    grad?.dispose();
    return null;
  });
}

/**
 * Notes the parameters whose gradients are zeros in place of missing gradients, so that the optimizer can name them. `isFirst`:
 * whether the step has no earlier gradients to which these gradients are added.
 */
export function noteZeros(
  parameters: readonly Parameter[],
  grads: readonly (tf.Tensor | null)[],
  isFirst: boolean,
): void {
  parameters.forEach((parameter, i) => {
    const isMissing = (grads[i] ?? null) === null;
    if (isFirst || !isMissing) parameter.hasOnlyZeros = isMissing;
  });
}

/** Allocates zeros in place of a parameter's missing gradient; the caller owns the tensor. */
export function zeroGradient(
  engine: Engine,
  { shape, module }: Parameter,
  declared?: HalfDType | undefined,
): tf.Tensor {
  const zeros = tf.keep(engine.allocate(shape, 'float32', { cause: 'grad.full', module, declared }));
  engine.fill(zeros, 0);
  return zeros;
}
