import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { gpt } from '../../src/nn/models/gpt';
import type { Parameter } from '../../src/nn/parameter';
import { encodeHeader } from '../../src/training/checkpoint/format/safetensors-header';
import { launchRanks } from '../support/launch-ranks';
import { testEngine } from '../support/wasm-test-engine';
import type { BuildingArgs, BuildingResult } from './building-rank';

const script = join(__dirname, 'building-rank.js');

const SHAPE = { layers: 2, dim: 24, heads: 2, vocab: 70, seq: 8 };
/** Without optimizer states, so that after building only parameters are held. */
const SHARED: TrainConfigInput = {
  model: { kind: 'gpt', ...SHAPE },
  data: 'synthetic',
  optimizer: { kind: 'sgd' },
};
const withParallel = (parallel: TrainConfigInput['parallel']): TrainConfigInput => ({ ...SHARED, parallel });

const PARALLEL = {
  FULL_SHARD: withParallel({ strategy: 'FULL_SHARD' }),
  SHARD_GRAD_OP: withParallel({ strategy: 'SHARD_GRAD_OP', wrap: 'root' }),
  SYNCED: withParallel({ strategy: 'FULL_SHARD', syncModuleStates: true }),
  ZERO_1: withParallel({ strategy: 'ZERO_1', syncModuleStates: true }),
  NO_SHARD: withParallel({ strategy: 'NO_SHARD' }),
  ON_HOST: { ...withParallel({ strategy: 'FULL_SHARD' }), offload: { parameters: true, optimizer: true } },
} as const satisfies Record<string, TrainConfigInput>;
type Case = keyof typeof PARALLEL;

before(async () => {
  await testEngine();
});

async function built(world: number, seeds?: BuildingArgs['seeds']): Promise<Record<Case, BuildingResult[]>> {
  const args = { blas: 'none', cases: Object.values(PARALLEL).map((config) => ({ config })), seeds };
  const byRank = await launchRanks<BuildingResult[]>({ script, world, args });
  const names = Object.keys(PARALLEL);
  // Every case has its results.
  return Object.fromEntries(names.map((name, i) => [name, byRank.map((results) => results[i])])) as Record<
    Case,
    BuildingResult[]
  >;
}

/** Whole values by name, of the seed from which ranks build. */
function wholeValues(): Map<string, Float32Array> {
  const model = gpt(SHAPE);
  const values = [...model.namedParameters()].map(([name, { tensor }]) => {
    return [name, tensor.dataSync<'float32'>()] as const;
  });
  model.dispose();
  return new Map(values);
}

function requireParts(results: readonly BuildingResult[], wholes: ReadonlyMap<string, Float32Array>): void {
  for (const { values } of results) {
    assert.equal(Object.keys(values).length, wholes.size);
    for (const [name, { start, values: part }] of Object.entries(values)) {
      const expected = wholes.get(name)?.subarray(start, start + part.length);
      assert.deepEqual(Float32Array.from(part), Float32Array.from(expected ?? []), name);
    }
  }
}

for (const world of [2, 4]) {
  describe(`building a model on ${world} ranks`, () => {
    let found: Record<Case, BuildingResult[]>;
    before(async () => {
      found = await built(world);
    });

    for (const name of ['FULL_SHARD', 'SHARD_GRAD_OP'] as const) {
      test(`${name}: the peak equals the memory at the end, which is the shards, to the byte`, () => {
        for (const { peakBytes, restBytes, shardBytes, peaks } of found[name]) {
          assert.deepEqual([peakBytes, restBytes], [shardBytes, shardBytes]);
          assert.deepEqual(peaks, { 'param.shard': shardBytes });
        }
      });
    }

    test('rank 0 sends its values parameter by parameter: the peak is the shards and one parameter', () => {
      for (const { peakBytes, shardBytes, peaks } of found.SYNCED) {
        const largest = 4 * 4 * SHAPE.dim * SHAPE.dim;
        assert.deepEqual(peaks, { 'param.shard': shardBytes, comm: largest });
        assert.ok(peakBytes <= shardBytes + largest);
      }
    });

    test('parameters that stay whole have the cause param.full from the beginning, and the peak is the model', () => {
      for (const name of ['ZERO_1', 'NO_SHARD'] as const) {
        for (const { peakBytes, numParams, peaks } of found[name]) {
          assert.equal(peakBytes, 4 * numParams);
          assert.deepEqual(peaks, { 'param.full': 4 * numParams });
        }
      }
    });

    test('shards on the host take no device memory', () => {
      for (const { peakBytes } of found.ON_HOST) assert.equal(peakBytes, 0);
    });

    test('all ranks hold parts of the same values, bit for bit', () => {
      const wholes = wholeValues();
      for (const results of Object.values(found)) requireParts(results, wholes);
    });
  });
}

test('if seeds differ, syncModuleStates gives all ranks the values of rank 0', async () => {
  const found = await built(2, 'ranks differ');
  const wholes = wholeValues();
  for (const name of ['SYNCED', 'ZERO_1', 'NO_SHARD'] as const) requireParts(found[name], wholes);
  assert.throws(() => requireParts(found.FULL_SHARD, wholes));
});

test('each rank reads only its own ranges of a file of initial values, and the peak is the shards', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-building-'));
  try {
    const file = join(folder, 'first.safetensors');
    const wholes = writeValues(file);
    for (const world of [2, 4]) {
      const cases = [
        { config: PARALLEL.FULL_SHARD, file },
        { config: PARALLEL.NO_SHARD, file },
      ];
      const byRank = await launchRanks<BuildingResult[]>({ script, world, args: { blas: 'none', cases } });
      for (const [cut, whole] of byRank) {
        assert.ok(cut !== undefined && whole !== undefined);
        assert.deepEqual([cut.peakBytes, cut.restBytes], [cut.shardBytes, cut.shardBytes]);
        assert.deepEqual(cut.peaks, { 'param.shard': cut.shardBytes });
        assert.equal(cut.bytesRead, 4 * cut.held);
        assert.equal(whole.bytesRead, 4 * whole.numParams);
        requireParts([cut, whole], wholes);
      }
      const held = byRank.reduce((sum, [cut]) => sum + (cut?.held ?? 0), 0);
      assert.equal(held, byRank[0]?.[0]?.numParams, 'together they read the file once');
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** A file with other values than any seed's. */
function writeValues(file: string): Map<string, Float32Array> {
  const model = gpt(SHAPE);
  const parameters = [...model.namedParameters()];
  const wholes = new Map(parameters.map(([name, parameter], i) => [name, countedFrom(parameter, i)]));
  const { bytes } = encodeHeader(
    new Map(parameters.map(([name, { shape }]) => [name, { dtype: 'F32', shape }])),
    {},
  );
  writeFileSync(
    file,
    Buffer.concat([bytes, ...[...wholes.values()].map(({ buffer }) => new Uint8Array(buffer))]),
  );
  model.dispose();
  return wholes;
}

function countedFrom({ size }: Parameter, first: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: size }, (_, i) => first + i / size);
}
