import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layerViolations } from './layers';
import { readSources } from './sources';

test('every import of src, kernel and site points down the order of flats, through their doors', () => {
  const violations = layerViolations(readSources('src', 'kernel', 'site/planner'));
  assert.equal(violations.length, 0, `\n${violations.join('\n')}`);
});

test('an import that points up is found, and both sides are named', () => {
  const sources = new Map([
    ['src/wire/group.ts', `import { train } from '../training';`],
    ['src/wire/index.ts', `export type { Group } from './group';`],
    ['src/training/index.ts', `export { train } from './trainer';`],
    ['src/training/trainer.ts', `import type { Group } from '../wire';`],
  ]);
  const violations = layerViolations(sources);
  assert.equal(violations.length, 1);
  assert.match(
    violations[0] ?? '',
    /^src\/wire\/group\.ts imports src\/training\/index\.ts: wire lies below training/,
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

test('an import that passes a door is found, also from the kernel', () => {
  const sources = new Map([
    ['src/nn/linear.ts', `import { ConfigError } from '../core/errors';\nimport * as tf from '../core/tf';`],
    [
      'kernel/executor.ts',
      `import { shown } from '../src/core';\nimport { Linear } from '../src/nn/linear';`,
    ],
    ['src/core/errors.ts', ''],
    ['src/core/tf.ts', ''],
    ['src/core/index.ts', `export { ConfigError } from './errors';`],
  ]);
  assert.deepEqual(layerViolations(sources), [
    "src/nn/linear.ts imports src/core/errors.ts: import from the flat's door, src/core, and export the name there.",
    "kernel/executor.ts imports src/nn/linear.ts: import from the flat's door, src/nn, and export the name there.",
  ]);
});

test('an import of src/extras is found from everywhere, because the folder may be deleted', () => {
  const sources = new Map([
    ['src/index.ts', `import './extras';`],
    ['kernel/executor.ts', `import '../src/extras';`],
    ['src/extras/index.ts', `import { registerPrograms } from '../programs';`],
    ['src/programs/index.ts', ''],
  ]);
  assert.deepEqual(layerViolations(sources), [
    'src/index.ts imports src/extras/index.ts: src/extras may be deleted, so no import names it.',
    'kernel/executor.ts imports src/extras/index.ts: src/extras may be deleted, so no import names it.',
  ]);
});

test('an upward import between rooms of a folder, or of a room, is found; a door exports names of all rooms', () => {
  const sources = new Map([
    ['src/session/index.ts', `export { launch } from './notebook/fleet';`],
    ['src/session/plans/scope.ts', `import { launch } from '../notebook/fleet';`],
    ['src/session/notebook/fleet.ts', `import '../plans/setup';`],
    ['src/session/plans/setup.ts', ''],
    ['src/training/checkpoint/state/part.ts', `import { save } from '../save/save';`],
    ['src/training/checkpoint/save/save.ts', ''],
  ]);
  assert.deepEqual(layerViolations(sources), [
    'src/session/plans/scope.ts imports src/session/notebook/fleet.ts: session/plans lies below session/notebook.',
    'src/training/checkpoint/state/part.ts imports src/training/checkpoint/save/save.ts: training/checkpoint/state lies below training/checkpoint/save.',
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
    ['kernel/main.ts', `import './session';\nimport { wire } from '../src/core';`],
    ['kernel/session.ts', `import '../src/cell';\nimport '../src/session';`],
    ['kernel/executor.ts', `import '../src/index';`],
    ['src/core/index.ts', ''],
    ['src/cell/index.ts', ''],
    ['src/session/index.ts', ''],
    ['src/index.ts', ''],
  ]);
  assert.deepEqual(layerViolations(sources), [
    "kernel/session.ts imports src/session/index.ts: the kernel's front imports core and cell only.",
  ]);
});

test('a folder of src that is not in the order of flats is an error', () => {
  assert.throws(() => layerViolations(new Map([['src/misc/a.ts', `import '../core/b';`]])), /src\/misc/);
});
