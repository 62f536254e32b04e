import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import fs, { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { seeded } from '../../../src/core/random';
import { folderToRead } from '../../../src/training/checkpoint/format/checkpoint-folder';
import { STATE_FILE } from '../../../src/training/checkpoint/format/checkpoint-mark';
import { parseCheckpointState } from '../../../src/training/checkpoint/format/checkpoint-state';
import { launchRanks } from '../../support/launch-ranks';
import type { KillArgs } from './kill-rank';
import { readCheckpoint } from './state-files';

const WORLD = 2;
/** The number of saves after the ranks' start within which a kill comes, or directly after one. */
const MOST_SAVES = 3;
/** The kill comes at most this share of the longest save after a save's start. */
const REACH = 1.1;

/** The result of all kills. */
export interface KillReport {
  /** Saves that were complete. */
  readonly numSaved: number;
  /** Kills after which the newest complete state came from an unfinished save, or files were left beside the folder. */
  readonly numAmidst: number;
}

/** Kills one or both ranks at seeded moments while they save, and checks each time what is left. */
export async function killWhileSaving(numKills: number, seed: number): Promise<KillReport> {
  const parent = mkdtempSync(join(tmpdir(), 'shardlab-kill-'));
  const [folder, log] = [join(parent, 'ckpt'), join(parent, 'log')];
  const random = seeded(seed);
  let last = 0;
  let numSaved = 0;
  let numAmidst = 0;
  let longest = 50;
  try {
    for (let kill = 0; kill < numKills; kill++) {
      fs.writeFileSync(log, '');
      const args: KillArgs = { blas: 'none', folder, log, first: last + 1 };
      const save = args.first + random.integer(MOST_SAVES);
      const plan = { save, delay: random.uniform() * REACH * longest, which: random.integer(3) };
      longest = Math.max(longest, await killed(args, plan));
      const said = saidIn(log);
      if (last > 0) assert.equal(said.loaded, last, 'ranks loaded what was left');
      if (said.begun === 0) continue;
      const newest = checkLeft(folder, Math.max(last, said.saved));
      assert.ok(newest >= Math.max(last, said.saved) && newest <= Math.max(last, said.begun));
      numSaved += newest - last;
      if (newest > said.saved || fs.readdirSync(parent).length > 2) numAmidst++;
      last = newest;
    }
  } finally {
    rmSync(parent, { recursive: true, force: true });
  }
  return { numSaved, numAmidst };
}

interface Kill {
  /** The save after whose start the kill comes, and the delay in milliseconds. */
  readonly save: number;
  readonly delay: number;
  /** 0, 1: a rank; 2: both. */
  readonly which: number;
}

/** Starts ranks and kills the first, the second or both; the launcher ends the other. Returns the duration of a save. */
async function killed(args: KillArgs, { save, delay, which }: Kill): Promise<number> {
  const children: ChildProcess[] = [];
  const run = launchRanks({
    script: join(__dirname, 'kill-rank.js'),
    world: WORLD,
    args,
    started: (child) => children.push(child),
  });
  let hasEnded = false;
  const ended = run
    .then(
      () => 'returned',
      (error: unknown) => String(error),
    )
    .finally(() => {
      hasEnded = true;
    });
  const said = async (line: string): Promise<number> => {
    while (!hasEnded && !readFileSync(args.log, 'utf8').includes(`${line}\n`)) await setTimeout(1);
    return performance.now();
  };
  const begun = await said(`begun ${args.first}`);
  const duration = save > args.first ? (await said(`saved ${args.first}`)) - begun : 0;
  await said(`begun ${save}`);
  if (!hasEnded) await setTimeout(delay);
  for (const [rank, child] of children.entries()) if (which === 2 || which === rank) child.kill('SIGKILL');
  // On a busy machine, a rank that lives may report the death before the killed process's end is seen.
  assert.match(await ended, /ended early \(SIGKILL\)|process ended before the save into/);
  return duration;
}

/** The number of the state on disk, after checking that all values are of that state. 0 if none was ever complete. */
function checkLeft(folder: string, complete: number): number {
  if (complete === 0 && fs.readdirSync(join(folder, '..')).every((name) => !/^ckpt/.test(name))) return 0;
  let path: string;
  try {
    path = folderToRead(fs, folder);
  } catch (error) {
    assert.equal(complete, 0, String(error));
    return 0;
  }
  const file = join(path, STATE_FILE);
  const n = Number(parseCheckpointState(readFileSync(file, 'utf8'), file).trainer);
  for (const [name, values] of readCheckpoint(path)) {
    const expected = n + (name.endsWith('.exp_avg') ? 0.25 : name.endsWith('.exp_avg_sq') ? 0.5 : 0);
    assert.ok(
      values.every((value) => value === expected),
      `state ${n}: ${name} has other values`,
    );
  }
  return n;
}

function saidIn(log: string): { readonly loaded: number; readonly begun: number; readonly saved: number } {
  const lines = readFileSync(log, 'utf8').split('\n');
  const lastOf = (word: string): number =>
    Number(lines.findLast((line) => line.startsWith(`${word} `))?.slice(word.length + 1) ?? 0);
  return { loaded: lastOf('loaded'), begun: lastOf('begun'), saved: lastOf('saved') };
}
