import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';
import { recipes } from './recipes';

const ROOT = repositoryRoot();

test('every example belongs to a recipe of CONTRIBUTING.md, and every recipe has one', () => {
  const examples = readdirSync(join(ROOT, 'test', 'recipes')).filter((name) => name.endsWith('.patch'));
  assert.deepEqual(
    recipes()
      .map(({ patch }) => patch)
      .sort(),
    examples.map((name) => `test/recipes/${name}`).sort(),
  );
  for (const { title, suite } of recipes()) assert.ok(suite.length > 0, `${title} names its tests`);
});

for (const { title, patch, files } of recipes()) {
  test(`${title}: the recipe names exactly the files that its example changes`, () => {
    const changed = [...readFileSync(join(ROOT, patch), 'utf8').matchAll(/^\+\+\+ b\/(.+)$/gm)];
    assert.deepEqual([...files].sort(), changed.map(([, file]) => file).sort());
  });

  // recipes.long.test.ts also builds the result and runs the recipe's tests.
  test(`${title}: the example fits the present sources`, () => {
    execFileSync('git', ['apply', '-C1', '--check', join(ROOT, patch)], { cwd: ROOT, stdio: 'pipe' });
  });
}
