import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { filesBelow, isWritable, root } from './places.mjs';
import { passThrough } from './run.mjs';
import { StepError } from './step.mjs';

/** The time limit of a test file, and of each of its tests. */
const TIMEOUT_MILLISECONDS = { together: 600_000, alone: 1_800_000 };

/**
 * NAME.slow.test.ts takes seconds. In `npm test`, such a file may leave out cases that resemble other cases
 * (test/support/cases.ts); the long run has all of them.
 */
const SLOW = /\.slow(\.torch)?\.test\.ts$/;
/** NAME.long.test.ts takes minutes, measures time or memory, or uses the whole machine. */
const LONG = /\.long\.test\.ts$/;
/** NAME.torch.test.ts needs a Python with PyTorch and uses the whole machine; NAME.slow.torch.test.ts takes minutes. */
const TORCH = /\.torch\.test\.ts$/;
const ALONE = /\.(long|torch)\.test\.ts$/;

/** Fast files of a folder run one after another in shared processes, because a process's start takes as long as their tests. */
const FILES_PER_PROCESS = 8;

/**
 * Slow files that share jobs (test/session/job-fixture.ts) run in shared processes, wherever they are, because a job's start
 * takes as long as a test. In the long run, each slow file has its own process, because several files with all their cases would
 * take longer than the time limit of a process.
 */
const SHARES_JOBS = /\b(shareJob|launchOwn)\(/;
/** Slow files of these folders do too, because they share ranks (test/support/launch-ranks.ts) or what they load. */
const SHARED_FOLDERS = /^test\/(launch\/rank|planner|session\/run|sharding|training)\//;

/** The seconds of each file in the last run that had it. They decide which files start first. */
const DURATIONS = join(root, 'build', 'durations.json');

/** The first line of a test that every run of chosen tests has, or the fast run with PyTorch, with what it covers. */
const SMOKE = /^\/\/ \[Smoke: (.*)\]/;

/** A run names this many of its slowest files at its end. */
const NUM_SLOWEST = 10;

/**
 * Returns the test files of a run: NAME.test.ts always, slow files except in the fast run, NAME.long.test.ts only in the long
 * run. With `torch`, it returns only NAME.torch.test.ts, which no other run contains. If `only` has texts, it returns only files
 * whose path contains one of them.
 */
export function testFiles({ fast, long, torch = false, only }) {
  return filesBelow(join(root, 'test'))
    .map((file) => relative(root, file))
    .filter((file) => file.endsWith('.test.ts') && TORCH.test(file) === torch)
    .filter((file) => !(fast && SLOW.test(file)) && (long || !LONG.test(file)))
    .filter((file) => isNamed(file, only));
}

/** Whether a path contains one of the texts of `only`; true if `only` is empty. */
export function isNamed(file, only) {
  return only.length === 0 || only.some((text) => file.includes(text.replace(/\.[jt]s$/, '')));
}

/**
 * Runs test files (by source paths), prints the slowest files and "N passed, N failed, N skipped"; returns the exit status.
 * Two more files than there are cores run at a time, because slow files wait for ranks and kernels about half of their
 * time. After that, files that measure or use the whole machine run alone.
 */
export async function runTests(files, env, { long = false } = {}) {
  if (files.length === 0) throw new StepError('No test file matches.', 'name part of a path below test/');
  const isAlone = (file) => ALONE.test(file);
  const together = await runGroup(inOrder(files.filter((file) => !isAlone(file))), 'together', { env, long });
  const alone = await runGroup(files.filter(isAlone), 'alone', { env, long });
  const sum = (name) => together[name] + alone[name];
  // A file with all its cases takes longer than usual.
  if (!long) storeDurations([...together.files, ...alone.files]);
  const skipped = sum('skipped') > 0 ? `, ${sum('skipped')} skipped` : '';
  process.stdout.write(slowestFiles([...together.files, ...alone.files]));
  process.stdout.write(`\n${sum('passed')} passed, ${sum('failed')} failed${skipped}\n`);
  return sum('status') !== 0 || sum('failed') > 0 || sum('passed') === 0 ? 1 : 0;
}

/**
 * Returns the files in the order in which they start: the slowest ones first, so that no core is idle at the end while another
 * core runs a slow file. Files that have not run here come before all others, slow ones first; of those, longer files first.
 */
export function inOrder(files, durations = readDurations()) {
  const size = (file) => (existsSync(join(root, file)) ? statSync(join(root, file)).size : 0);
  const rank = (file) => [
    SLOW.test(file) ? 1 : 0,
    durations[file] ?? Number.POSITIVE_INFINITY,
    durations[file] === undefined ? size(file) : 0,
  ];
  const ranks = new Map(files.map((file) => [file, rank(file)]));
  const compare = (a, b) => {
    const i = ranks.get(a).findIndex((value, at) => value !== ranks.get(b)[at]);
    return i < 0 ? 0 : ranks.get(b)[i] - ranks.get(a)[i];
  };
  return [...files].sort(compare);
}

/** The seconds of each file in the last run that had it. */
export function readDurations() {
  try {
    return JSON.parse(readFileSync(DURATIONS, 'utf8'));
  } catch {
    return {};
  }
}

function storeDurations(files) {
  const stored = Object.fromEntries(files.map(({ file, seconds }) => [sourceOf(file), seconds]));
  if (isWritable(join(root, 'build'))) {
    writeFileSync(DURATIONS, JSON.stringify({ ...readDurations(), ...stored }, null, 1));
  }
}

/** The source of a compiled test. */
function sourceOf(file) {
  return relative(join(root, 'build'), file).replace(/\.js$/, '.ts');
}

/** Returns those of the files that are marked as the smoke: together they run in a minute and touch each part once. */
export function smokeFiles(files) {
  return files.filter((file) => SMOKE.test(readFileSync(join(root, file), 'utf8')));
}

function slowestFiles(files) {
  if (files.length <= NUM_SLOWEST) return '';
  const slowest = files.sort((a, b) => b.seconds - a.seconds).slice(0, NUM_SLOWEST);
  const lines = slowest.map(({ file, seconds }) => `${seconds.toFixed(1).padStart(8)} s  ${sourceOf(file)}`);
  return `\nThe slowest files:\n${lines.join('\n')}\n`;
}

async function runGroup(files, way, { env, long }) {
  if (files.length === 0) return { status: 0, passed: 0, failed: 0, skipped: 0, files: [] };
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-test-'));
  const totals = join(folder, 'totals.json');
  try {
    const args = nodeArguments(sharedProcesses(files, folder, { long }), way, totals);
    // Tests expect errors in English only, whatever the locale of the developer is.
    const status = await passThrough(process.execPath, args, {
      cwd: root,
      env: { ...env, SHARDLAB_LANG: 'en', SHARDLAB_HISTORY: '0' },
    });
    if (!existsSync(totals) || readFileSync(totals, 'utf8') === '') {
      throw new StepError(
        `The test runner ended early with status ${status}.`,
        'its last lines above say why',
      );
    }
    return { status, ...JSON.parse(readFileSync(totals, 'utf8')) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Writes the files that node:test runs into `folder`. Each written file runs one slow file, or several fast files, or several
 * files that share ranks or jobs. The names of written files are numbers in the order of `files`, because node:test starts files
 * in the order of their names. Each test file is a suite, so that its hooks run only for its tests and failures show its path.
 */
export function sharedProcesses(files, folder, { long = false } = {}) {
  const groups = new Map();
  for (const [i, file] of files.entries()) {
    const name = processOf(file, long) ?? `${i}`;
    groups.set(name, [...(groups.get(name) ?? []), file]);
  }
  const rooms = [...groups.values()].flatMap(dealt).sort((a, b) => files.indexOf(a[0]) - files.indexOf(b[0]));
  return rooms.map((room, i) => {
    const file = join(folder, `${String(i).padStart(4, '0')}.test.cjs`);
    const suites = room
      .map((source) => JSON.stringify(join(root, 'build', source.replace(/\.ts$/, '.js'))))
      .map((path) => `describe(${path}, () => void require(${path}));`);
    writeFileSync(file, ["const { describe } = require('node:test');", ...suites, ''].join('\n'));
    return file;
  });
}

/** Deals the files of a group to as few processes as may be, so that each process gets slow ones and fast ones. */
function dealt(group) {
  const count = Math.ceil(group.length / FILES_PER_PROCESS);
  return Array.from({ length: count }, (_, i) => group.filter((_, at) => at % count === i));
}

/** Returns a name for the files that share a process with this file; undefined: the file has its own process. */
function processOf(file, long) {
  if (ALONE.test(file)) return undefined;
  if (!SLOW.test(file)) return file.split('/')[1];
  if (long) return undefined;
  if (SHARES_JOBS.test(readFileSync(join(root, file), 'utf8'))) return 'slow files that share jobs';
  const folder = SHARED_FOLDERS.exec(file)?.[1];
  return folder && `slow files of ${folder}`;
}

function nodeArguments(compiled, way, totals) {
  const concurrency = way === 'alone' ? 1 : availableParallelism() + 2;
  return [
    '--test',
    `--require=${join(root, 'build', 'src', 'core', 'code-cache', 'use.js')}`,
    `--test-concurrency=${concurrency}`,
    `--test-timeout=${TIMEOUT_MILLISECONDS[way]}`,
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    `--test-reporter=${pathToFileURL(join(root, 'scripts', 'lib', 'count-reporter.mjs'))}`,
    `--test-reporter-destination=${totals}`,
    ...compiled,
  ];
}
