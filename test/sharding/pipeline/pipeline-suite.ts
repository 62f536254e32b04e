import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import type { Module } from '../../../src/nn/module';
import { clipGradNormInPlace } from '../../../src/sharding/optim/clip-grad-norm';
import { SGD } from '../../../src/sharding/optim/sgd';
import { assertClose, valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';
import {
  batchOf,
  isLanguageModel,
  MODELS,
  NUM_STEPS,
  type PipelineCase,
  ROWS,
  squaredError,
} from './pipeline-cases';
import { type Elements, observePipelines, type PipelineResult } from './pipeline-rank';

/** What a single process computes. */
interface Reference {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  readonly gradients: ReadonlyMap<string, Float32Array>;
  readonly parameters: ReadonlyMap<string, Float32Array>;
}

/**
 * Compares pipelines on `world` ranks with a single process; one set of rank processes runs all cases. The returned function gives
 * each rank's results by case.
 */
export function pipelineSuite(
  world: number,
  cases: Readonly<Record<string, PipelineCase>>,
): () => Promise<ReadonlyMap<string, PipelineResult>[]> {
  const launched = observePipelines(world, Object.values(cases));
  launched.catch(() => undefined); // each test that awaits it reports its failure
  describe(`${world} ranks`, () => {
    let byRank: PipelineResult[][];
    let engine: Engine;
    before(async () => {
      engine = await testEngine();
      byRank = await launched;
    });

    for (const [index, [name, one]] of Object.entries(cases).entries()) {
      test(`${name}: losses, gradients and parameters equal those of a single process`, () => {
        const results = byRank.flatMap((all) => all[index] ?? []);
        assert.equal(results.length, world);
        requireEqual(one, results, singleProcess(engine, one));
      });

      test(`${name}: every boundary carries each microbatch once per direction, and memory is freed`, () => {
        const results = byRank.flatMap((all) => all[index] ?? []);
        requireTraffic(one, results);
        for (const { growth, left } of results) assert.deepEqual([growth, left], [0, 0]);
      });

      if (one.wrap !== undefined) {
        test(`${name}: data-parallel ranks reduce each gradient once per step`, () => {
          for (const { numReductions, numUnits } of byRank.flatMap((all) => all[index] ?? []))
            assert.equal(numReductions, numUnits);
        });
      }
    }
  });
  return async () => {
    const names = Object.keys(cases);
    return (await launched).map((all) => new Map(all.map((result, i) => [names[i] ?? '', result])));
  };
}

function singleProcess(engine: Engine, one: PipelineCase): Reference {
  const { model: name, maxNorm } = one;
  const model: Module = MODELS[name]();
  const optimizer = new SGD(engine, model, { lr: 0.1, momentum: 0.9 });
  const losses: number[] = [];
  const norms: number[] = [];
  let first = new Map<string, Float32Array>();
  for (let step = 0; step < NUM_STEPS; step++) {
    const { x, y } = batchOf(one, step);
    const pass = gradients(engine, () =>
      isLanguageModel(name) ? model.apply(x, y) : squaredError(model.apply(x), y),
    );
    losses.push(valuesOf(pass.loss)[0] ?? Number.NaN);
    pass.backward();
    if (step === 0)
      first = new Map(
        [...model.namedParameters()].map(([key, { grad }]) => [key, valuesOf(grad as tf.Tensor)]),
      );
    if (maxNorm !== undefined) norms.push(clipGradNormInPlace(engine, model, maxNorm));
    optimizer.step();
    optimizer.zeroGrad();
    tf.dispose([x, y, pass.loss]);
  }
  const parameters = new Map(
    [...model.namedParameters()].map(([key, { tensor }]) => [key, valuesOf(tensor)]),
  );
  optimizer.dispose();
  model.dispose();
  return { losses, norms, gradients: first, parameters };
}

function requireEqual(one: PipelineCase, results: readonly PipelineResult[], expected: Reference): void {
  const dataParallel = results.length / one.numRanks;
  const last = results.slice(-dataParallel);
  for (const { losses } of results.slice(0, -dataParallel)) assert.ok(losses.every((loss) => loss === null));
  expected.losses.forEach((loss, step) => {
    const mean = last.reduce((sum, { losses }) => sum + (losses[step] ?? Number.NaN), 0) / dataParallel;
    assert.ok(Math.abs(mean - loss) < 2e-4, `loss of step ${step}: ${mean}, single process ${loss}`);
  });
  for (const { norms } of results) assertClose(norms, expected.norms, 1e-5, 'norms of gradients');
  for (const what of ['gradients', 'parameters'] as const) {
    const seen = new Map<string, number>();
    for (const result of results)
      for (const elements of result[what]) requireElements(elements, expected[what], what, seen);
    for (const [name, values] of expected[what])
      assert.ok((seen.get(name) ?? 0) >= values.length, `${what} of ${name} are on some rank`);
  }
}

function requireElements(
  { name, start, values }: Elements,
  expected: ReadonlyMap<string, Float32Array>,
  what: string,
  seen: Map<string, number>,
): void {
  const whole = expected.get(name) ?? new Float32Array();
  // A chunk may have much smaller gradients than its parameter, whose size decides.
  const actual = whole.slice();
  actual.set(values, start);
  assertClose(actual, whole, 1e-5, `${what} of ${name}`);
  seen.set(name, (seen.get(name) ?? 0) + values.length);
}

/** Per microbatch and boundary, b·s·h elements are received in forward and as many in backward. */
function requireTraffic(one: PipelineCase, results: readonly PipelineResult[]): void {
  const { numRanks, numMicrobatches, virtualStages = 1, model, rows: allRows = ROWS } = one;
  const dataParallel = results.length / numRanks;
  const rows = allRows / dataParallel / numMicrobatches;
  const width = isLanguageModel(model) ? 6 * 8 : 8;
  const numBoundaries = numRanks * virtualStages - 1;
  const total: Record<string, number> = {};
  for (const { received } of results) {
    for (const [name, bytes] of Object.entries(received)) total[name] = (total[name] ?? 0) + bytes;
  }
  assert.equal(Object.keys(total).length, numBoundaries);
  for (const [name, bytes] of Object.entries(total))
    assert.equal(bytes, 2 * 4 * rows * width * numMicrobatches * dataParallel, name);
}
