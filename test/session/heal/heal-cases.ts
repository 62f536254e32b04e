import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { Random } from '../../../src/core/random';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { HealOptions } from '../../../src/session/run/heal';
import type { Job, TrainOptions } from '../../../src/session/run/job';
import type { Run } from '../../../src/session/run/run';

const GPT = { kind: 'gpt', layers: 2, dim: 16, heads: 4, vocab: 61, seq: 8 } as const;
const MOE = { kind: 'moe', layers: 2, dim: 16, heads: 2, vocab: 61, seq: 8, experts: 4 } as const;

const COMMON = {
  model: GPT,
  data: 'synthetic',
  batch: 2,
  optimizer: { lr: 1e-2, weightDecay: 0.1 },
  schedule: { kind: 'cosine', warmupSteps: 2, maxSteps: 20 },
  clipNorm: 1,
  seed: 7,
} as const satisfies TrainConfigInput;

/** Trainings on 4 ranks, by their layout. */
export const LAYOUTS: Readonly<Record<string, TrainConfigInput>> = {
  DDP: { ...COMMON, parallel: { strategy: 'NO_SHARD' } },
  FULL_SHARD: { ...COMMON, parallel: { strategy: 'FULL_SHARD' }, accumulation: 2 },
  ZERO_1: { ...COMMON, parallel: { strategy: 'ZERO_1' } },
  ZERO_2: { ...COMMON, parallel: { strategy: 'ZERO_2' }, optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9 } },
  'HYBRID_SHARD, fp16': {
    ...COMMON,
    parallel: { strategy: 'HYBRID_SHARD', mesh: { dpShard: 2, dpReplicate: 2 } },
    mixedPrecision: 'fp16',
  },
  'tp 2 x dp 2': { ...COMMON, parallel: { strategy: 'FULL_SHARD', tp: 2 } },
  'pp 2 x dp 2': { ...COMMON, parallel: { strategy: 'FULL_SHARD', pp: 2 }, accumulation: 2 },
  'ep 2': { ...COMMON, model: MOE, parallel: { strategy: 'FULL_SHARD', ep: 2 } },
  'cp 2 x dp 2': { ...COMMON, parallel: { strategy: 'FULL_SHARD', cp: 2 } },
};

export const NUM_STEPS = 8;

/** The losses of a training, and the values of its parameters and optimizer states at its end. */
export interface Trained {
  readonly losses: readonly number[];
  readonly files: ReadonlyMap<string, Buffer>;
}

/** Returns the end of a run: its losses, and the files of a checkpoint of whole tensors. */
export async function trained(run: Run, folder: string): Promise<Trained> {
  await run.save(folder, { type: 'FULL_STATE_DICT' });
  const names = readdirSync(folder).filter((name) => name.endsWith('.safetensors'));
  assert.ok(names.length >= 2, names.join());
  return {
    losses: run.losses,
    files: new Map(names.map((name) => [name, readFileSync(join(folder, name))])),
  };
}

export function assertEqualToTheBit(found: Trained, expected: Trained, what: string): void {
  assert.deepEqual(found.losses, expected.losses, `${what}: losses`);
  assert.deepEqual([...found.files.keys()], [...expected.files.keys()]);
  for (const [name, bytes] of found.files)
    assert.ok(bytes.equals(expected.files.get(name) ?? Buffer.alloc(0)), `${what}: ${name} differs`);
}

/** The module with the class of groups, of which a rank's function changes the methods. */
const GROUPS = require.resolve('../../../src/wire/dist/process-group');

/** Runs in a rank: kills it within its `nth` collective from now on; counts the collectives in any case. */
function killAt({ rank }: RankScope, path: string, nth: number): number {
  const held = globalThis as { numCollectives?: number; nth?: number };
  held.nth = nth;
  const isArmed = held.numCollectives !== undefined;
  held.numCollectives = 0;
  if (isArmed) return rank;
  // The function has no imports: it is sent to the rank as source code.
  const { Group } = require(path) as {
    Group: { prototype: Record<string, (...args: unknown[]) => unknown> };
  };
  for (const name of Object.getOwnPropertyNames(Group.prototype)) {
    const { value } = Object.getOwnPropertyDescriptor(Group.prototype, name) ?? {};
    if (!/^(all|reduce|broadcast|send|recv|barrier|gather|scatter)/.test(name) || typeof value !== 'function')
      continue;
    Group.prototype[name] = function (...args) {
      held.numCollectives = (held.numCollectives ?? 0) + 1;
      if (held.numCollectives === held.nth) process.kill(process.pid, 'SIGKILL');
      return Reflect.apply(value, this, args);
    };
  }
  return rank;
}

/** Makes a rank end within its `nth` collective from now on. */
export async function armKill(job: Job, rank: number, nth: number): Promise<void> {
  await job.on(rank).run(killAt, GROUPS, nth);
}

/** Returns how many collectives a rank has called since `armKill`. */
export async function numCollectives(job: Job, rank: number): Promise<number> {
  const [num = 0] = await job
    .on(rank)
    .run(() => (globalThis as { numCollectives?: number }).numCollectives ?? 0);
  return num;
}

/** A kill: the rank, and how many collectives of its steps it still begins. */
export interface Kill {
  readonly rank: number;
  readonly nth: number;
}

/** A random kill of one of 4 ranks within steps with `most` collectives. */
export function randomKill(random: Random, most: number): Kill {
  return { rank: random.integer(4), nth: 1 + random.integer(most) };
}

/** Trains 8 steps; a rank is killed within steps 4 to 7, and the job is healed. */
export async function trainThroughKill(
  job: Job,
  config: TrainConfigInput,
  options: TrainOptions,
  { rank, nth }: Kill,
  how: HealOptions = {},
): Promise<{ readonly run: Run; readonly step: number }> {
  const run = await job.train(config, options);
  await run.step(3);
  await armKill(job, rank, nth);
  await assert.rejects(run.step(NUM_STEPS - 3), { code: 'RANK_DIED' });
  const { runs } = await job.heal(how);
  const [healed] = runs;
  assert.equal(runs.length, 1);
  assert.equal(run.lastStep, healed?.step);
  await run.step(NUM_STEPS - run.lastStep);
  return { run, step: healed?.step ?? -1 };
}

/** Losses of the same sums in another order; a lost or stale shard differs by 1e-3 and more. */
export const WITHIN = 2e-6;

/** Returns the losses of 8 steps, of which those after `step` are done on `world` ranks. */
export async function reshardedAfter(
  job: Job,
  config: TrainConfigInput,
  step: number,
  world: number,
): Promise<readonly number[]> {
  const run = await job.train(config);
  await run.step(step);
  await run.reshard({ world });
  await run.step(NUM_STEPS - step);
  const { losses } = run;
  await run.dispose();
  return losses;
}
