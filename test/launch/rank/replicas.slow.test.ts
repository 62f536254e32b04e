import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '@tensorflow/tfjs';
import { HANG_MS, launchForAll, resultsOf, runCell } from '../../session/job-fixture';

const shared = launchForAll({ ranks: 2 });

/** A loop of 5 steps over `wrapped` of the model `m`; `skips` says on which rank and step the update is left out. */
function loop(wrapped: string, skips: string, optimizer = 'adamW'): string {
  return `{
    const m = new nn.Sequential(new nn.Linear(8, 8), new nn.ReLU(), new nn.Linear(8, 1));
    const d = ${wrapped};
    const o = optim.${optimizer}(d, { lr: 0.1 });
    for (let i = 0; i < 5; i++) {
      d.apply(tf.fill([4, 8], 1 + rank + i)).sum().backward();
      if (!(${skips})) o.step();
      o.zeroGrad();
    }
    globalThis.m = m;
  }`;
}

/** Collects the warnings about replicas that this process writes. */
function warningsOf(context: TestContext): () => string[] {
  const written = context.mock.method(process.stderr, 'write', () => true);
  return () =>
    written.mock.calls
      .map(({ arguments: [text] }) => String(text))
      .filter((text) => text.includes('replicas differ'));
}

const DRIFTS = {
  'a rank that skips one update under DDP': {
    cell: loop('new DDP(m)', 'rank === 1 && i === 2'),
    text: /at the end of cell 1: 0\.weight \(and 3 more\) has other values on rank 1 than on rank 0\. .*\(rank 0: 5, rank 1: 4\)/,
  },
  'a rank that makes no update at all': {
    cell: loop('new DDP(m)', 'rank === 0'),
    text: /other values on rank 1 than on rank 0/,
  },
  'a rank that changes a parameter alone': {
    cell: `${loop('new DDP(m)', 'false')} if (rank === 1) engine.scale(m.parameters()[2].tensor, 2);`,
    text: /cell 1: 2\.weight has other values on rank 1/,
  },
  'a rank that skips an update under the naive DDP': {
    cell: loop('naive.DDP(m)', 'rank === 1 && i === 4'),
    text: /other values on rank 1/,
  },
  'a replica of HYBRID_SHARD that skips an update': {
    cell: loop(
      "fullyShard(m, { mesh: initDeviceMesh([2, 1], ['replicate', 'shard']) })",
      'rank === 1 && i === 0',
    ),
    text: /other values on rank 1/,
  },
  'the second of two models with equal names': {
    cell: `${loop('new DDP(m)', 'false')} ${loop('new DDP(m)', 'rank === 0 && i === 1')}`,
    text: /0\.weight \(and 3 more\)/,
  },
};

for (const [name, { cell, text }] of Object.entries(DRIFTS)) {
  test(`${name} is in a warning when the cell ends`, { timeout: HANG_MS }, async (context) => {
    const warnings = warningsOf(context);
    await runCell(shared(), cell);
    const [warning = '', ...others] = warnings();
    assert.match(warning, text);
    assert.deepEqual(others, []);
  });
}

test('loops whose ranks do the same, ranks without a wrapper, local steps and shards give no warning', {
  timeout: HANG_MS,
}, async (context) => {
  const warnings = warningsOf(context);
  for (const wrapped of [
    'new DDP(m)',
    'fullyShard(m)',
    'naive.fullyShard(m)',
    'FSDP(m, { shardingStrategy: "NO_SHARD" })',
  ])
    await runCell(shared(), loop(wrapped, 'false'));
  await runCell(shared(), loop('m', 'rank === 1'));
  await runCell(
    shared(),
    loop('new DDP(m)', 'false')
      .replace('d.apply(', 'd.noSync(() => d.apply(')
      .replace('.backward();', '.backward());'),
  );
  await runCell(shared(), loop('new DDP(m)', 'false'), 1, '0-1');
  await assert.rejects(runCell(shared(), `${loop('new DDP(m)', 'rank === 1')} throw new Error('ended')`));
  assert.deepEqual(warnings(), []);
});

test('dist.compareReplicas reports the same on all ranks, and works on shards and within a group', {
  timeout: HANG_MS,
}, async (context) => {
  warningsOf(context);
  const job = shared();
  await runCell(job, loop('new DDP(m)', 'false'));
  const equal = 'replicas are equal: 4 of 4 parts of parameters are on several ranks';
  assert.deepEqual(resultsOf(await runCell(job, 'dist.compareReplicas(m)')), { 0: equal, 1: equal });
  const events = await runCell(
    job,
    'if (rank === 1) engine.scale(m.parameters()[1].tensor, 2); const r = dist.compareReplicas(m); r',
  );
  const differ = 'replicas differ: 0.bias has other values on rank 1 than on rank 0';
  assert.deepEqual(resultsOf(events), { 0: differ, 1: differ });
  const data = await runCell(job, 'JSON.stringify([r.isEqual, r.differing])');
  assert.equal(resultsOf(data)[1], `'[false,[{"name":"0.bias","ranks":[[0],[1]]}]]'`);
  await runCell(job, loop('fullyShard(m)', 'false'));
  const none = 'no two ranks hold the same elements of a parameter';
  assert.deepEqual(resultsOf(await runCell(job, 'dist.compareReplicas(m)')), { 0: none, 1: none });
  await assert.rejects(runCell(job, 'if (rank === 0) dist.compareReplicas(m)'), {
    code: 'COLLECTIVE_MISSING',
  });
  await assert.rejects(runCell(job, 'dist.compareReplicas(5)'), { code: 'CONFIG' });
});

test('a run names the first parameter whose replicas differ, the ranks, and the steps between which it happened', {
  timeout: HANG_MS,
}, async (context) => {
  const warnings = warningsOf(context);
  const run = await shared().train({
    model: ({ nn, rank, engine }) => {
      class Net extends nn.Module {
        readonly body = new nn.Linear(4, 4);
        readonly head = new nn.Linear(4, 1);
        numCalls = 0;
        forward(x: Tensor): Tensor {
          this.numCalls++;
          if (rank === 1 && this.numCalls === 5) engine.scale(this.head.weight.tensor, 2);
          return this.head.apply(this.body.apply(x));
        }
      }
      return new Net();
    },
    loss: (output: Tensor, _: object, { tf }) => tf.mean(tf.square(output)),
    data: ({ tf, rank }, index: number) => ({ x: tf.fill([2, 4], 1 + rank + index) }),
    parallel: { strategy: 'NO_SHARD' },
    clipNorm: null,
  });
  const first = await run.step(3);
  assert.deepEqual([first.drift, warnings()], [null, []]);
  const second = await run.step(3);
  assert.deepEqual(second.drift, {
    parameter: 'head.weight',
    ranks: [[0], [1]],
    equalAfter: 3,
    foundAfter: 6,
  });
  assert.match(String(second), /; replicas of head\.weight differ$/);
  await run.step(2);
  const [warning = '', ...others] = warnings();
  assert.match(
    warning,
    /^warning: replicas differ after step 6: head\.weight .*has other values on rank 1 than on rank 0; after step 3 they were equal\./,
  );
  assert.deepEqual(others, []);
  await run.dispose();
});
