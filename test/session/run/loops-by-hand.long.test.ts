import { test } from 'node:test';
import { checkLoopsByHand, type LoopCase } from './loops-by-hand';
import { LOOP_MODELS } from './loops-by-hand-models';
import { STRATEGIES } from './own-model-cases';

for (const model of Object.keys(LOOP_MODELS) as LoopCase['model'][]) {
  test(`loops by hand over ${model} have the ledger of job.train, to the byte, under six strategies`, async (context) => {
    await checkLoopsByHand(
      context,
      STRATEGIES.map((strategy) => ({ model, strategy })),
    );
  });
}

test('so do loops with accumulation, clipping, recompute and mixed precision', async (context) => {
  const all: LoopCase['settings'][] = [
    { accumulation: 2 },
    { clipNorm: 0.1 },
    { activationCheckpointing: 'full' },
    { mixedPrecision: 'bf16' },
  ];
  await checkLoopsByHand(
    context,
    all.map((settings) => ({ model: 'gpt', strategy: 'FULL_SHARD', settings })),
  );
});
