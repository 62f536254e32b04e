import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Job } from '../../../src/session/run/job';
import type { Digest, RandomModel } from './description';
import { scattered } from './interpret';
import type * as train from './train';
import type { TrainedPart } from './train';

/**
 * Products of a gradient with vectors whose elements have variance 1 differ by about as much as the gradients themselves. A
 * difference may be 1e-5 of the gradient's norm, or 1e-6 of the largest norm of the model's gradients: where a gradient is a
 * difference of larger numbers (a bias before a norm), float32 has no more digits.
 */
const BOUND = 1e-5;
const BOUND_OF_LARGEST = 1e-6;

/** Trains a model in all ranks of a job; returns what differs from torch, in words; an empty list if nothing does. */
export async function differences(job: Job, spec: RandomModel): Promise<string[]> {
  const path = join(__dirname, 'train.js');
  let ranks: TrainedPart[];
  try {
    ranks = await job.on('all').run(
      (scope, file, own) => {
        const { createRequire } = process.getBuiltinModule('node:module');
        const { trained } = createRequire(file)(file) as typeof train;
        return trained(scope, own);
      },
      path,
      spec,
    );
  } catch (error) {
    return [String(error)];
  }
  return [...lossDifferences(ranks, spec), ...gradientDifferences(ranks, spec)];
}

function lossDifferences(ranks: readonly TrainedPart[], { losses, name }: RandomModel): string[] {
  return losses.flatMap((expected, micro) => {
    const found = ranks.reduce((sum, own) => sum + (own.losses[micro] ?? Number.NaN), 0) / ranks.length;
    const isClose = Math.abs(found - expected) <= BOUND * Math.max(1, Math.abs(expected));
    return isClose ? [] : [`${name}: loss ${micro} is ${found}, in torch ${expected}`];
  });
}

function gradientDifferences(ranks: readonly TrainedPart[], spec: RandomModel): string[] {
  const wholes = wholeGradients(ranks);
  const largest = Math.max(...Object.values(spec.gradients).map((digest) => digest?.[0] ?? 0));
  return Object.entries(spec.gradients).flatMap(([name, expected]) => {
    const found = wholes.get(name);
    if (found === undefined) return [`${spec.name}: ${name} is on no rank`];
    if (typeof found === 'string') return [`${spec.name}: ${name} ${found}`];
    const isNone = found === null || (spec.units === 'FSDP' && expected === null && isZero(found));
    if (isNone || expected === null) {
      if (isNone === (expected === null)) return [];
      return [`${spec.name}: ${name} has ${isNone ? 'no' : 'a'} gradient, unlike in torch`];
    }
    const bound = BOUND * expected[0] + BOUND_OF_LARGEST * largest;
    const off = distance(digestOf(found), expected);
    return off <= bound ? [] : [`${spec.name}: ${name} is ${off} off; its norm is ${expected[0]}`];
  });
}

/** Puts the gradients of all ranks together; a text says what is wrong. */
function wholeGradients(ranks: readonly TrainedPart[]): Map<string, Float64Array | string | null> {
  const wholes = new Map<string, Float64Array | string | null>();
  for (const { name, size, places, values } of ranks.flatMap(({ parts }) => parts)) {
    if (places.length === 0) continue;
    const known = wholes.get(name);
    if (values === null || known === null) {
      if (known === undefined) wholes.set(name, null);
      else if ((known === null) !== (values === null)) wholes.set(name, 'has a gradient on some ranks only');
      continue;
    }
    const whole = known ?? new Float64Array(size).fill(Number.NaN);
    if (typeof whole === 'string') continue;
    wholes.set(name, whole);
    places.forEach((place, i) => {
      const value = values[i] ?? Number.NaN;
      if (place < 0) return;
      const before = whole[place] ?? Number.NaN;
      // Several ranks may have the same elements.
      if (Number.isNaN(before)) whole[place] = value;
      else if (Math.abs(before - value) > 1e-5 * Math.max(1e-2, Math.abs(value)))
        wholes.set(name, `is ${before} on one rank and ${value} on another`);
    });
  }
  return wholes;
}

function digestOf(gradient: Float64Array): NonNullable<Digest> {
  const product = (number: number): number =>
    scattered(gradient.length, number, Math.sqrt(12)).reduce(
      (sum, factor, i) => sum + factor * (gradient[i] ?? 0),
      0,
    );
  return [Math.hypot(...gradient), product(11), product(12), product(13)];
}

function distance(found: NonNullable<Digest>, expected: NonNullable<Digest>): number {
  const all = found.map((value, i) => Math.abs(value - (expected[i] ?? Number.NaN)));
  return all.some(Number.isNaN) ? Number.POSITIVE_INFINITY : Math.max(...all);
}

function isZero(gradient: Float64Array): boolean {
  return gradient.every((value) => value === 0);
}

/** Asserts that no model differs from torch; names all that differ. */
export async function assertAsTorch(job: Job, models: readonly RandomModel[]): Promise<void> {
  const all: string[] = [];
  for (const spec of models) all.push(...(await differences(job, spec)));
  assert.deepEqual(all, []);
}
