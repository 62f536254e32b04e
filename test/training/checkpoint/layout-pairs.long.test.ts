import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { placeText } from '../../../src/config/place-text';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { type Random, seeded } from '../../../src/core/random';
import type { Job } from '../../../src/session/run/job';
import type { Run } from '../../../src/session/run/run';
import { launchFor } from '../../session/job-fixture';
import { differences, readCheckpoint } from './state-files';

const RANKS = 8;
const PAIRS = 12;

const SHAPE = { layers: 2, dim: 24, heads: 8, vocab: 61, seq: 8 } as const;
/** Expert parallelism divides only the second. */
const GPT = { ...SHAPE, kind: 'gpt', ffn: 31 } as const;
const MOE = { ...SHAPE, kind: 'moe', experts: 4, router: 'topk' } as const;
const DATA = { tokens: Uint16Array.from({ length: 600 }, (_, i) => (i * i) % 61), validation: 0.3 };
const STRATEGIES = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;

/** A way to train a model on some ranks. */
interface Layout {
  readonly ranks: number;
  readonly config: TrainConfigInput;
}

function layoutOf(model: typeof GPT | typeof MOE, random: Random): Layout {
  const choose = <T>(choices: readonly T[]): T => choices[random.integer(choices.length)] as T; // none is empty
  const isDense = model.kind === 'gpt';
  const [tp, pp, cp] = [
    [1, 2, 4],
    [1, 2],
    [1, 2],
  ].map((degrees) => choose(degrees)) as [number, number, number]; // as many as lists
  const left = RANKS / (tp * pp * cp);
  if (left < 1) return layoutOf(model, random);
  const dp = choose([1, 2, 4, 8].filter((degree) => degree <= left && (RANKS / left) * degree > 1));
  const ep = isDense ? 1 : choose([1, 2, 4].filter((degree) => (dp * cp) % degree === 0));
  const strategy = choose(STRATEGIES.filter((name) => ep === 1 || name !== 'HYBRID_SHARD'));
  const shards = dp * cp;
  const mesh =
    strategy === 'HYBRID_SHARD'
      ? { dpReplicate: shards > 1 ? 2 : 1, dpShard: shards > 1 ? shards / 2 : 1 }
      : null;
  const parallel = { tp, pp, cp, ep, strategy, mesh };
  return { ranks: tp * pp * cp * dp, config: { model, data: DATA, batch: 2, parallel } };
}

test(`any layout's checkpoint is bit-equal after a load in another: ${PAIRS} random pairs`, async (context) => {
  const job = await launchFor(context, { ranks: RANKS });
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-layouts-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const random = seeded(7, 'layouts');
  for (let pair = 0; pair < PAIRS; pair++) {
    const model = pair % 2 === 0 ? MOE : GPT;
    const [one, other] = [layoutOf(model, random), layoutOf(model, random)];
    const [there, back] = [one, other].map(({ config, ranks }) =>
      placeText({ config: parseTrainConfig(config), world: ranks }),
    );
    await context.test(`${there}, and ${back}`, async () => {
      const [a, b] = [await trained(job, one), await trained(job, other)];
      const between = async (from: Run, to: Run, name: string): Promise<void> => {
        const [saved, again] = [join(folder, `${pair}-${name}`), join(folder, `${pair}-${name}-again`)];
        await (await from.save(saved)).done;
        await to.load(saved);
        await (await to.save(again)).done;
        assert.deepEqual(differences(readCheckpoint(again), readCheckpoint(saved)), []);
        // Elements at wrong places would be saved from there again.
        const losses = [(await from.evaluate()).loss, (await to.evaluate()).loss] as const;
        assert.ok(Math.abs(losses[0] - losses[1]) < 2e-5, losses.join(' and '));
      };
      await between(a, b, 'there');
      await b.step();
      await between(b, a, 'back');
      await a.dispose();
      await b.dispose();
    });
  }
});

async function trained(job: Job, { config, ranks }: Layout): Promise<Run> {
  const run = await job.train(config, { ranks });
  await run.step();
  return run;
}
