import { execFileSync } from 'node:child_process';
import type { TestContext } from 'node:test';
import type { z } from 'zod';
import type { ditSchema, t5Schema } from '../../src/config/families/kinds';
import type { LaunchOptions } from '../../src/launch/options';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import { findTorch } from '../../src/torch/find-python';

/** Launches ranks of PyTorch, which are shut down when the test ends. */
export async function launchTorch(
  context: TestContext,
  options: Omit<LaunchOptions, 'engine'>,
): Promise<Job> {
  const job = await launch({ engine: 'torch', ...options });
  context.after(() => job.shutdown());
  return job;
}

/** A small GPT, whose vocabulary and layers fit to two stages and two parts. */
export const GPT = { kind: 'gpt', layers: 2, dim: 32, heads: 4, vocab: 256, seq: 16 } as const;

/** A small GPT with experts, whose router is balanced by a loss. */
export const MOE = { ...GPT, kind: 'moe', experts: 4, router: 'topk', auxLossWeight: 0.1 } as const;

/** A small Llama with fewer key and value heads. */
export const LLAMA = { ...GPT, kind: 'llama', kvHeads: 2, ffn: 64 } as const;

/** A small video transformer with two experts. */
export const DIT: z.input<typeof ditSchema> = {
  kind: 'dit',
  layers: 2,
  dim: 32,
  heads: 2,
  ffn: 64,
  latent: [2, 4, 4],
  inChannels: 12,
  outChannels: 12,
  freqDim: 16,
  textDim: 16,
  textLen: 6,
  experts: 2,
  boundary: 0.5,
};

/** A small text encoder, whose outputs fit to `DIT`. */
export const T5: z.input<typeof t5Schema> = {
  ...{ kind: 't5-encoder', layers: 2, dim: 16, heads: 2, ffn: 32, vocab: 64, seq: 6 },
};

/** Returns the largest absolute difference of two lists of the same length; NaN if the lengths differ. */
export function largestDifference(one: readonly number[], two: readonly number[]): number {
  if (one.length !== two.length) return Number.NaN;
  return Math.max(...one.map((value, i) => Math.abs(value - (two[i] ?? Number.NaN))));
}

/** Returns the pids of the processes that a process, and those that it started, have started. */
export function descendantsOf(pid: number): number[] {
  const lines = execFileSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n');
  const parents = new Map(lines.map((line) => line.trim().split(/\s+/).map(Number) as [number, number]));
  const isBelow = (one: number | undefined): boolean =>
    one !== undefined && (one === pid || isBelow(parents.get(one)));
  return [...parents].filter(([one, parent]) => one !== pid && isBelow(parent)).map(([one]) => one);
}

/** Returns whether the ranks' Python lacks DeepSpeed, as a reason to skip. */
export function lacksDeepSpeed(): string | false {
  try {
    const probe = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("deepspeed") is None)';
    execFileSync(findTorch(undefined), ['-c', probe]);
    return false;
  } catch {
    return 'the Python of the ranks has no deepspeed';
  }
}
