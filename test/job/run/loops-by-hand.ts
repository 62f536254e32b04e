import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { inputsOf, targetsOf } from '../../../src/data/batch';
import { createBatches } from '../../../src/data/batches';
import type { StepRecord } from '../../../src/ledger/record';
import { launchFor } from '../job-fixture';

const MODELS = {
  gpt: { kind: 'gpt', layers: 2, dim: 16, heads: 2, vocab: 64, seq: 8 },
  moe: { kind: 'moe', layers: 2, dim: 16, heads: 2, vocab: 64, seq: 8, experts: 2 },
  llama: { kind: 'llama', layers: 2, dim: 16, heads: 2, vocab: 64, seq: 8 },
} as const satisfies Record<string, TrainConfigInput['model']>;

const STRATEGIES = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;
const NUM_STEPS = 3;

/**
 * What a record says about bytes: every allocation and free with its owner in order, the bytes by owner at rest and at the
 * peak, and every collective. What follows the optimizer's update is left out, because only a trainer averages its loss there.
 */
function bytesOf({ start, memory, collectives, spans }: StepRecord) {
  const updated = spans.find(({ name }) => name === 'optimizer')?.end ?? Number.NaN;
  const { owners, curve } = memory;
  const all = curve ?? assert.fail('the record has no curve');
  const ownerText = (i: number): string => {
    const {
      cause,
      module,
      space,
      declared = '',
      part = '',
    } = owners[i] ?? assert.fail('an owner is missing');
    return `${cause} ${module} ${space} ${declared} ${part}`;
  };
  const held = (bytes: readonly number[]): string[] =>
    bytes.flatMap((count, i) => (count === 0 ? [] : [`${ownerText(i)}: ${count}`])).sort();
  return {
    events: all.seconds.flatMap((seconds, i) =>
      start + seconds > updated ? [] : [`${all.deltaBytes[i]} ${ownerText(all.owner[i] ?? -1)}`],
    ),
    atStart: held(memory.atStart),
    atPeak: held(memory.atPeak),
    atRest: held(memory.atRest),
    peakBytes: memory.peakBytes,
    collectives: collectives
      .filter(({ cause }) => cause !== 'loss')
      .map(({ op, ranks, count, bytes, wireBytes, cause, module, wireDType }) =>
        [op, ranks.join(), count, bytes, wireBytes, cause, module, wireDType].join(' '),
      ),
  };
}

/** Checks that a loop by hand has the ledger of job.train, to the byte: for every strategy, or for one per model besides gpt. */
export async function checkLoopsByHand(context: TestContext, of: 'all' | 'some'): Promise<void> {
  for (const [kind, model] of Object.entries(MODELS)) {
    for (const strategy of of === 'all' || kind === 'gpt' ? STRATEGIES : (['FULL_SHARD'] as const)) {
      const input: TrainConfigInput = {
        model,
        data: 'synthetic',
        parallel: {
          strategy,
          ...(strategy === 'HYBRID_SHARD' ? { mesh: { dpReplicate: 2, dpShard: 2 } } : {}),
        },
      };
      const numRanks = strategy === 'HYBRID_SHARD' ? 4 : 2;
      // A cell cannot free a sharded model, so each case has its own job.
      const job = await launchFor(context, { ranks: numRanks });
      const run = await job.train(input);
      await run.step(NUM_STEPS);
      const trained = run.records.ofStep(NUM_STEPS).map(bytesOf);
      const losses = run.losses;
      await run.dispose();

      const config = parseTrainConfig(input);
      const source = createBatches(config, { world: numRanks });
      const batches = Array.from({ length: numRanks }, (_, rank) =>
        Array.from({ length: NUM_STEPS }, (_, index) => {
          const tokens = source.batch(rank, index);
          const [inputs, targets] = [inputsOf(tokens), targetsOf(tokens)];
          return { inputs: [...inputs], targets: [...targets], shape: [tokens.batch, tokens.seq] as const };
        }),
      );
      job.record(`${kind} ${strategy}`);
      await job.on('all').run(
        (scope, chosen, how, data, { seed, optimizer: { lr, betas, eps, weightDecay } }) => {
          const { rank, nn, tf, optim, gradients, fullyShard, DDP, initDeviceMesh } = scope;
          const net = nn[chosen.kind]({ ...chosen, seed } as never);
          const sharded = {
            strategy: how,
            ...(how === 'HYBRID_SHARD' ? { mesh: initDeviceMesh([2, 2], ['replicate', 'shard']) } : {}),
          };
          if (how === 'NO_SHARD') DDP(net);
          else {
            for (const block of net.blocks) fullyShard(block, sharded);
            fullyShard(net, sharded);
          }
          const optimizer = optim.adamW(net, { lr, betas, eps, weightDecay });
          for (const { inputs, targets, shape } of data[rank] ?? []) {
            optimizer.zeroGrad();
            const ids = tf.tensor(inputs, [...shape], 'int32');
            const next = tf.tensor(targets, [shape[0] * shape[1]], 'int32');
            const pass = gradients(() => net.apply(ids, next));
            pass.backward();
            pass.loss.dispose();
            tf.dispose([ids, next]);
            optim.clipGradNorm(net, null);
            optimizer.step();
          }
        },
        model,
        strategy,
        batches,
        { seed: config.seed, optimizer: config.optimizer },
      );
      const byHand = job.records[`${kind} ${strategy}`] ?? assert.fail('the recording is missing');
      const own = byHand.view.records.filter(({ step }) => step === NUM_STEPS).map(bytesOf);
      assert.deepEqual(own, trained, `${kind} under ${strategy}`);
      byHand.losses.forEach((loss, i) => {
        assert.ok(Math.abs(loss - (losses[i] ?? Number.NaN)) < 1e-6, `${kind} ${strategy}: losses`);
      });
      await job.shutdown();
    }
  }
}
