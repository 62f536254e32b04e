import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type * as tf from '@tensorflow/tfjs';
import type { Engine } from '../../src/backend/engine';
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

/** What another implementation gave for one model with values by formula. */
export interface ReferenceCase<Shape> {
  readonly name: string;
  readonly shape: Shape;
  readonly loss: number;
  readonly gradients: Readonly<Record<string, ReferenceGradient>>;
}

/** The cases of a file of test/data. */
export function referenceCases<Shape>(file: string): readonly ReferenceCase<Shape>[] {
  // Written by the script that its note describes.
  return (JSON.parse(readFileSync(testData(file), 'utf8')) as { cases: ReferenceCase<Shape>[] }).cases;
}

/** Element i of the reference's parameter p is 0.25 sin(0.37 i + 1.3 p); `base` is added. */
export function loadFormulaValues(
  engine: Engine,
  model: Module,
  { gradients }: ReferenceCase<unknown>,
  base: (name: string) => number,
): void {
  const entries = Object.entries(gradients).map(([name, { shape }], p) => {
    const size = shape.reduce((product, extent) => product * extent, 1);
    const values = Float32Array.from(
      { length: size },
      (_, i) => 0.25 * Math.sin(0.37 * i + 1.3 * p) + base(name),
    );
    return [name, { shape, values }] as const;
  });
  loadState(engine, model, new Map(entries));
}

/** The loss and every gradient are the reference's, within a relative bound. */
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
