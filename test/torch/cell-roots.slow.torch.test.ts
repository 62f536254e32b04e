import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';

const RANKS = 3;
const PYTHON = `
x = torch.arange(6.0)
dist.reduce(x, 1)
dist.gather(x, [torch.empty(6) for _ in range(world_size)] if rank == 2 else None, dst=2)
dist.scatter(x, [torch.ones(6) for _ in range(world_size)] if rank == 1 else None, src=1)
`;

/** What each rank's ledger has of the collectives with a root. */
function collectivesOf(job: Job) {
  return job.view.records.map(({ rank, collectives }) =>
    collectives
      .filter(({ op }) => ['reduce', 'gather', 'scatter'].includes(op))
      .map(({ op, peer, count, bytes, wireBytes }) => ({ rank, op, peer, count, bytes, wireBytes })),
  );
}

test('collectives with a root have the same ledger on PyTorch as here', async (context) => {
  const here = await launch({ ranks: RANKS });
  context.after(() => here.shutdown());
  await here.on('all').run(({ dist, tf, rank, worldSize }) => {
    const x = tf.range(0, 6);
    dist.reduce(x, 1);
    dist.gather(x, 2);
    const scatterList = Array.from({ length: worldSize }, () => tf.ones([6]));
    dist.scatter(x, { src: 1, ...(rank === 1 && { scatterList }) });
  });
  const there = await launch({ engine: 'torch', ranks: RANKS });
  context.after(() => there.shutdown());
  await there.on('all').python(PYTHON);
  const found = collectivesOf(there);
  assert.deepEqual(found, collectivesOf(here));
  assert.deepEqual(
    found[2]?.map(({ op, wireBytes }) => `${op} ${wireBytes}`),
    ['reduce 0', 'gather 48', 'scatter 24'],
  );
});
