import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { FORMS, UNBROKEN } from './interrupt-driver';
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

  it('does not terminate unbroken work', () => {
    const outcome = outcomes.find(({ form }) => form === UNBROKEN);
    assert.equal(outcome?.ename, 'ShardlabError[INTERRUPTED]');
    assert.equal(outcome.kept, 43, 'the work and the next cell each add 1');
  });
});
