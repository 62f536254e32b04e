import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { EVALUATOR_FLAGS } from '../../src/cell/evaluator';
import { FORMS, type InterruptOutcome } from './interrupt-driver';

const LIMIT_MS = 100;

describe('an interrupt', () => {
  let outcomes: readonly InterruptOutcome[] = [];

  before(() => {
    const driver = join(__dirname, 'interrupt-driver.js');
    const { stdout } = spawnSync(process.execPath, [...EVALUATOR_FLAGS, driver], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    outcomes = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  });

  for (const form of Object.keys(FORMS)) {
    it(`ends ${form} in under ${LIMIT_MS} ms, keeps variables, and the next cells work`, () => {
      const outcome = outcomes.find((one) => one.form === form);
      assert.equal(outcome?.ename, 'ShardlabError[INTERRUPTED]');
      assert.equal(outcome?.kept, 42);
      assert.ok(outcome.milliseconds < LIMIT_MS, `took ${outcome.milliseconds} ms`);
    });
  }
});
