import { test } from 'node:test';
import { checkWorlds } from './own-model-cases';
import { OWN } from './own-models';

for (const name of Object.keys(OWN)) {
  test(`${name} trains under every strategy and world as in one process`, async (context) => {
    await checkWorlds(context, name, { 1: 'all', 2: 'all', 4: 'all' });
  });
}
