import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { filesBelow } from './build.mjs';
import { root } from './places.mjs';
import { passThrough } from './run.mjs';
import { StepError } from './step.mjs';

const TEST_TIMEOUT_MILLISECONDS = 600_000;

/**
 * The test files of a run: NAME.test.ts always, NAME.slow.test.ts except in the fast run, NAME.long.test.ts only in the
 * long run. `only` keeps the files whose path contains one of its texts.
 */
export function testFiles({ fast, long, only }) {
  return filesBelow(join(root, 'test'))
    .map((file) => relative(root, file))
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => !(fast && file.endsWith('.slow.test.ts')) && (long || !file.endsWith('.long.test.ts')))
    .filter((file) => only.length === 0 || only.some((text) => file.includes(text.replace(/\.[jt]s$/, ''))));
}

/**
 * Runs test files (by their source paths) and prints "N passed, N failed, N skipped"; gives the exit status.
 * Ordinary files run as many at a time as there are cores; slow and long ones, which measure or fill the machine, alone.
 */
export async function runTests(files, env) {
  if (files.length === 0) throw new StepError('No test file fits.', 'name part of a path below test/');
  const isAlone = (file) => /\.(slow|long)\.test\.ts$/.test(file);
  const together = await runGroup(
    files.filter((file) => !isAlone(file)),
    availableParallelism(),
    env,
  );
  const alone = await runGroup(files.filter(isAlone), 1, env);
  const sum = (name) => together[name] + alone[name];
  const skipped = sum('skipped') > 0 ? `, ${sum('skipped')} skipped` : '';
  process.stdout.write(`\n${sum('passed')} passed, ${sum('failed')} failed${skipped}\n`);
  return sum('status') !== 0 || sum('failed') > 0 || sum('passed') === 0 ? 1 : 0;
}

async function runGroup(files, concurrency, env) {
  if (files.length === 0) return { status: 0, passed: 0, failed: 0, skipped: 0 };
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-test-'));
  const totals = join(folder, 'totals.json');
  try {
    const args = nodeArguments(files, concurrency, totals);
    const status = await passThrough(process.execPath, args, { cwd: root, env });
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

function nodeArguments(files, concurrency, totals) {
  return [
    '--test',
    `--test-concurrency=${concurrency}`,
    `--test-timeout=${TEST_TIMEOUT_MILLISECONDS}`,
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    `--test-reporter=${pathToFileURL(join(root, 'scripts', 'lib', 'count-reporter.mjs'))}`,
    `--test-reporter-destination=${totals}`,
    ...files.map((file) => join(root, 'build', file.replace(/\.ts$/, '.js'))),
  ];
}
