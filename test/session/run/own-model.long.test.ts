import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../job-fixture';
import { checkContinues, checkTorch, launchOwn, STRATEGIES } from './own-model-cases';
import { OWN } from './own-models';

const launched = launchOwn();

test('twelve models of a user train as in torch under every strategy on 1 to 4 ranks', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launched();
  for (const name of Object.keys(OWN)) {
    await context.test(name, async () => {
      for (const strategy of STRATEGIES) {
        for (const world of [1, 2, 3, 4]) await checkTorch(job, path, name, [strategy, world]);
      }
      await checkContinues(job, join(path, 'continues', name), name);
    });
  }
});
