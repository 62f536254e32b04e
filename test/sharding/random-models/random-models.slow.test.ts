import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { shareJob } from '../../session/job-fixture';
import { testData } from '../../support/paths';
import type { RandomModel } from './description';
import { assertAsTorch } from './suite';

// Written by test/data/random_models_reference.py. 500 other models are in random-models.slow.torch.test.ts.
const { models } = JSON.parse(readFileSync(testData('random_models_reference.json'), 'utf8')) as {
  readonly models: readonly RandomModel[];
};

const two = shareJob({ ranks: 2 });

test('every parameter of a model whose first divided layer reads data gets the gradient of torch, under every wrapper', async () => {
  await assertAsTorch(
    two(),
    models.filter(({ name }) => typeof name === 'string'),
  );
});

test('random models get the gradients of torch under random plans, and no gradient where torch has none', async () => {
  await assertAsTorch(
    two(),
    models.filter(({ name }) => typeof name === 'number'),
  );
});
