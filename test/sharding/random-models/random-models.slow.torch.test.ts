import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { findTorch } from '../../../src/torch/find-python';
import { launchFor } from '../../session/job-fixture';
import { testData } from '../../support/paths';
import type { RandomModel } from './description';
import { assertAsTorch } from './suite';

/** How many models are drawn for how many ranks. Models of the same seeds would be as large a file as all others together. */
const DRAWN = [
  { ranks: 2, count: 400 },
  { ranks: 4, count: 100 },
];

for (const { ranks, count } of DRAWN) {
  test(`${count} random models get the gradients of torch under random plans of ${ranks} ranks`, async (context) => {
    const script = testData('random_models_reference.py');
    const args = [script, String(count), '1000', String(ranks)];
    const written = execFileSync(findTorch(undefined), args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
    const { models } = JSON.parse(written) as { readonly models: readonly RandomModel[] };
    await assertAsTorch(await launchFor(context, { ranks }), models);
  });
}
