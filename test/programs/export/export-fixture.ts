import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { after, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import type { LaunchOptions } from '../../../src/launch';
import { type BundleOptions, planBundle, writeBundle } from '../../../src/programs/bundle/bundle';
import type { ExportReport } from '../../../src/programs/bundle/report';
import type { Job } from '../../../src/session/run/job';
import { launch } from '../../../src/session/run/launch';

export const GPT = { kind: 'gpt', layers: 2, dim: 32, heads: 4, vocab: 256, seq: 16 } as const;
export const LLAMA = { ...GPT, kind: 'llama', kvHeads: 2 } as const;

/** A bundle of a test, with the text of each file. */
export interface TestBundle {
  readonly report: ExportReport;
  readonly text: (path: string) => string;
  readonly bytes: (path: string) => Buffer;
}

/** Returns a folder that is deleted when the test ends. */
export function testFolder(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-export-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Exports a config, on one machine with two GPUs unless the options say otherwise. */
export function bundleOf(
  context: TestContext,
  input: TrainConfigInput,
  options: Partial<BundleOptions> & Pick<BundleOptions, 'to'>,
): TestBundle {
  const config = parseTrainConfig({ model: GPT, batch: 2, steps: 3, ...input });
  const out = join(testFolder(context), 'bundle');
  const report = writeBundle(planBundle(config, { out, gpusPerMachine: 2, ...options }), {
    prepared: undefined,
  });
  const bytes = (path: string): Buffer => readFileSync(join(out, path));
  return { report, bytes, text: (path) => bytes(path).toString() };
}

/** Runs a bundle's launch script on CPUs with the Python of the tests with PyTorch. Returns the losses that it prints. */
export async function lossesOf(
  folder: string,
  script = './launch.sh',
  env: NodeJS.ProcessEnv = {},
): Promise<readonly number[]> {
  const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
  const path = [dirname(python), process.env.PATH].join(delimiter);
  const { stdout } = await promisify(execFile)(script, {
    cwd: folder,
    env: { ...process.env, PATH: path, OMP_NUM_THREADS: '1', CUDA_VISIBLE_DEVICES: '', ...env },
    maxBuffer: 2 ** 24,
  });
  return [...stdout.matchAll(/^step \d+ loss ([\d.]+)$/gm)].map(([, loss]) => Number(loss));
}

/** The places in which torchrun trains the models; a test file puts each model in one of them. */
export const PLACES = [1, 2, 4].flatMap((world) =>
  (['NO_SHARD', 'FULL_SHARD'] as const).map((strategy) => ({ world, strategy })),
);
/** Whether each model runs in all places. */
export const IS_WHOLE = process.env.SHARDLAB_ALL_PLACES === '1';

/** Returns a function that launches jobs: one job runs at a time, and the same options get the same job. */
export function oneJob(): (options: LaunchOptions) => Promise<Job> {
  let job: { readonly key: string; readonly running: Job } | undefined;
  after(async () => {
    await job?.running.shutdown();
  });
  return async (options) => {
    const key = JSON.stringify(options);
    if (job?.key === key) return job.running;
    await job?.running.shutdown();
    job = undefined;
    job = { key, running: await launch(options) };
    return job.running;
  };
}

/** Fails if a bundle's losses are not those of the run here, up to 1e-5. */
export function assertSameLosses(here: readonly number[], there: readonly number[], steps: number): void {
  assert.equal(there.length, steps);
  for (const [step, loss] of here.entries())
    assert.ok(
      Math.abs(loss - (there[step] ?? 0)) <= 1e-5,
      `step ${step + 1}: ${here.join(' ')} here, ${there.join(' ')} there`,
    );
}
