import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Tensor } from '@tensorflow/tfjs';
import type { StrategyName } from '../../../src/config/strategies';
import { ShardlabError } from '../../../src/core/errors';
import { seeded } from '../../../src/core/random';
import type { RankScope } from '../../../src/launch/rank/scope';
import { launch } from '../../../src/session/run/launch';

/** All steps of a run; its data have less than 4 of them per epoch. */
export const STEPS = 40;
export const WORLD = 2;

const TRAINING = {
  optimizer: { lr: 1e-2, weightDecay: 0.1 },
  schedule: { kind: 'cosine', warmupSteps: 4, maxSteps: STEPS },
  accumulation: 2,
  clipNorm: 1,
  seed: 7,
} as const;

/** A GPT written by hand, with dropout, on a text. */
const text = {
  ...TRAINING,
  batch: 3,
  data: { path: 'my.txt', seq: 12, validation: 0.2 },
  model: ({ nn, tf }: RankScope) => {
    class Block extends nn.Module {
      readonly norm = new nn.LayerNorm(16);
      readonly attention = new nn.MultiheadAttention(16, 2, { dropout: 0.1, batchFirst: true });
      readonly up = new nn.Linear(16, 32);
      readonly down = new nn.Linear(32, 16);
      readonly dropout = new nn.Dropout(0.2);
      forward(x: Tensor) {
        const h = this.norm.apply(x);
        const [attended] = this.attention.apply(h, h, h, { needWeights: false, isCausal: true });
        const y = tf.add(x, this.dropout.apply(attended));
        return tf.add(y, this.dropout.apply(this.down.apply(tf.relu(this.up.apply(y)))));
      }
    }
    class Gpt extends nn.Module {
      readonly wte = new nn.Embedding(256, 16);
      readonly blocks = new nn.ModuleList([new Block(), new Block()]);
      readonly head = new nn.Linear(16, 256, { bias: false });
      forward(ids: Tensor) {
        let x: Tensor = this.wte.apply(ids);
        for (const block of this.blocks) x = block.apply(x);
        return this.head.apply(x);
      }
    }
    return new Gpt();
  },
  loss: (logits: Tensor, { y }: { readonly y: Tensor }, { nn }: RankScope) =>
    nn.functional.crossEntropy(logits.reshape([-1, 256]), y.flatten()),
};

/** An MLP with dropout and running statistics, on rows. */
const rows = {
  ...TRAINING,
  batch: 5,
  data: { path: 'my.jsonl', x: 'x', y: 'y', validation: 0.2 },
  model: ({ nn, tf }: RankScope) => {
    class Net extends nn.Module {
      readonly a = new nn.Linear(4, 13);
      readonly norm = new nn.BatchNorm1d(13);
      readonly dropout = new nn.Dropout(0.3);
      readonly b = new nn.Linear(13, 1);
      forward(x: Tensor) {
        return this.b.apply(this.dropout.apply(tf.relu(this.norm.apply(this.a.apply(x)))));
      }
    }
    return new Net();
  },
  loss: (output: Tensor, { y }: { readonly y: Tensor }, { tf }: RankScope) =>
    tf.losses.meanSquaredError(tf.reshape(y, [-1, 1]), output),
};

const KILLED: Readonly<Record<'text' | 'rows', object>> = { text, rows };

export interface KilledRun {
  readonly kind: 'text' | 'rows';
  readonly strategy: StrategyName;
  /** The folder of the data, the checkpoint and the log. */
  readonly folder: string;
  /** Decides how many steps are between saves, and what else the run does. */
  readonly seed: number;
}

/** Returns a run's config. */
export function configOf({ kind, strategy }: Pick<KilledRun, 'kind' | 'strategy'>): object {
  const wrap = kind === 'text' ? 'blocks' : { modules: ['a'] };
  return { ...KILLED[kind], parallel: { strategy, wrap } };
}

/** Names of a run's files. */
export const filesOf = (folder: string) => ({
  checkpoint: join(folder, 'checkpoint'),
  log: join(folder, 'log'),
});

/** Continues the run from its last complete checkpoint and saves again and again, until it is killed or has done all steps. */
async function main(): Promise<void> {
  const given = JSON.parse(process.argv[2] ?? '') as KilledRun;
  const { checkpoint, log } = filesOf(given.folder);
  const say = (line: object): void => appendFileSync(log, `${JSON.stringify(line)}\n`);
  const random = seeded(given.seed, 'run');
  const job = await launch({ ranks: WORLD, blas: 'none', baseDir: given.folder });
  const run = await job.train(configOf(given));
  try {
    const { step } = await run.load(checkpoint);
    say({ loaded: step });
  } catch (error) {
    if (!(error instanceof ShardlabError && /there is no folder/.test(error.message))) throw error;
    say({ loaded: 0 });
  }
  say({ pids: job.ranks.map(({ pid }) => pid) });
  let saving: Promise<void> | undefined;
  while (run.lastStep < STEPS) {
    await run.step(Math.min(1 + random.integer(3), STEPS - run.lastStep));
    const known = run.results.slice(-3).map(({ step, loss, lr }) => ({ step, loss, lr }));
    for (const each of known) say(each);
    if (random.integer(3) === 0) await run.evaluate();
    await saving;
    const save = await run.save(checkpoint, { async: random.integer(2) === 0 });
    saving = save.done.then(() => say({ saved: save.step }));
    // Its rejection is awaited before the next save.
    saving.catch(() => undefined);
  }
  await saving;
  await job.shutdown();
  say({ ended: true });
}

if (require.main === module) void main();
