import { test } from 'node:test';
import { launchFor } from '../../session/job-fixture';
import { loadWhileSaving } from './loads-while-saving';

test('a run loads whole checkpoints from a folder that another job replaces meanwhile', async (context) => {
  const jobs = [await launchFor(context, { ranks: 2 }), await launchFor(context, { ranks: 2 })] as const;
  await loadWhileSaving(context, jobs, 12);
});
