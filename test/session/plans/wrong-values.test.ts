import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plan } from '../../../src/session/notebook/plan';
import { readConfig } from '../../../src/session/notebook/read-config';

const PLAN = plan('llama3-8b', { on: 'H100-80G', gpus: 8 });

/** A value of another type for each setting that whatIf changes. */
const OF_ANOTHER_TYPE = {
  ...{
    microBatch: '1',
    batch: null,
    globalBatch: 1.5,
    tp: true,
    'parallel.tp': '2',
    pp: '2',
    cp: [2],
    gpus: '8',
  },
  ...{
    strategy: 1,
    recompute: true,
    activationCheckpointing: null,
    attention: 3,
    nicGbit: '25',
    hardware: 5,
  },
  ...{ on: null, stack: {}, compile: 'yes', seq: '4096' },
};

test('a value of another type is named as such by whatIf, and not as a value that is not legal', () => {
  for (const [knob, value] of Object.entries(OF_ANOTHER_TYPE)) {
    assert.throws(() => PLAN.whatIf({ [knob]: [value] } as never), {
      code: 'CONFIG',
      message: new RegExp(`^whatIf: ${knob}\\[0\\] is .*, but must be `),
    });
  }
  assert.throws(() => PLAN.whatIf({ tp: [1, 2, '4'] } as never), {
    message: 'whatIf: tp[2] is "4", but must be a whole number of at least 1',
  });
});

test('scaling names the field that is wrong, also within one of several forms', () => {
  for (const [options, message] of [
    [
      { counts: [8, '16'] },
      'scaling: counts is [8,"16"], but must be a list, each a whole number of at least 1',
    ],
    [{ counts: [8], batch: { perGpu: '1' } }, 'scaling: batch.perGpu is "1", but must be a number above 0'],
    [
      { counts: [8], batch: { global: 1.5 } },
      'scaling: batch.global is 1.5, but must be a whole number of at least 1',
    ],
    [
      { counts: [8], documented: 3 },
      /^scaling: documented is 3, but must be a list, each \{ count, value, id \}/,
    ],
    [
      { counts: [8], measured: [{ count: 8 }] },
      /^scaling: measured is .*, but must be a list, each \{ count, value \}/,
    ],
  ] as const)
    assert.throws(() => PLAN.scaling(options as never), { code: 'CONFIG', message });
});

test('a file that does not exist is named once', () => {
  assert.throws(() => readConfig('/nowhere/a.yaml'), {
    message: 'there is no file /nowhere/a.yaml; correct its path',
  });
  assert.throws(() => readConfig('a.yaml'), {
    message: /^there is no file a\.yaml \(\/.*a\.yaml\); correct its path$/,
  });
});
