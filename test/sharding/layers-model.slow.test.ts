import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { valuesHere } from '../support/cases';
import { relativeDistance } from '../support/close';
import { LAYERS_MODELS, type LayersModelName } from './layers-models';
import { type Around, type LayersResult, type LayersRun, trainLayers } from './layers-rank';

const NAMES = Object.keys(LAYERS_MODELS) as LayersModelName[]; // its own keys
const WORLDS = valuesHere([2, 3], [1]);
const AROUND: readonly Around[] = ['every layer a unit', 'the root a unit', 'DDP'];
const RUNS = NAMES.flatMap((model) => AROUND.map((around): LayersRun => ({ model, around, ranks: 1 })));

/** Sums of the same terms in another order, over four steps. */
const BOUND = 1e-5;

let alone: readonly LayersResult[];
const together = new Map<number, LayersResult[][]>();

before(async () => {
  const single = WORLDS.flatMap((ranks) =>
    NAMES.map((model): LayersRun => ({ model, around: 'DDP', ranks })),
  );
  alone = (await trainLayers(1, single))[0] ?? [];
  for (const world of WORLDS) together.set(world, await trainLayers(world, RUNS));
});

for (const world of WORLDS) {
  for (const [i, { model, around }] of RUNS.entries()) {
    test(`a ${model} tf.LayersModel on ${world} ranks, ${around}, trains as in one process`, () => {
      const ranks = (together.get(world) ?? []).map((results) => results[i]);
      const single = alone[WORLDS.indexOf(world) * NAMES.length + NAMES.indexOf(model)];
      assert.ok(single && ranks.length === world);
      single.losses.forEach((loss, step) => {
        const mean = ranks.reduce((sum, rank) => sum + (rank?.losses[step] ?? Number.NaN), 0) / world;
        assert.ok(
          Math.abs(mean - loss) <= BOUND * Math.abs(loss),
          `step ${step}: loss ${mean}, one process ${loss}`,
        );
      });
      for (const { name, values } of single.parts) {
        const whole = new Array<number>(values.length).fill(Number.NaN);
        for (const rank of ranks) {
          for (const part of rank?.parts ?? []) {
            if (part.name === name) whole.splice(part.start, part.values.length, ...part.values);
          }
        }
        const distance = relativeDistance(whole, values);
        assert.ok(distance <= BOUND, `${name} differs by ${distance}`);
      }
    });

    test(`a ${model} tf.LayersModel on ${world} ranks, ${around}, leaves nothing behind`, () => {
      for (const rank of (together.get(world) ?? []).map((results) => results[i]))
        assert.equal(rank?.left, 0);
    });
  }
}

test('between steps a rank holds only its chunks, or everything under DDP', () => {
  for (const world of WORLDS) {
    for (const [i, { around, model }] of RUNS.entries()) {
      for (const { heldBytes, shapes } of (together.get(world) ?? []).flatMap(
        (results) => results[i] ?? [],
      )) {
        const held = shapes.map(([rows = 1, ...rest]) => {
          const row = rest.reduce((product, extent) => product * extent, 1);
          return 4 * row * (around === 'DDP' ? rows : Math.ceil(rows / world));
        });
        assert.equal(
          heldBytes,
          held.reduce((sum, bytes) => sum + bytes, 0),
          `${model}, ${around}`,
        );
      }
    }
  }
});
