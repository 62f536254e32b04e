import { test } from 'node:test';
import { checkLoopsByHand } from './loops-by-hand';

test('a loop by hand has the ledger of job.train, to the byte, for three models under six strategies', async (context) => {
  await checkLoopsByHand(context, 'all');
});
