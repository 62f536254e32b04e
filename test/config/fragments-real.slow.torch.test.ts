import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { errorsOf, FRAGMENTS } from '../../src/config/fragments';
import { repositoryRoot, testData } from '../support/paths';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
/** Where `npm run test:torch` installs the libraries of which only names and signatures are used, without their dependencies. */
const ORIGINALS = join(repositoryRoot(), 'build', 'originals');

/** Fragments whose original is no package of Python. */
const NOT_TRIED: Readonly<Record<string, string>> = {
  'torchrun train.py …': 'Wan2.2 is a repository, which has no train.py',
  'NCCL variables': 'NCCL is a library for GPUs, which reads its variables when it starts',
  'nc -zv HOST PORT': 'nc is a program of the system',
};

interface Outcomes {
  /** By distribution; null: it is not installed. */
  readonly versions: Readonly<Record<string, string | null>>;
  readonly outcomes: readonly (string | null)[];
}

test('every fragment was tried on its original, or its original is no package', () => {
  const without = FRAGMENTS.filter(({ tried }) => tried.length === 0).map(({ name }) => name);
  assert.deepEqual(without.sort(), Object.keys(NOT_TRIED).sort());
});

test('what is said of an original names exactly the errors that it gave', () => {
  for (const { name, inTheOriginal, tried } of FRAGMENTS) {
    const said = new Set(inTheOriginal.match(/\w+Error/g));
    const given = new Set(tried.flatMap(errorsOf));
    assert.deepEqual([...said].sort(), [...given].sort(), name);
  }
});

test("the documents' code has its recorded outcomes on the original libraries", {
  skip: python === '' && 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch',
  timeout: 600_000,
}, async (t) => {
  const trials = FRAGMENTS.flatMap(({ tried }) => tried);
  const pieces = trials.map(({ by, ...rest }) => ({ ...rest, by: by.split(' ')[0] ?? '' }));
  const text = execFileSync(python, [testData('fragment_outcomes.py')], {
    input: JSON.stringify(pieces),
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: ORIGINALS, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const { versions, outcomes }: Outcomes = JSON.parse(text.trim().split('\n').at(-1) ?? '');
  for (const by of new Set(trials.map((trial) => trial.by))) {
    const [name = '', recorded] = by.split(' ');
    const here = versions[name] ?? null;
    const skip =
      here !== recorded && `recorded with ${by}, and here is ${here ?? 'none'}; npm run test:torch`;
    await t.test(by, { skip }, () => {
      for (const [i, trial] of trials.entries()) {
        if (trial.by === by) assert.equal(outcomes[i], trial.outcome, trial.code);
      }
    });
  }
});
