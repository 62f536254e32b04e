import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { StrategyName } from '../../../src/config/strategies';
import { type Random, seeded } from '../../../src/core/random';
import type { StepResult } from '../../../src/training/step-result';
import { goneAfter, launchFor, temporaryFolder } from '../job-fixture';
import { configOf, filesOf, type KilledRun, STEPS, WORLD } from './killed-runs';

type Fact = Pick<StepResult, 'step' | 'loss' | 'lr'>;
/** A line of a run's log. */
type Line = Partial<Fact> & {
  readonly loaded?: number;
  readonly saved?: number;
  readonly pids?: readonly number[];
  readonly ended?: boolean;
};

/** A kill comes at most this many milliseconds after a step is in the log: steps and saves take less. */
const REACH_MS = 120;
/** A kill comes after 2 steps of a job at the earliest, and after at most this many more. */
const MOST_STEPS = 8;

/** Writes the data of the runs. Returns the folder. */
function dataFolder(context: TestContext): string {
  const { path } = temporaryFolder(context);
  const source = readFileSync(require.resolve('typescript/lib/lib.es5.d.ts'), 'utf8');
  writeFileSync(join(path, 'my.txt'), source.slice(0, 500));
  const rows = Array.from({ length: 37 }, (_, i) => {
    const x = [0, 1, 2, 3].map((at) => Math.sin(7 * i + at));
    return `${JSON.stringify({ x, y: x.reduce((a, b) => a + b) })}\n`;
  });
  writeFileSync(join(path, 'my.jsonl'), rows.join(''));
  return path;
}

/** Returns the steps of a run that nothing disturbs. */
async function undisturbed(context: TestContext, run: KilledRun): Promise<Fact[]> {
  const job = await launchFor(context, { ranks: WORLD, baseDir: run.folder });
  const whole = await job.train(configOf(run));
  await whole.step(STEPS);
  const facts = whole.results.map(({ step, loss, lr }) => ({ step, loss, lr }));
  await job.shutdown();
  return facts;
}

const linesOf = (log: string): Line[] =>
  existsSync(log)
    ? readFileSync(log, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line)
    : [];

/** Starts a job that continues the run, and kills it at a random moment. Returns whether all steps were done before. */
async function startAndKill(run: KilledRun, random: Random): Promise<boolean> {
  const { log } = filesOf(run.folder);
  const before = linesOf(log).length;
  const launcher = fork(join(__dirname, 'killed-runs.js'), [JSON.stringify(run)], { silent: true });
  let errors = '';
  launcher.stderr?.on('data', (data) => {
    errors += String(data);
  });
  const exit = once(launcher, 'exit');
  const hasEnded = (): boolean => launcher.exitCode !== null || launcher.signalCode !== null;
  const numSteps = 2 + random.integer(MOST_STEPS);
  const [delay, victim] = [random.uniform() * REACH_MS, random.integer(WORLD + 2)];
  const own = (): Line[] => linesOf(log).slice(before);
  while (!hasEnded() && own().filter(({ step }) => step !== undefined).length < numSteps) await setTimeout(2);
  if (!hasEnded()) await setTimeout(delay);
  const pids = own().find(({ pids }) => pids)?.pids ?? [];
  kill(launcher, pids, victim);
  await exit;
  assert.notEqual(await goneAfter(pids), undefined, 'ranks were left behind');
  if (own().some(({ ended }) => ended === true)) return true;
  assert.ok(launcher.signalCode === 'SIGKILL' || /RANK_DIED|SIGKILL/.test(errors), errors);
  return false;
}

/** Kills a rank, all ranks, or the launcher. */
function kill(launcher: ChildProcess, pids: readonly number[], victim: number): void {
  if (victim === WORLD + 1) {
    launcher.kill('SIGKILL');
    return;
  }
  for (const [rank, pid] of pids.entries()) {
    if (victim !== WORLD && victim !== rank) continue;
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // The job has ended before.
    }
  }
}

interface Case extends Pick<KilledRun, 'kind'> {
  /** The strategies of the jobs, in turns. */
  readonly strategies: readonly StrategyName[];
  /** Difference of losses that is allowed; 0: none. */
  readonly bound: number;
}

const CASES: readonly Case[] = [
  { kind: 'text', strategies: ['FULL_SHARD'], bound: 0 },
  { kind: 'rows', strategies: ['NO_SHARD'], bound: 0 },
  { kind: 'text', strategies: ['FULL_SHARD', 'NO_SHARD', 'ZERO_2'], bound: 1e-4 },
];

for (const [number, { kind, strategies, bound }] of CASES.entries()) {
  const how = bound === 0 ? 'to the bit' : 'within rounding';
  test(`a run on ${kind} under ${strategies.join(', ')} that is killed again and again has the losses of an undisturbed run, ${how}`, async (context) => {
    const seed = Number(process.env.SHARDLAB_SEED ?? 100 + number);
    const random = seeded(seed, 'kills');
    const [strategy = 'FULL_SHARD'] = strategies;
    const folder = dataFolder(context);
    const run: KilledRun = { kind, strategy, folder, seed };
    const expected = await undisturbed(context, run);
    let numKills = 0;
    for (; ; numKills++) {
      const next = strategies[numKills % strategies.length] ?? strategy;
      if (await startAndKill({ ...run, strategy: next, seed: seed + 1000 * numKills }, random)) break;
    }
    const lines = linesOf(filesOf(folder).log);
    const loaded = lines.flatMap(({ loaded }) => loaded ?? []);
    context.diagnostic(`seed ${seed}: ${numKills} kills; loaded steps ${loaded.join(', ')}`);
    const seen = new Set<number>();
    for (const { step = 0, loss = Number.NaN, lr } of lines.filter(({ step }) => step !== undefined)) {
      seen.add(step);
      const { loss: whole, lr: rate } = expected[step - 1] ?? {};
      assert.equal(lr, rate, `seed ${seed}, step ${step}`);
      if (bound === 0) assert.equal(loss, whole, `seed ${seed}, step ${step}`);
      else assert.ok(Math.abs(loss - (whole ?? 0)) < bound, `seed ${seed}, step ${step}: ${loss}, ${whole}`);
    }
    assert.equal(seen.size, STEPS, 'every step was logged');
    assert.ok(numKills >= 4 && new Set(loaded).size >= 3, `seed ${seed}: loaded ${loaded}`);
  });
}
