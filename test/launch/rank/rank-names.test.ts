import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankScope } from '../../../src/launch/rank/scope';
import { launchFor, launchForAll, resultsOf, runCell } from '../../session/job-fixture';

const alone = launchForAll({ ranks: 1 });

test("an article's training script runs with its names: policy, precision, checkpointing, schedule, clipping", async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const losses = await job.on('all').run((scope) => {
    const { nn, tf, FSDP, ShardingStrategy, BackwardPrefetch, MixedPrecision, CPUOffload, optim, gradients } =
      scope;
    const net = nn.gpt({ layers: 2, dim: 16, heads: 2, vocab: 32, seq: 4 });
    for (const block of net.blocks)
      scope.checkpointWrapper(block, { impl: scope.CheckpointImpl.NO_REENTRANT });
    const model = FSDP(net, {
      autoWrapPolicy: scope.transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] }),
      shardingStrategy: ShardingStrategy.FULL_SHARD,
      mixedPrecision: MixedPrecision({ paramDtype: 'bf16', reduceDtype: 'fp32' }),
      backwardPrefetch: BackwardPrefetch.BACKWARD_PRE,
      forwardPrefetch: true,
      cpuOffload: CPUOffload({ offloadParams: false }),
    });
    const optimizer = optim.adamW(model, { lr: 1e-2, betas: [0.9, 0.95], weightDecay: 0.1, fused: true });
    const schedule = scope.WarmupCosineLR(optimizer, { warmupSteps: 2, maxSteps: 20, etaMin: 1e-4 });
    const found: number[] = [];
    for (let step = 0; step < 8; step++) {
      const ids = tf.tensor2d([[1, 2, 3, 4]], [1, 4], 'int32');
      const targets = tf.tensor1d([2, 3, 4, 5], 'int32');
      const { loss, backward } = gradients(() => model.apply(ids, targets));
      backward();
      model.clipGradNorm(1);
      optimizer.step();
      schedule.step();
      optimizer.zeroGrad();
      found.push((loss.dataSync() as Float32Array)[0] ?? Number.NaN);
      tf.dispose([ids, targets, loss]);
    }
    return [...found, FSDP.fsdpModules(model).length];
  });
  for (const found of losses) {
    assert.equal(found.at(-1), 3);
    assert.ok((found[7] ?? 9) < (found[0] ?? 0) - 0.3, `${found}`);
  }
});

test('mistakes of the articles are errors in the rank that runs them', async () => {
  const job = alone();
  // Each compiles, so that the error is the rank's and not the type checker's.
  const wrong: ((scope: RankScope) => unknown)[] = [
    ({ FSDP, nn }) =>
      FSDP(nn.gpt({ layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 }), { mixedPrecision: true }),
    ({ ShardStrategy }) => ShardStrategy.FULL_SHARD,
    ({ checkpointWrapper, CheckpointImpl, nn }) =>
      checkpointWrapper(nn.gpt({ layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 }), {
        impl: CheckpointImpl.NO_CHECKPOINT,
      }),
    ({ FSDP, nn, sizeBasedAutoWrapPolicy }) =>
      FSDP(nn.gpt({ layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 }), {
        autoWrapPolicy: sizeBasedAutoWrapPolicy,
      }),
  ];
  const said = [
    /MixedPrecision\(\{ paramDtype/,
    /calls it ShardingStrategy/,
    /NO_REENTRANT and REENTRANT/,
    /minNumParams: 1e8/,
  ];
  for (const [i, work] of wrong.entries()) {
    await assert.rejects(
      job.on('all').run(work),
      (error: Error) => said[i]?.test(error.message) ?? false,
      String(work),
    );
  }
});

test('every name of the scope is exported by the module for ranks, and works with and without new', async () => {
  const job = alone();
  const module = JSON.stringify(require.resolve('../../../src/rank.js'));
  const js = `
    const scopeNames = await Promise.resolve(Object.keys(globalThis[Symbol.for('shardlab.rank')]));
    const exported = require(${module});
    const lacking = scopeNames.filter((name) => exported[name] === undefined);
    const made = [new FSDP(new nn.Linear(2, 2)), new TemperatureGating(4, 2), GradScaler({}), new GradScaler()];
    const layer = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [3] })] });
    [lacking, made.map((each) => each.constructor.name), fullyShard(layer) === layer]`;
  assert.deepEqual(resultsOf(await runCell(job, js)), {
    0: `[\n  [],\n  [\n    'FullyShardedDataParallel',\n    'TemperatureGating',\n    'GradScaler',\n    'GradScaler'\n  ],\n  true\n]`,
  });
});

test('an argument without effect gives a warning beside the output of its cell', async () => {
  const job = alone();
  const events = await runCell(
    job,
    "FSDP(nn.gpt({ layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 }), { deviceId: 0 }); 'made'",
  );
  assert.match(JSON.stringify(events), /warning: FSDP: deviceId has no effect/);
});
