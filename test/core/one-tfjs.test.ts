import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';

const ROOT = repositoryRoot();
const OURS = JSON.stringify(join(ROOT, 'build', 'src', 'core', 'tf.js'));

/** Runs a program in the clone, where the packages of the user's own tfjs are installed, and returns what it printed. */
function printed(program: string): string {
  return execFileSync(process.execPath, ['--input-type=commonjs', '-e', program], {
    cwd: ROOT,
    encoding: 'utf8',
  }).trim();
}

const COMPARE = `
  const theirs = require('@tensorflow/tfjs');
  const [core, layers] = ['core', 'layers'].map((part) => require('@tensorflow/tfjs-' + part));
  console.log([
    [core.Tensor, ours.Tensor], [core.add, ours.add], [core.engine, ours.engine],
    [layers.LayersModel, ours.LayersModel], [theirs.add, ours.add], [theirs.sequential, ours.sequential],
  ].map(([a, b]) => a !== undefined && a === b).join());`;

test("the user's own tfjs is the same copy as ours, whichever is loaded first", () => {
  const same = 'true,true,true,true,true,true';
  assert.equal(printed(`const ours = require(${OURS}); ${COMPARE}`), same);
  assert.equal(printed(`require('@tensorflow/tfjs'); const ours = require(${OURS}); ${COMPARE}`), same);
});

test("an import of the user's tfjs in a module has the names and the functions of ours", () => {
  const said = printed(`const ours = require(${OURS});
    import('@tensorflow/tfjs-core').then((theirs) => console.log(theirs.add === ours.add, theirs.default.Tensor === ours.Tensor));`);
  assert.equal(said, 'true true');
});

test('functions and classes of tfjs have the names that they have in its own packages', () => {
  const said = printed(`const ours = require(${OURS});
    const names = ['Tensor', 'Variable', 'TensorBuffer', 'SGDOptimizer', 'LayersModel', 'Sequential'];
    console.log(names.map((name) => ours[name].name).join());`);
  assert.equal(said, 'Tensor,Variable,TensorBuffer,SGDOptimizer,LayersModel,Sequential');
});
