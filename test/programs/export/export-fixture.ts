import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { type BundleOptions, planBundle, writeBundle } from '../../../src/programs/bundle/bundle';
import type { ExportReport } from '../../../src/programs/bundle/report';

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
