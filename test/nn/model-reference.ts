import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { loadState } from '../../src/nn/load-state';
import type { Module } from '../../src/nn/module';
import { assertClose } from '../support/close';
import { collectGradients } from '../support/collect-gradients';
import { testData } from '../support/paths';

/** A parameter's gradient in a recorded case: its norm, and every seventh value. */
interface ReferenceGradient {
  readonly shape: readonly number[];
  readonly norm: number;
  readonly every7th: readonly number[];
}

/** The results of another implementation for one model whose values follow a formula. */
export interface ReferenceCase<Shape> {
  readonly name: string;
  readonly shape: Shape;
  readonly loss: number;
  readonly gradients: Readonly<Record<string, ReferenceGradient>>;
}

/** The cases in a file of test/data. */
export function referenceCases<Shape>(file: string): readonly ReferenceCase<Shape>[] {
  // Written by the script that its note describes.
  return (JSON.parse(readFileSync(testData(file), 'utf8')) as { cases: ReferenceCase<Shape>[] }).cases;
}

/** The values that model_reference.py calls scattered. */
export function scattered(count: number, number: number, size = 1): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => {
    const first = Math.imul(i * 7919 + number * 104729 + 17, 2654435761) >>> 0;
    const second = Math.imul(first ^ (first >>> 15), 2654435761) >>> 0;
    return size * (second / 2 ** 32 - 0.5);
  });
}

/** Gives parameters the reference's values. */
export function loadReferenceValues(
  engine: Engine,
  model: Module,
  { gradients }: ReferenceCase<unknown>,
): void {
  const entries = Object.entries(gradients).map(([name, { shape }], p) => {
    const size = shape.reduce((product, extent) => product * extent, 1);
    const base = /norm.*\.weight$/.test(name) ? 1 : 0;
    const values = scattered(size, p).map((value) => value + base);
    return [name, { shape, values }] as const;
  });
  loadState(engine, model, new Map(entries));
}

/** Requires that the loss and every gradient equal the reference's, within a relative bound. */
export function requireReference(
  engine: Engine,
  model: Module,
  reference: ReferenceCase<unknown>,
  lossOf: () => tf.Tensor,
  bound: number,
): void {
  const kept: number[] = [];
  const found = collectGradients(
    engine,
    model,
  )(() => {
    const loss = lossOf();
    kept.push(loss.dataSync()[0] ?? Number.NaN);
    return loss;
  });
  assertClose(kept, [reference.loss], bound, 'loss');
  assert.deepEqual([...found.keys()], Object.keys(reference.gradients));
  for (const [name, { norm, every7th }] of Object.entries(reference.gradients)) {
    const values = found.get(name) ?? new Float32Array();
    assertClose([Math.hypot(...values)], [norm], bound, `norm of ${name}`);
    assertClose(
      values.filter((_, i) => i % 7 === 0),
      every7th,
      bound,
      name,
    );
  }
}
