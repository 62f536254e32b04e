import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { plan } from '../../src/session/notebook/plan';
import { repositoryRoot, testData } from '../support/paths';
import { descendantsOf } from './torch-fixture';

const PLANNED = join(repositoryRoot(), 'test', 'torch', 'models', 'planned_models.py');
const MAIN = join(repositoryRoot(), 'build', 'src', 'cli', 'main.js');

test('the operations of models in Python are those of the same models in TypeScript', () => {
  // test/planner/counted-plan.test.ts compares the same file with the models in TypeScript.
  const reference = JSON.parse(readFileSync(testData('flop_reference.json'), 'utf8')) as Record<
    string,
    number
  >;
  const cases = [
    ['Linear', 'linear', 'rows'],
    ['Conv2d', 'conv', 'small_images'],
    ['LSTM', 'lstm', 'series'],
    ['Residual', 'Residual', 'images'],
  ] as const;
  for (const [name, made, batches] of cases) {
    const model = { python: PLANNED, class: made, batches, loss: 'summed' };
    const { prediction } = plan({ model }, { on: 'A100-80G', gpus: 2 });
    assert.equal(prediction.time.modelFlopsPerGpu, reference[name], name);
  }
});

test('a class whose constructor reads values is made with them, and its tied parameter counts once', () => {
  const model = { python: PLANNED, class: 'Drawn', batches: 'rows', loss: 'summed' };
  const { layout, prediction } = plan(
    { model, parallel: { strategy: 'NO_SHARD' } },
    { on: 'A100-80G', gpus: 2 },
  );
  assert.deepEqual(layout.model, { name: 'Drawn', seq: 1, params: 48 * 48 + 48 });
  assert.equal(prediction.memory.params, 4 * (48 * 48 + 48));
});

test('what cannot run on shapes is refused with its file and line', () => {
  const refused = (made: string, message: RegExp): void => {
    const model = { python: PLANNED, class: made, batches: 'rows', loss: 'summed' };
    assert.throws(() => plan({ model }, { on: 'A100-80G', gpus: 2 }), { code: 'CONFIG', message });
  };
  const lines = readFileSync(PLANNED, 'utf8').split('\n');
  const line = (text: string): number => 1 + lines.findIndex((each) => each.includes(text));
  refused(
    'Branching',
    new RegExp(`planned_models\\.py:${line('x.sum() > 0')}: this line depends on the values`),
  );
  refused('Failing', new RegExp(`planned_models\\.py:${line('x[:, 1:]')}: forward failed on shapes`));
  refused('Missing', /planned_models\.py: it has no class Missing; it has Residual/);
});

test('the command plans a file with a model in Python as JSON, whatever the model prints, and explains it', (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const config = join(folder, 'config.json');
  const model = { python: PLANNED, class: 'Residual', batches: 'images', loss: 'summed' };
  writeFileSync(config, JSON.stringify({ model, on: 'A100-80G', gpus: 2 }));
  const run = (...options: string[]): string =>
    execFileSync(process.execPath, [MAIN, 'plan', config, ...options], {
      ...{ encoding: 'utf8', cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] },
    });
  const { layout, memory_gib, explained } = JSON.parse(run('--json', '--explain'));
  assert.equal(layout.stack, 'shardlab');
  assert.ok(memory_gib.peak > 0);
  assert.match(explained.join('\n'), /trains on 8 samples.*samples per second.*compare counted plans/s);
  assert.deepEqual(readdirSync(folder), ['config.json']);
  writeFileSync(config, JSON.stringify({ model: { ...model, class: 'Missing' }, on: 'A100-80G', gpus: 2 }));
  assert.throws(run, /config\.json: model\.python: .*planned_models\.py: it has no class Missing/);
});

for (const [end, group, signal] of [
  ['an interrupt of the command', -1, 'SIGINT'], // from a terminal, to all processes of the command
  ['kill -9 of the command', 1, 'SIGKILL'],
] as const) {
  test(`${end} ends Python, and leaves nothing behind`, async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-'));
    context.after(() => rmSync(folder, { recursive: true, force: true }));
    const config = join(folder, 'config.json');
    const model = { python: PLANNED, class: 'Sleeping', batches: 'rows', loss: 'summed' };
    writeFileSync(config, JSON.stringify({ model, on: 'A100-80G', gpus: 2 }));
    const command = spawn(process.execPath, [MAIN, 'plan', config], {
      ...{ cwd: folder, detached: true, stdio: ['ignore', 'ignore', 'pipe'] },
    });
    const [said] = (await once(command.stderr, 'data')) as [Buffer];
    assert.match(String(said), /running one microbatch of Sleeping of planned_models\.py on shapes/);
    const started = descendantsOf(command.pid as number);
    assert.ok(started.length > 0);
    context.after(() => {
      for (const pid of started.filter(isAlive)) process.kill(pid, 'SIGKILL');
    });
    const ended = once(command, 'exit');
    process.kill(group * (command.pid as number), signal);
    await ended;
    for (let waits = 0; started.some(isAlive) && waits < 200; waits++) await setTimeout(50);
    assert.deepEqual(started.filter(isAlive), []);
    assert.deepEqual(readdirSync(folder), ['config.json']);
  });
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
