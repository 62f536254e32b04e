import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shareJob } from '../../session/job-fixture';

const shared = shareJob({ ranks: 2 });

test('summonFullParams makes parameters whole under every strategy, and writes them back only on request', async () => {
  const job = shared();
  const found = await job.on('all').run(async ({ FSDP, engine, nn, tf, MixedPrecision, CPUOffload }) => {
    const before = engine.memory.bytes;
    const settings = [
      {},
      { shardingStrategy: 'SHARD_GRAD_OP' },
      { shardingStrategy: 'NO_SHARD' },
      { mixedPrecision: MixedPrecision({ paramDtype: 'bf16' }) },
      { cpuOffload: CPUOffload({ offloadParams: true }) },
    ] as const;
    const cases: boolean[][] = [];
    for (const options of settings) {
      const net = nn.gpt({ layers: 1, dim: 6, heads: 2, vocab: 31, seq: 4 });
      const first = net.parameters().map(({ tensor }) => Array.from(tensor.dataSync()));
      const model = FSDP(net, options);
      const held = engine.memory.bytes;
      const values = (): number[][] =>
        FSDP.summonFullParams(model, () =>
          model.parameters().map(({ tensor }) => Array.from(tensor.dataSync())),
        );
      const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
      const seen = values();
      const ones = (): void => {
        for (const parameter of model.parameters()) engine.fill(parameter.tensor, 1);
      };
      FSDP.summonFullParams(model, ones);
      const after = values();
      await FSDP.summonFullParams(model, async () => ones(), { writeback: true });
      const written = values().flat();
      const tensors = [...model.stateDict().values()];
      const dict = tensors.flatMap((tensor) => [...tensor.dataSync()]);
      tf.dispose(tensors);
      const refused = (): unknown =>
        FSDP.summonFullParams(
          model,
          () => {
            const [parameter] = model.parameters();
            parameter?.replace(tf.keep(tf.zeros([3])));
          },
          { writeback: true },
        );
      let code: unknown;
      try {
        refused();
      } catch (error) {
        code = (error as { code?: unknown }).code;
      }
      cases.push([
        same(seen, first),
        same(after, first),
        written.every((value) => value === 1) && same(written, dict),
        code === 'SHAPE',
        held >= engine.memory.bytes - 12,
      ]);
      for (const state of new Set(model.parameters().map((parameter) => parameter.state))) state.dispose();
    }
    return { cases, left: engine.memory.bytes - before };
  });
  for (const { cases, left } of found) {
    for (const [i, checks] of cases.entries())
      assert.deepEqual(checks, [true, true, true, true, true], `${i}`);
    assert.ok(left <= 5 * 12, `${left} B are left`);
  }
  await assert.rejects(
    job.on('all').run(({ rank, FSDP, nn }) => {
      const model = FSDP(nn.gpt({ layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 }));
      if (rank === 0) FSDP.summonFullParams(model, () => undefined);
    }),
    { code: 'COLLECTIVE_MISSING', message: /call FSDP\.summonFullParams\(\), not rank 0 alone/ },
  );
});

test('FSDP shards a tfjs model in place and returns it', async () => {
  const job = shared();
  const found = await job.on('all').run(({ FSDP, tf, optim, gradients, rank }) => {
    const layer = tf.layers.dense({ units: 3, inputShape: [5], kernelInitializer: 'ones' });
    const net = tf.sequential({ layers: [layer, tf.layers.dense({ units: 1, kernelInitializer: 'ones' })] });
    const model = FSDP(net, { shardingStrategy: 'FULL_SHARD' });
    const optimizer = optim.sgd(model, { lr: 1e-3 });
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) {
      const x = tf.ones([2, 5]).mul(rank + 1);
      const { loss, backward } = gradients(() =>
        (model.apply(x, { training: true }) as ReturnType<typeof tf.zeros>).square().mean(),
      );
      backward();
      optimizer.step();
      optimizer.zeroGrad();
      losses.push(loss.dataSync()[0] ?? Number.NaN);
    }
    return { isSame: model === net, numUnits: FSDP.fsdpModules(model).length, losses };
  });
  for (const { isSame, numUnits, losses } of found) {
    assert.ok(isSame && numUnits === 1);
    assert.ok((losses[2] ?? 9e9) < (losses[0] ?? 0), `${losses}`);
  }
});
