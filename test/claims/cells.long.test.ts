import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotebookCompiler } from '../../kernel/compiler/notebook-compiler';
import { PLAN_LAB } from '../../src/claims/plan-lab';
import { recordedRuns } from '../../src/claims/recorded-runs';
import { CLAIMS } from '../../src/claims/registry';
import { surveyClaims } from '../../src/claims/survey';
import { repositoryRoot } from '../support/paths';

test("every cell of evidence passes a notebook's type checks", () => {
  const cells = surveyClaims(CLAIMS, PLAN_LAB, recordedRuns).flatMap(({ claim, finding }) => {
    const { source } = finding.evidence;
    return source.startsWith('$ ') ? [] : [{ id: claim.id, source }];
  });
  assert.ok(cells.length > 100, `only ${cells.length}`);
  // One check of all cells, each in a block of its own; a defect is then sought cell by cell.
  if (checked(cells.map(({ source }) => `{\n${source}\n}`).join('\n')).ok) return;
  const wrong = cells.flatMap(({ id, source }) => {
    const compiled = checked(source);
    return compiled.ok ? [] : [`${id}: ${JSON.stringify(compiled.error)}`];
  });
  assert.deepEqual(wrong, []);
  assert.fail('the cells are wrong only together');
});

test('the type check finds a wrong cell, among right ones too', () => {
  const wrong = `sl.plan({ model: 'gpt2', gpu: 8 })`;
  assert.equal(checked(wrong).ok, false);
  assert.equal(checked(`{\nsl.plan({ model: 'gpt2' })\n}\n{\n${wrong}\n}`).ok, false);
  assert.equal(checked(`sl.plan({ model: 'gpt2' })`).ok, true);
});

const compiler = new NotebookCompiler(repositoryRoot());

function checked(source: string): ReturnType<NotebookCompiler['compile']> {
  const cell = `import * as sl from 'shardlab';\n${source}`;
  return compiler.compile({ source: cell, namespace: 'notebook', cell: 1 });
}
