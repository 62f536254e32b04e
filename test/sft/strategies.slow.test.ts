import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { launchFor } from '../session/job-fixture';
import { HAS_ALL_CASES, valuesHere } from '../support/cases';
import { assertClose } from '../support/close';
import { CHATS, LLAMA, TOKENIZER } from './instruction-data';

const DATA = { instructions: CHATS, tokenizer: TOKENIZER, validation: CHATS } as const;

/** All rows are in each step: of unpacked examples, and of packed ones in rows of 128 tokens. */
const ROWS = 6;
const PACKED_ROWS = 2;

test('instructions give the same losses under every strategy and division of the model, packed ones too', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const lossesOf = async (parallel: TrainConfigInput['parallel'], more: TrainConfigInput, ranks = 2) => {
    const { tp = 1, pp = 1, cp = 1 } = parallel ?? {};
    const rows = more.data === undefined ? ROWS : PACKED_ROWS;
    const batch = (rows * tp * pp * cp) / ranks;
    const config = { model: LLAMA, data: DATA, parallel, ...more, batch, seed: 3 };
    const run = await job.train(config, { ranks });
    await run.step(HAS_ALL_CASES ? 3 : 2);
    const { loss } = await run.evaluate();
    await run.dispose();
    return [...run.losses, loss];
  };
  const lora = { r: 4, alpha: 8 };
  const packed = { model: { ...LLAMA, seq: 128 }, data: { ...DATA, packing: true } };
  const expected = await lossesOf({ strategy: 'NO_SHARD' }, {}, 1);
  const places = [
    { strategy: 'NO_SHARD' },
    { strategy: 'FULL_SHARD' },
    { strategy: 'ZERO_1' },
    { strategy: 'NO_SHARD', tp: 2 },
    { strategy: 'NO_SHARD', cp: 2 },
    { strategy: 'NO_SHARD', pp: 2 },
  ] as const;
  for (const parallel of valuesHere(places, [1, 2, 3, 5]))
    assertClose(await lossesOf(parallel, {}), expected, 1e-5, JSON.stringify(parallel));
  const adapted = await lossesOf({ strategy: 'NO_SHARD' }, { lora }, 1);
  assertClose(await lossesOf({ strategy: 'FULL_SHARD' }, { lora }), adapted, 1e-5, 'LoRA');
  const alone = await lossesOf({ strategy: 'NO_SHARD' }, packed, 1);
  assertClose(alone.slice(-1), expected.slice(-1), 1e-2, 'evaluation of packed rows');
  for (const parallel of [{ strategy: 'FULL_SHARD' }, { strategy: 'NO_SHARD', tp: 2 }] as const)
    assertClose(await lossesOf(parallel, packed), alone, 1e-5, `packed ${JSON.stringify(parallel)}`);
  // Every loss is a mean over 6 examples of an untrained model.
  assert.ok(expected.every((loss) => Math.abs(loss - Math.log(LLAMA.vocab)) < 0.5));
});
