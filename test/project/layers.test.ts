import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layerViolations } from './layers';
import { readSources } from './sources';

test('every import of src and kernel points down the order of folders', () => {
  const violations = layerViolations(readSources('src', 'kernel'));
  assert.equal(violations.length, 0, `\n${violations.join('\n')}`);
});

test('an import that points up is found, and both sides are named', () => {
  const sources = new Map([
    ['src/wire/dist/group.ts', `import { train } from '../train/trainer';`],
    ['src/training/trainer.ts', `import type { Group } from '../dist/group';`],
  ]);
  const violations = layerViolations(sources);
  assert.equal(violations.length, 1);
  assert.match(
    violations[0] ?? '',
    /^src\/dist\/group\.ts imports src\/train\/trainer\.ts: dist lies below train/,
  );
});

test('an upward import is found in every form of import', () => {
  const forms = [
    `export { a } from '../cli/a';`,
    `import type { A } from '../cli/a';`,
    `const a = await import('../cli/a');`,
    `const a = require('../cli/a');`,
    `import '../index';`,
  ];
  for (const form of forms) {
    const sources = new Map([
      ['src/core/a.ts', form],
      ['src/cli/a.ts', ''],
      ['src/index.ts', ''],
    ]);
    assert.equal(layerViolations(sources).length, 1, form);
  }
});

test('an upward import between rooms of a folder is found', () => {
  const sources = new Map([
    ['src/launch/rank/scope.ts', `import { launch } from '../launch/fleet';`],
    ['src/launch/fleet.ts', `import '../rank/setup';`],
    ['src/launch/rank/setup.ts', ''],
  ]);
  assert.deepEqual(layerViolations(sources), [
    'src/launch/rank/scope.ts imports src/launch/fleet.ts: job/rank lies below job/launch.',
  ]);
});

test('files of a folder itself are a room of their own, except those that the order names', () => {
  const sources = new Map([
    ['src/figures/grammar/plot.ts', `import '../format';\nimport '../table';`],
    ['src/figures/format.ts', ''],
    ['src/figures/table.ts', `import './grammar/plot';\nimport './plans/what-if';`],
    ['src/figures/plans/what-if.ts', `import '../table';`],
  ]);
  assert.deepEqual(layerViolations(sources), [
    'src/figures/grammar/plot.ts imports src/figures/table.ts: figures/grammar lies below figures/..',
    'src/figures/table.ts imports src/figures/plans/what-if.ts: figures/. lies below figures/plans.',
  ]);
});

test("the kernel's front may import only core and cell, also through its own files", () => {
  const sources = new Map([
    ['kernel/main.ts', `import './session';\nimport { wire } from '../src/core/wire';`],
    ['kernel/session.ts', `import '../src/cell/display';\nimport '../src/job/job';`],
    ['kernel/executor.ts', `import '../src/index';`],
    ['src/core/wire.ts', ''],
    ['src/cell/display.ts', ''],
    ['src/session/job.ts', ''],
    ['src/index.ts', ''],
  ]);
  assert.deepEqual(layerViolations(sources), [
    "kernel/session.ts imports src/session/job.ts: the kernel's front imports core and cell only.",
  ]);
});

test('a folder of src that is not in the order is an error', () => {
  assert.throws(() => layerViolations(new Map([['src/misc/a.ts', `import '../core/b';`]])), /src\/misc/);
});
