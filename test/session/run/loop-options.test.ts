import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { Callbacks } from '../../../src/session/run/callbacks';
import { checkLoopOptions, type LoopOptions } from '../../../src/session/run/loop-options';
import { RunLogs } from '../../../src/session/run/run-logs';
import type { PreparedData } from '../../../src/training/data/prepared';
import { temporaryFolder } from '../job-fixture';

/** Data with rows for validation. */
const DATA = { validation: {} } as PreparedData; // the check reads nothing else

const checked = (options: LoopOptions, data?: PreparedData): string[] =>
  checkLoopOptions('run.step', options, 5, { lastStep: 0, data });

test('options of a loop that contradict, have no effect or are out of range are refused', () => {
  const cases: readonly (readonly [LoopOptions, RegExp])[] = [
    [{ eval_steps: 2 } as object, /run\.step\(n, \{ … \}\): eval_steps is written evalSteps here/],
    [{ saveSteps: 2 }, /saveSteps has no effect without outputDir/],
    [{ outputDir: 'out' }, /outputDir has no effect without saveSteps/],
    [{ saveTotalLimit: 2 }, /saveTotalLimit has no effect without saveSteps/],
    [{ earlyStoppingPatience: 2 }, /earlyStoppingPatience has no effect without evalSteps/],
    [
      { evalSteps: 1, earlyStoppingThreshold: 2 },
      /earlyStoppingThreshold has no effect without earlyStoppingPatience/,
    ],
    [{ loadBestModelAtEnd: true, evalSteps: 2 }, /loadBestModelAtEnd has no effect without saveSteps/],
    [
      { loadBestModelAtEnd: true, evalSteps: 2, saveSteps: 3, outputDir: 'out' },
      /saveSteps must be a multiple of evalSteps, but they are 3 and 2/,
    ],
    [{ evalSteps: 0 }, /run\.step: evalSteps is 0, but must be a whole number of at least 1/],
    [
      { evalSteps: 1, earlyStoppingPatience: 1, earlyStoppingThreshold: -1 },
      /earlyStoppingThreshold is -1, but must be a number of at least 0/,
    ],
  ];
  for (const [options, message] of cases) {
    assert.throws(() => checked(options, DATA), { code: 'CONFIG', message });
  }
  const message = /evalSteps needs rows that are never trained on/;
  assert.throws(() => checked({ evalSteps: 1 }), { code: 'CONFIG', message });
  assert.deepEqual(checked({ evalSteps: 1 }, DATA), []);
});

test('an object that is no callback is refused', () => {
  const callbacks = new Callbacks();
  for (const [callback, message] of [
    [{ on_step_end: () => 1 }, /on_step_end is written onStepEnd here/],
    [{}, /has no functions; give onStepEnd, onEvaluate, onSave/],
    [{ onSave: 1 }, /onSave is 1, but must be a function/],
  ] as const) {
    assert.throws(() => callbacks.add(callback as object), { code: 'CONFIG', message });
  }
});

test('a log that is not known, has no path or cannot be written is refused', (context) => {
  const { path } = temporaryFolder(context);
  const logs = new RunLogs((message) => assert.fail(message));
  const cases = [
    [['wandb'], 'CONFIG', /run\.log\("wandb"\) is not a log/],
    [['tensorboard', path], 'CONFIG', /are not written; give run\.log\('jsonl', file\)/],
    [['jsonl'], 'CONFIG', /needs a path, as run\.log\('jsonl', 'log\.jsonl'\)/],
    [['jsonl', join(path, 'nowhere', 'log')], 'IO', /cannot be written: ENOENT/],
  ] as const;
  for (const [[target, file], code, message] of cases) {
    assert.throws(() => logs.add(target, file), { code, message });
  }
});
