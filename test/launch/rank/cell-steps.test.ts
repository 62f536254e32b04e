import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Engine } from '../../../src/engine/backend/engine';
import type { CellStep } from '../../../src/launch/control/messages';
import { CellSteps } from '../../../src/launch/rank/cell-steps';
import { Recorder } from '../../../src/ledger/recorder';

// The parts of an engine that steps of cells without a pass use.
const ENGINE = { clock: { now: () => 0 }, memory: { bytes: 0 } } as unknown as Engine;

test('a cell whose end was skipped by a termination is forgotten, and the next cell is recorded', () => {
  const recorder = new Recorder({ rank: 0, world: 1 });
  const steps = new CellSteps({ engine: ENGINE, recorder, warn: assert.fail });
  const sent: CellStep[] = [];
  steps.begin(() => assert.fail());
  steps.updated({ lr: 0.1 }, 0);
  steps.forget();
  recorder.recounted([]);
  steps.end(undefined);

  steps.begin((step) => sent.push(step));
  steps.updated({ lr: 0.2 }, 0);
  steps.end(undefined);
  assert.deepEqual(
    sent.map(({ kind, lr }) => ({ kind, lr })),
    [{ kind: 'step', lr: 0.2 }],
  );
});
