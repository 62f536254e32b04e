import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config';
import { wireSeconds } from '../../src/ledger/communication';
import type { Run } from '../../src/session/run/run';
import { linkOf, transferSeconds } from '../../src/wire';
import { configOf } from './faults/small-config';
import { launchForAll } from './job-fixture';

/** Two nodes of two ranks; 0.8 Gbit/s are 100 bytes per microsecond. */
const BETWEEN = { gbit: 0.8, latencyUs: 100 } as const;
const job = launchForAll({ ranks: 4, nodes: 2, link: BETWEEN });

async function trained(parallel: TrainConfigInput['parallel'], steps = 3): Promise<Run> {
  const run = await job().train({ ...configOf('FULL_SHARD'), parallel });
  await run.step(steps);
  return run;
}

/** The collectives of the last step, of all ranks. */
function lastStepOf(run: Run) {
  const records = [...run.records].filter(({ step }) => step === run.lastStep);
  return records.flatMap(({ rank, collectives }) => collectives.map((event) => ({ rank, ...event })));
}

/** Bytes that the ranks of node 0 receive from node 1 in a step, for a cause. */
function intoNode(run: Run, cause: string): number {
  return lastStepOf(run)
    .filter((event) => event.rank < 2 && event.cause === cause)
    .reduce((sum, { outsideBytes = 0 }) => sum + outsideBytes, 0);
}

test('HYBRID_SHARD makes each node a replica: only gradients leave it, and the losses are those of FULL_SHARD', async () => {
  const full = await trained({ strategy: 'FULL_SHARD' });
  const hybrid = await trained({ strategy: 'HYBRID_SHARD' });
  assert.deepEqual(hybrid.config.parallel.mesh, { dpReplicate: 2, dpShard: 2 });
  assert.equal(full.config.parallel.mesh, null);
  for (const [i, loss] of full.losses.entries())
    assert.ok(Math.abs(loss - (hybrid.losses[i] ?? 0)) < 1e-5, `step ${i + 1}`);
  const gathered = (run: Run, op: string): number =>
    lastStepOf(run)
      .filter((event) => event.rank === 0 && event.op === op)
      .reduce((sum, { bytes }) => sum + bytes, 0);
  // A ring over both nodes brings the three other ranks' shards of each gathered unit over one edge into node 0: to rank 0.
  const shards = gathered(full, 'allGather');
  assert.equal(intoNode(full, 'param'), 3 * shards);
  assert.equal(intoNode(full, 'grad'), (3 / 4) * gathered(full, 'reduceScatter'));
  // HYBRID_SHARD: two all-reduces of halves of all gradients, 2 (2 - 1) / 2 of the half into each of the node's ranks.
  assert.equal(intoNode(hybrid, 'param'), 0);
  assert.equal(intoNode(hybrid, 'grad'), gathered(hybrid, 'reduceScatter'));
  for (const event of lastStepOf(hybrid)) {
    if (event.op === 'allGather' || event.op === 'reduceScatter') assert.equal(event.outsideBytes, 0);
  }
  await full.dispose();
  await hybrid.dispose();
});

test('each transfer between nodes takes the time that its bytes need on its part of the link', async () => {
  const hybrid = await trained({ strategy: 'HYBRID_SHARD' }, 1);
  const link = linkOf(BETWEEN);
  const sums = lastStepOf(hybrid).filter(({ op, cause }) => op === 'allReduce' && cause === 'grad');
  assert.ok(sums.length > 0);
  for (const event of sums) {
    // Two ranks of different nodes; each has half of its node's link.
    const model = transferSeconds(link, { steps: 2, bytes: event.bytes, part: 1 / 2 });
    if (event.progress !== undefined) assert.ok(Math.abs(wireSeconds(event) - model) < 1e-6);
  }
  await hybrid.dispose();
});

test('a mesh whose shards are in several nodes trains with a warning that names the other mesh', async (context) => {
  const written: string[] = [];
  context.mock.method(process.stderr, 'write', (text: string) => written.push(text) > 0);
  const across = await trained({ strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 1, dpShard: 4 } }, 1);
  assert.match(
    written.join(''),
    /HYBRID_SHARD shards over 4 ranks, which are not in one node of 2, .*give parallel\.mesh \{ dpReplicate: 2, dpShard: 2 \}, or leave it out/,
  );
  await across.dispose();
  written.length = 0;
  const inside = await trained({ strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } }, 1);
  assert.doesNotMatch(written.join(''), /HYBRID_SHARD/);
  await inside.reshard({ strategy: 'FULL_SHARD' });
  await inside.reshard({ strategy: 'HYBRID_SHARD' });
  assert.deepEqual(inside.config.parallel.mesh, { dpReplicate: 2, dpShard: 2 });
  await inside.dispose();
});

test('figures draw the nodes and say which share of the bytes leaves one', async () => {
  const full = await trained({ strategy: 'FULL_SHARD' }, 1);
  const hybrid = await trained({ strategy: 'HYBRID_SHARD' }, 1);
  const titleOf = (run: Run): string => run.comm({ as: 'traffic' }).title;
  assert.match(titleOf(full), /50% of the bytes leave a node/);
  assert.match(titleOf(hybrid), /of the bytes leave a node/);
  const { outsideShare } = hybrid.comm({ as: 'traffic' }).quantities;
  assert.ok(outsideShare !== undefined && outsideShare.value < 50);
  // A mean over the ranks of both nodes.
  assert.ok(full.comm().table.rows.some((row) => row.outsideBytes === intoNode(full, 'param') / 2));
  await full.dispose();
  await hybrid.dispose();
});

test('FSDP of a cell makes each node a replica too, and warns of nothing', async () => {
  const groups = await job()
    .on('all')
    .run(({ FSDP, nn, tf, gradients }) => {
      const model = FSDP(new nn.Linear(8, 8), { shardingStrategy: 'HYBRID_SHARD' });
      gradients(() => tf.sum(model.forward(tf.ones([2, 8]))) as never).backward();
    });
  assert.equal(groups.length, 4);
  const [{ collectives } = { collectives: [] }] = job().view.records;
  const named = collectives.map(({ op, ranks }) => `${op} ${ranks.join()}`);
  assert.ok(named.includes('allGather 0,1') && named.includes('allReduce 0,2'), named.join('; '));
});

test('a hierarchical all-reduce of a cell, and the environment by node', async () => {
  const results = await job()
    .on('all')
    .run(({ dist, tf, rank }) => {
      const x = tf.fill([1000], rank + 1);
      dist.allReduce(x, { hierarchical: true });
      const { LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK } = process.env;
      return [x.dataSync()[999], LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK].join(' ');
    });
  assert.deepEqual([...results], ['10 0 2 0', '10 1 2 0', '10 0 2 1', '10 1 2 1']);
  const figure = job().comm({ as: 'traffic' });
  // Of n bytes, n/2 and n/2 within a node, n/2 between nodes.
  assert.ok(Math.abs((figure.quantities.outsideShare?.value ?? 0) - 100 / 3) < 1e-6);
  await assert.rejects(
    job()
      .on('all')
      .run(({ dist, tf }) => dist.allReduce(tf.ones([4]), { hierarchical: true, asyncOp: true })),
    { code: 'CONFIG' },
  );
});

test('when a rank was started again, it is in its node, and hierarchical calls work', async () => {
  await job().kill(2);
  await job().heal();
  const results = await job()
    .on('all')
    .run(({ dist, tf, rank }) => {
      const x = tf.fill([10], rank + 1);
      dist.allReduce(x, { hierarchical: true });
      return [x.dataSync()[9], process.env.LOCAL_RANK].join(' ');
    });
  assert.deepEqual([...results], ['10 0', '10 1', '10 0', '10 1']);
});
