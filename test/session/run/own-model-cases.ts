import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STRATEGY_NAMES } from '../../../src/config/strategies';
import type { Job } from '../../../src/session/run/job';
import type { Run } from '../../../src/session/run/run';
import { scattered } from '../../nn/model-reference';
import { testData } from '../../support/paths';
import { readSafetensors } from '../../support/safetensors';
import { runCell, shareJob } from '../job-fixture';
import { OWN } from './own-models';
import { VALUES_CELL } from './own-values';

/** `_HYBRID_SHARD_ZERO2` differs from HYBRID_SHARD as SHARD_GRAD_OP differs from FULL_SHARD. */
export const STRATEGIES = STRATEGY_NAMES.filter((name) => name !== '_HYBRID_SHARD_ZERO2');
export type Strategy = (typeof STRATEGIES)[number];

/** Replicas and shards of HYBRID_SHARD by the world: only replicas, only shards, both. */
const MESHES: Readonly<Record<number, { readonly dpReplicate: number; readonly dpShard: number }>> = {
  1: { dpReplicate: 1, dpShard: 1 },
  2: { dpReplicate: 2, dpShard: 1 },
  3: { dpReplicate: 1, dpShard: 3 },
  4: { dpReplicate: 2, dpShard: 2 },
};

/** Of losses and norms of gradients, relative to them, and of parameters, relative to their norm: float32 sums in another order. */
const BOUND = 5e-6;

interface Recorded {
  readonly losses: readonly number[];
  readonly gradNorms: readonly number[];
  /** For each parameter and buffer: the product with scattered values, and the norm. */
  readonly state: Readonly<Record<string, readonly [product: number, norm: number]>>;
}

// Written by test/data/own_models_reference.py.
const { models: TORCH } = JSON.parse(readFileSync(testData('own_models_reference.json'), 'utf8')) as {
  models: Readonly<Record<string, Recorded>>;
};

/** A job of 4 ranks that know the values of the own models. */
export function launchOwn(): () => Promise<Job> {
  const shared = shareJob({ ranks: 4 });
  return async () => {
    await runCell(shared(), VALUES_CELL);
    return shared();
  };
}

export function configOf(name: string, strategy: Strategy, world: number): object {
  const { parts, wrap, optimizer = { lr: 1e-2 } } = OWN[name] ?? assert.fail(name);
  const mesh = strategy === 'HYBRID_SHARD' ? { mesh: MESHES[world] } : {};
  return { ...parts, optimizer, seed: 3, parallel: { strategy, wrap, ...mesh } };
}

/** Trains a model, and requires torch's losses, norms of gradients, and parameters and buffers after the last step. */
export async function checkTorch(
  job: Job,
  folder: string,
  name: string,
  [strategy, world]: readonly [Strategy, number],
): Promise<void> {
  const { losses, state } = TORCH[name] ?? assert.fail(`${name} is not recorded`);
  const what = `${name} under ${strategy} on ${world}`;
  const run = await job.train(configOf(name, strategy, world), { ranks: world });
  await run.step(losses.length);
  const trained = await stateOf(run, join(folder, what.replaceAll(' ', '-')));
  assert.deepEqual([...trained.keys()].sort(), Object.keys(state).sort(), what);
  const gradNorms = run.results.map(({ gradNorm }) => gradNorm);
  requireTorch(name, { losses: run.losses, gradNorms, state: trained }, what);
  await run.dispose();
}

/** What a training gave; `state` has some or all parameters and buffers. */
interface Trained extends Pick<Recorded, 'losses' | 'gradNorms'> {
  readonly state: ReadonlyMap<string, readonly number[]>;
}

/** Requires torch's losses, norms of gradients, and values of a state. */
export function requireTorch(name: string, { losses, gradNorms, state }: Trained, what: string): void {
  const recorded = TORCH[name] ?? assert.fail(`${name} is not recorded`);
  requireClose(losses, recorded.losses, `${what}: losses`);
  requireClose(gradNorms, recorded.gradNorms, `${what}: norms of gradients`);
  for (const [key, values] of state) {
    const [product, norm] = recorded.state[key] ?? assert.fail(`${what}: torch has no ${key}`);
    const weights = scattered(values.length, 7, 2);
    const sum = values.reduce((total, value, i) => total + value * (weights[i] ?? 0), 0);
    assert.ok(Math.abs(sum - product) <= BOUND * norm, `${what}: ${key} gives ${sum}, torch's ${product}`);
    assert.ok(Math.abs(Math.hypot(...values) - norm) <= BOUND * norm, `${what}: the norm of ${key}`);
  }
}

/** Requires torch's losses of runs on 4, 3 and 2 ranks of which each trains a step in turn. */
export async function checkInTurn(job: Job, name: string): Promise<void> {
  const { losses } = TORCH[name] ?? assert.fail(`${name} is not recorded`);
  const runs: Run[] = [];
  for (const ranks of [4, 3, 2]) runs.push(await job.train(configOf(name, 'ZERO_2', ranks), { ranks }));
  for (const _ of losses) for (const run of runs) await run.step();
  for (const run of runs) {
    requireClose(run.losses, losses, `${name} on ${run.world}, in turn`);
    await run.dispose();
  }
}

/** Requires that a reshard and a load in the middle of a training do not change its losses. */
export async function checkContinues(job: Job, path: string, name: string): Promise<void> {
  const whole = await job.train(configOf(name, 'NO_SHARD', 1), { ranks: 1 });
  await whole.step(9);
  const run = await job.train(configOf(name, 'FULL_SHARD', 4));
  await run.step(3);
  await run.save(path);
  await run.reshard({ strategy: 'ZERO_2', world: 2 });
  await run.step(3);
  requireClose(run.losses, whole.losses.slice(0, 6), `${name} after a reshard`);
  const again = await job.train(configOf(name, 'SHARD_GRAD_OP', 2), { ranks: 2 }).load(path);
  await again.step(6);
  requireClose(again.losses, whole.losses.slice(3), `${name} after a load`);
  for (const each of [whole, run, again]) await each.dispose();
}

function requireClose(found: readonly number[], expected: readonly number[], what: string): void {
  assert.equal(found.length, expected.length, what);
  found.forEach((loss, i) => {
    const other = expected[i] ?? Number.NaN;
    assert.ok(Math.abs(loss - other) <= BOUND * Math.abs(other), `${what}: ${found} and ${expected}`);
  });
}

async function stateOf(run: Run, folder: string): Promise<Map<string, number[]>> {
  const { path } = await run.save(folder, { type: 'FULL_STATE_DICT' });
  const files = readdirSync(path).filter((file) => /^model.*\.safetensors$/.test(file));
  const tensors = files.flatMap((file) => [...readSafetensors(join(path, file))]);
  return new Map(tensors.map(([key, { values }]) => [key, [...values]]));
}
