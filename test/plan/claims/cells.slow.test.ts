import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotebookCompiler } from '../../../kernel/compiler/notebook-compiler';
import { PLAN_LAB } from '../../../src/plan/claims/plan-lab';
import { recordedRuns } from '../../../src/plan/claims/recorded-runs';
import { CLAIMS } from '../../../src/plan/claims/registry';
import { surveyClaims } from '../../../src/plan/claims/survey';
import { repositoryRoot } from '../../support/paths';

test("every cell of evidence passes a notebook's type checks", () => {
  const compiler = new NotebookCompiler(repositoryRoot());
  const wrong: string[] = [];
  for (const { claim, finding } of surveyClaims(CLAIMS, PLAN_LAB, recordedRuns)) {
    const { source } = finding.evidence;
    if (source.startsWith('$ ')) continue;
    const cell = `import * as sl from 'shardlab';\n${source}`;
    const compiled = compiler.compile({ source: cell, namespace: 'notebook', cell: 1 });
    if (!compiled.ok) wrong.push(`${claim.id}: ${JSON.stringify(compiled.error)}`);
  }
  assert.deepEqual(wrong, []);
});

test('the type check finds a wrong cell', () => {
  const compiler = new NotebookCompiler(repositoryRoot());
  const source = `import * as sl from 'shardlab';\nsl.plan({ model: 'gpt2', gpu: 8 })`;
  assert.equal(compiler.compile({ source, namespace: 'notebook', cell: 1 }).ok, false);
});
