import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { FORMS } from './interrupt-driver';
import { type InterruptOutcome, interruptOutcomes } from './interrupt-outcomes';

describe('an interrupt', () => {
  let outcomes: readonly InterruptOutcome[] = [];

  before(() => {
    outcomes = interruptOutcomes();
  });

  for (const form of Object.keys(FORMS)) {
    it(`ends ${form}, keeps variables, and the next cells work`, () => {
      const outcome = outcomes.find((one) => one.form === form);
      assert.equal(outcome?.ename, 'ShardlabError[INTERRUPTED]');
      assert.equal(outcome.kept, 42);
    });
  }
});
