import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardlabError } from '../../../src/core/errors';
import { type LoopCall, type LoopHome, TrainingLoop } from '../../../src/session/run/training-loop';

/** A loop whose interrupted step left the run ended by `ended`, or intact. */
function interruptedLoop(ended: ShardlabError | undefined): TrainingLoop<unknown> {
  const training = {
    step: () => Promise.reject(new ShardlabError('INTERRUPTED', 'the work was interrupted')),
  };
  const parts = { history: { lastStep: 7 }, calls: { ended } };
  const callbacks = { has: () => false };
  const home = { parts, training, callbacks, logs: { hasFunctions: false }, sendRate: async () => undefined };
  // The parts that an interrupted step reads.
  return new TrainingLoop(
    home as unknown as LoopHome<unknown>,
    { name: 'run.step', numSteps: 5, options: {} } as LoopCall,
  );
}

test('an interrupted step says that the run is intact', async () => {
  await assert.rejects(interruptedLoop(undefined).advance(5), {
    code: 'INTERRUPTED',
    message:
      'run.step was interrupted before its first step; the run is intact: step() continues from step 7',
  });
});

test('an interrupted step that broke the run says so, and does not say that the run is intact', async () => {
  const ended = new ShardlabError('CLOSED', 'this run broke off within step 8');
  await assert.rejects(interruptedLoop(ended).advance(5), {
    code: 'INTERRUPTED',
    message: 'run.step was interrupted before its first step; this run broke off within step 8',
  });
});
