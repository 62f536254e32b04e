import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SETTING_ROWS } from '../../src/config/setting-table';
import { KINDS, MODEL_PARTS } from '../../src/config/settings/model';
import { parseTrainConfig } from '../../src/config/train-config';
import { planLaunch } from '../../src/launch/options';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { plannedInput } from '../../src/planner/plan-input';
import { splitInput } from '../../src/session/plans/own';
import { nonsense, refusesShortly } from '../support/nonsense';

/** A config with one value at a path. */
function configWith(path: string, value: unknown): object {
  const parts = path.split('.');
  const [key = '', inner] = parts;
  if (inner === undefined) return { [key]: value };
  const kind = key === 'model' ? { kind: kindWith(inner) } : {};
  return { [key]: { ...kind, [inner]: value } };
}

function kindWith(key: string): string {
  return Object.entries(KINDS).find(([, { schema }]) => key in schema.shape)?.[0] ?? 'gpt';
}

const NONSENSE = Object.entries(nonsense());

const PATHS = [
  ...SETTING_ROWS.map(({ path }) => path),
  ...Object.keys(MODEL_PARTS).map((key) => `model.${key}`),
];

test('nonsense in any key of a config is a short CONFIG error', () => {
  const accepted = new Set<string>();
  for (const path of PATHS) {
    for (const [kind, value] of NONSENSE) {
      const config = configWith(path, value);
      const isRefused = refusesShortly(`${path}: ${kind}`, () => parseTrainConfig(config));
      if (!isRefused) accepted.add(`${path}: ${kind}`);
    }
  }
  // What a key may really have: empty lists, texts that are paths, and any seed.
  const LEGAL =
    /^(parallel\.(unitStrategies|ignoredModules)|optimizer\.groups|frozen|model\.audioLayers): list$|^data(\.\w+)?: (text|words)$|^data\.tokens: manyValues$/;
  assert.deepEqual(
    [...accepted].filter((what) => !LEGAL.test(what)),
    [],
  );
});

test('nonsense in place of a config or of options is a short CONFIG error, in every call that takes one', () => {
  const calls: Readonly<Record<string, (value: never) => unknown>> = {
    parseTrainConfig,
    'job.train': (value) => parseTrainConfig(splitInput(value).config),
    dryRun: (value) => dryRun(value, { world: 2 }),
    'dryRun options': (value) => dryRun({ model: 'tiny' }, value),
    'dryRun world': (value) => dryRun({ model: 'tiny' }, { world: value }),
    plan: (value) => plannedInput(value),
    'plan place': (value) => plannedInput({ model: 'tiny' }, value),
    launch: (value) => planLaunch(value, 1e12),
    'launch ranks': (value) => planLaunch({ ranks: value }, 1e12),
    'launch startSeconds': (value) => planLaunch({ ranks: 1, startSeconds: value }, 1e12),
    'launch blas': (value) => planLaunch({ ranks: 1, blas: value }, 1e12),
    'launch link': (value) => planLaunch({ ranks: 1, link: value }, 1e12),
    'launch baseDir': (value) => planLaunch({ ranks: 1, baseDir: value }, 1e12),
    'launch transport': (value) => planLaunch({ ranks: 1, transport: value }, 1e12),
    'launch memoryLimit': (value) => planLaunch({ ranks: 1, memoryLimit: value }, 1e12),
    'launch engine': (value) => planLaunch({ ranks: 1, engine: value }, 1e12),
    'launch python': (value) => planLaunch({ ranks: 1, engine: 'torch', python: value }, 1e12),
    'launch hosts': (value) => planLaunch({ ranks: 1, engine: 'torch', hosts: value }, 1e12),
    'launch launcher': (value) => planLaunch({ ranks: 1, engine: 'torch', launcher: value }, 1e12),
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const [kind, value] of NONSENSE)
      assert.ok(
        refusesShortly(`${name}(${kind})`, () => call(value as never)) ||
          (name === 'launch hosts' && kind === 'list'),
        `${name} takes ${kind}`,
      );
    // null is the default of these.
    if (!/startSeconds|baseDir|hosts|launcher|python/.test(name))
      assert.ok(
        refusesShortly(`${name}(null)`, () => call(null as never)),
        `${name} takes null`,
      );
  }
});

test('a Map or an instance in place of a section is refused by name, also within data and model', () => {
  for (const section of ['parallel', 'optimizer', 'model', 'data', 'schedule', 'lora'])
    assert.throws(() => parseTrainConfig({ [section]: new Map() }), {
      code: 'CONFIG',
      message: new RegExp(`^${section}: expected settings such as .*, got a Map$`),
    });
  assert.throws(() => parseTrainConfig({ batch: 5n }), {
    message: 'batch: expected a number, got 5n; write it without the n',
  });
  assert.throws(
    () => parseTrainConfig({ optimizer: { kind: 'x'.repeat(1e5) } }),
    /got "x{100}… \(100000 characters\)/,
  );
});

test('numbers over which code loops are bounded, so that a mistyped one is refused at once', () => {
  const gpt = { kind: 'gpt', layers: 1, dim: 8, heads: 1, vocab: 256, seq: 4 } as const;
  const cases: readonly [object, RegExp][] = [
    [
      { model: { ...gpt, layers: 2 ** 32 } },
      /model\.layers: expected a number of at most 1024, got 4294967296/,
    ],
    [{ model: { ...gpt, layers: 1e6 } }, /model\.layers/],
    [{ model: { ...gpt, kind: 'moe', experts: 1e6 } }, /model\.experts: expected a number of at most/],
    [{ model: { ...gpt, vocab: 2 ** 40 } }, /model\.vocab: expected a number of at most/],
    [{ accumulation: 2 ** 32 }, /accumulation: expected a number of at most/],
    [{ batch: 2 ** 32 }, /batch: expected a number of at most/],
    [{ parallel: { tp: 2 ** 32 } }, /parallel\.tp: expected a number of at most/],
    [{ model: gpt, accumulation: 2 ** 16 }, /2 steps of 65536 passes are too many/],
    [{ data: 'synthetic', batch: 2 ** 20, model: { ...gpt, seq: 2 ** 20 } }, /more than the \d+ tokens/],
  ];
  for (const [config, message] of cases)
    assert.throws(() => dryRun(config as never, { world: 1 }), { code: 'CONFIG', message });
  for (const world of [1e9, 2 ** 32, 1e308])
    assert.throws(() => dryRun({ model: 'tiny' }, { world }), {
      code: 'CONFIG',
      message: /at most 65536 ranks/,
    });
});

test('launch refuses times that no timer waits for, and a file that is no BLAS', () => {
  for (const startSeconds of [1e7, 1e308])
    assert.throws(
      () => planLaunch({ ranks: 1, startSeconds }, 1e12),
      /startSeconds is .* at most 2147483, because/,
    );
  for (const path of ['/etc/passwd', '/no/such/file', 'x'.repeat(1e5)])
    assert.ok(refusesShortly(path.slice(0, 20), () => planLaunch({ ranks: 1, blas: { path } }, 1e12)));
  assert.throws(() => planLaunch({ ranks: 1, blas: { path: '/etc/passwd' } }, 1e12), {
    code: 'CONFIG',
    message: /names no BLAS that can be used: .*\/etc\/passwd/,
  });
});
