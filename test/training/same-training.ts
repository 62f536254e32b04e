import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PIPELINE } from '../../src/config/settings/pipeline';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { Job } from '../../src/session/run/job';
import type { Run } from '../../src/session/run/run';
import { HAS_ALL_CASES } from '../support/cases';
import { readSafetensors } from '../support/safetensors';

// 5 layers on 2 stages, a tied embedding, and a vocabulary that tensor parallelism pads.
export const GPT = { kind: 'gpt', layers: 5, dim: 24, heads: 4, vocab: 61, seq: 8 } as const;
export const LLAMA = {
  kind: 'llama',
  layers: 3,
  dim: 24,
  heads: 4,
  kvHeads: 2,
  vocab: 61,
  seq: 8,
} as const;
// With eps 1e-3, AdamW does not amplify the noise of gradients near zero.
export const CONFIG: TrainConfigInput = {
  model: GPT,
  data: 'synthetic',
  batch: 4,
  optimizer: { eps: 1e-3 },
};

const STEPS = HAS_ALL_CASES ? 3 : 2;

/** Values are sums of the same float32 numbers in another order; a skipped microbatch differs by 1e-3 and more. */
const WITHIN = 2e-5;

export function assertClose(
  what: string,
  found: readonly number[],
  expected: readonly number[],
  within = WITHIN,
): void {
  assert.equal(found.length, expected.length);
  const worst = Math.max(...found.map((value, i) => Math.abs(value - (expected[i] ?? Number.NaN))));
  assert.ok(
    worst <= within,
    `${what} differs by ${worst}: ${found.slice(0, 5)} and not ${expected.slice(0, 5)}`,
  );
}

export async function steps(run: Run, count = STEPS): Promise<number[]> {
  await run.step(count);
  return run.losses.slice(-count);
}

/** Compares losses and every parameter with those of data-parallel ranks without stages, and without parts of matrices. */
export async function assertSame(
  what: string,
  job: Job,
  config: TrainConfigInput,
  { ranks, within = WITHIN }: { readonly ranks: number; readonly within?: number },
): Promise<void> {
  const divided = new Set<string>([...Object.keys(PIPELINE), 'tp', 'sequenceParallel', 'cp', 'cpKind']);
  const whole = Object.entries(config.parallel ?? {}).filter(([key]) => !divided.has(key));
  const plain = await job.train({ ...config, parallel: Object.fromEntries(whole) }, { ranks });
  const run = await job.train(config);
  assert.equal(run.numParams, plain.numParams);
  assertClose(what, await steps(run), await steps(plain), within);
  const [found, expected] = [await parametersOf(run), await parametersOf(plain)];
  assert.deepEqual([...found.keys()], [...expected.keys()]);
  for (const [name, { values }] of expected)
    assertClose(`${what}: ${name}`, [...(found.get(name)?.values ?? [])], [...values], within);
  await run.dispose();
  await plain.dispose();
}

export async function parametersOf(run: Run) {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-pp-'));
  try {
    await run.save(folder, { type: 'FULL_STATE_DICT' });
    return readSafetensors(join(folder, 'model.safetensors'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
