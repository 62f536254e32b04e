import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { SETTING_ROWS, type SettingRow } from '../../src/config/setting-table';
import { knownKeys, type TrainConfigInput } from '../../src/config/train-config';
import { ConfigError } from '../../src/core/errors';
import { type Plan, quietPlan as plan } from '../../src/session/plans/plan';
import { textFaults } from '../figures/svg-texts';
import { GPT, MODELS, OTHERS, type Written } from './setting-cases';

// The plan's treatment of every setting of a TrainConfig: it is read, or named, or refused.

const PLANNED = SETTING_ROWS.filter(({ planned }) => planned !== null);

/** Values of a row's schema other than its default, for settings without a case in OTHERS. */
function othersOf({ path, schema }: SettingRow): readonly (readonly [value: unknown, beside?: Written])[] {
  const usual = schema.parse(undefined);
  const tried = [true, false, 1, 2, 0.5, usual === 0.5 ? 0.25 : 0.5, null, 'full', ...choices(schema)];
  const taken = tried.filter(
    (value) => schema.safeParse(value).success && JSON.stringify(value) !== JSON.stringify(usual),
  );
  assert.ok(taken.length > 0, `${path} has no other value that this test can guess; list one in OTHERS`);
  return taken.map((value) => [value]);
}

function choices(schema: z.core.$ZodType): readonly unknown[] {
  if (schema instanceof z.ZodEnum) return schema.options;
  if (schema instanceof z.ZodPipe) return choices(schema.in);
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodNullable) return choices(schema.unwrap());
  return [];
}

test('every case is of a planned setting, and every setting of a model has a case', () => {
  const paths = PLANNED.map(({ path }) => path);
  assert.deepEqual(
    Object.keys(OTHERS).filter((path) => path !== 'mixedPrecision' && !paths.includes(path)),
    [],
  );
  assert.deepEqual(Object.keys(MODELS).sort(), [...knownKeys('model')].sort());
});

for (const row of [...PLANNED, ...SETTING_ROWS.filter(({ path }) => path === 'mixedPrecision')]) {
  const { path, planned } = row;
  const others = OTHERS[path] ?? othersOf(row);
  for (const [value, beside = {}] of others) {
    const shown = JSON.stringify(value);
    const where = Object.keys(beside).length === 0 ? '' : ` beside ${JSON.stringify(beside)}`;
    test(`a plan reads, names or refuses ${path} ${shown}${where}`, () => {
      const base: Written = { model: GPT, batch: 4, ...beside };
      assertNotDropped(base, changed(base, path, value), path);
    });
  }
  if (planned === null || path === 'model') continue;
  test(`a plan treats ${path} as its row says`, () => {
    const plans = others.flatMap(([value, beside = {}]) => {
      const base: Written = { model: GPT, batch: 4, ...beside };
      return isLegal(changed(base, path, value))
        ? [{ before: planOf(base), after: planOf(changed(base, path, value)) }]
        : [];
    });
    const isChanged = plans.map(
      ({ before, after }) => JSON.stringify(before.prediction) !== JSON.stringify(after.prediction),
    );
    if ('reads' in planned) return assert.ok(isChanged.includes(true), 'no value changes the prediction');
    assert.ok(!isChanged.includes(true), 'a value changes the prediction');
    for (const { after } of plans) {
      const named = after.assumed.find(({ setting }) => setting === path)?.says ?? '';
      if ('refused' in planned) assert.ok(named.endsWith(planned.refused), named);
      else assert.ok(named !== '' || after.withoutEffect.includes(path));
    }
  });
}

for (const [key, others] of Object.entries(MODELS)) {
  for (const [model, other] of others) {
    test(`a plan reads, names or refuses model.${key} ${JSON.stringify(other)} of a ${model.kind}`, () => {
      assertNotDropped({ model, batch: 4 }, { model: { ...model, [key]: other }, batch: 4 }, `model.${key}`);
    });
  }
}

function assertNotDropped(base: Written, other: Written, path: string): void {
  const before = planOf(base);
  let planned: Plan;
  try {
    planned = planOf(other);
  } catch (error) {
    assert.ok(
      error instanceof ConfigError && error.message.includes(path.split('.').at(-1) ?? path),
      `${error}`,
    );
    return;
  }
  const isRead = JSON.stringify(planned.prediction) !== JSON.stringify(before.prediction);
  const isNamed = planned.toText().includes(path);
  assert.ok(isRead || isNamed, `${path} changes no number, and nothing is said of it:\n${planned.toText()}`);
}

function isLegal(config: Written): boolean {
  try {
    return planOf(config).fits;
  } catch (error) {
    if (error instanceof ConfigError) return false;
    throw error;
  }
}

function planOf(config: Written): Plan {
  return plan(config as TrainConfigInput, { hardware: 'A100-80G', gpus: 16 });
}

function changed(base: Written, path: string, value: unknown): Written {
  const [section = path, key] = path.split('.');
  if (key === undefined) return { ...base, [section]: value };
  // A section of the base is an object.
  return { ...base, [section]: { ...(base[section] as Written | undefined), [key]: value } };
}

test('settings with a counterpart in the planner change its numbers as on GPUs', () => {
  const base = { model: 'llama3-8b', batch: 1, mixedPrecision: 'bf16' } as const;
  const on = { hardware: 'H100-80G', gpus: 8 };
  const of = (more: TrainConfigInput): Plan => plan({ ...base, ...more }, on);
  const adam = of({});
  const optimizer = ({ prediction }: Plan): number => prediction.memory.optimizer;
  assert.equal(optimizer(of({ optimizer: { kind: 'sgd' } })), 0);
  assert.equal(optimizer(of({ optimizer: { kind: 'sgd', momentum: 0.9 } })), optimizer(adam) / 2);
  const eighth = optimizer(of({ optimizer: { kind: 'adamW8bit' } })) / optimizer(adam);
  assert.ok(Math.abs(eighth - (2 + 8 / 256) / 8) < 1e-6, String(eighth));
  assert.deepEqual(
    of({ parallel: { reshardAfterForward: false } }).prediction,
    of({ parallel: { strategy: 'SHARD_GRAD_OP' } }).prediction,
  );
  const blocks = (activationCheckpointing: TrainConfigInput['activationCheckpointing']): number[] => {
    const { memory, time } = of({ activationCheckpointing }).prediction;
    return [memory.activations, time.seconds];
  };
  const [none, fourth, half, full] = [null, { everyNth: 4 }, { everyNth: 2 }, 'full' as const].map(blocks);
  for (const [less, more] of [
    [none, fourth],
    [fourth, half],
    [half, full],
  ]) {
    assert.ok((less?.[0] ?? 0) > (more?.[0] ?? 0) && (less?.[1] ?? 0) < (more?.[1] ?? 0), `${less} ${more}`);
  }
});

test('a plan counts the magnitudes of adapters among the parameters that train', () => {
  const of = (useDora: boolean) =>
    plan({ model: 'gpt2', batch: 1, lora: { r: 4, targets: ['qkv'], useDora } }).layout;
  const { model, trainedShare } = of(false);
  const { layers, dim, params } = model;
  assert.equal(Math.round(trainedShare * params), layers * 4 * (dim + 3 * dim));
  assert.equal(Math.round((of(true).trainedShare - trainedShare) * params), layers * 3 * dim);
});

test('a plan of packed rows says what it assumes, and plans the attention of examples if it gets their mean tokens', () => {
  const config: TrainConfigInput = {
    model: 'llama3-8b',
    batch: 1,
    data: { instructions: './chats.jsonl', packing: true },
  };
  const of = (exampleTokens?: number, attention?: 'unfused') =>
    plan(config, { gpus: 8, exampleTokens, ...(attention && { attention }) });
  const said = ({ assumed }: Plan): string => assumed.find(({ setting }) => setting === 'data')?.says ?? '';
  assert.match(said(of()), /is planned as if each row were one example, .* give exampleTokens/);
  assert.match(
    said(of(512)),
    /is planned as packed examples of 512 tokens each; with unequal lengths, attention takes more/,
  );
  const { seq } = of().layout.model;
  assert.deepEqual(of(seq).prediction, of().prediction);
  assert.deepEqual(of(2 * seq).prediction, of().prediction);
  assert.deepEqual(plan({ ...config, data: 'synthetic' }, { gpus: 8 }).prediction, of().prediction);
  const seconds = [seq, 1024, 256].map((tokens) => of(tokens).prediction.time.seconds);
  assert.deepEqual(
    [...seconds].sort((a, b) => b - a),
    seconds,
  );
  // Scores in memory are those within examples.
  const [whole, packed] = [undefined, seq / 8].map((tokens) => of(tokens, 'unfused').prediction.memory);
  assert.ok((packed?.activations ?? 0) < 0.5 * (whole?.activations ?? 0));
  assert.throws(
    () => plan({ ...config, data: 'synthetic', parallel: { cp: 2 } }, { gpus: 8, exampleTokens: 512 }),
    /exampleTokens \(512\) asks for packed rows, but packed rows cannot be divided by cp \(2\)/,
  );
});

test("keys beside a config replace the config's, and other keys of a section stay", () => {
  const config = {
    model: 'llama3-8b',
    batch: 2,
    accumulation: 2,
    parallel: { strategy: 'SHARD_GRAD_OP' },
  } as const;
  const { layout } = plan(config, { gpus: 16, parallel: { tp: 2 } });
  assert.deepEqual(
    [layout.strategy, layout.dp, layout.microBatch, layout.numMicroBatches],
    ['SHARD_GRAD_OP', 8, 2, 2],
  );
});

test('figures of a plan name the settings that the plan does not read', () => {
  const config: TrainConfigInput = {
    model: 'gpt2',
    batch: 1,
    parallel: { wrap: 'root', limitAllGathers: false },
  };
  for (const figure of [
    plan(config).memory(),
    plan(config).time(),
    plan(config).whatIf({ recompute: ['full'] }),
    plan(config).scaling({ counts: [8, 16] }),
  ]) {
    assert.match(
      figure.subtitle,
      /The planner assumes other values of parallel\.wrap and parallel\.limitAllGathers\./,
    );
    assert.deepEqual(textFaults(figure.toSvg()), []);
  }
});

test('a cost says if the plan does not fit', () => {
  const planned = plan({ model: 'llama3-70b', hardware: 'A100-40G', gpus: 8 });
  const { fits, note } = planned.cost({ tokens: 1e9 });
  assert.equal(fits, false);
  assert.match(note ?? '', /does not fit: \d+ of [\d.]+ GiB on A100-40G/);
  const small = plan({ model: 'gpt2', hardware: 'A100-40G', gpus: 8 }).cost({ tokens: 1e9 });
  assert.deepEqual([small.fits, small.note], [true, null]);
});

test('settings of a place that a layout does not have are named, with the value that the plan uses', () => {
  const place = { gpus: 8, asyncTensorParallel: true, fp8AllGather: true, dispatcher: 'deepep' } as const;
  const optimizer = { kind: 'adamW', momentum: 0.9 } as const;
  const { assumed } = plan({ model: 'gpt2', ...place, optimizer });
  assert.deepEqual(
    assumed.map(({ setting }) => setting),
    ['optimizer.momentum', 'asyncTensorParallel', 'fp8AllGather', 'dispatcher'],
  );
  assert.match(assumed[1]?.says ?? '', /asyncTensorParallel true has no effect here: planned as false/);
  assert.deepEqual(plan({ model: 'gpt2', parallel: { tp: 2 } }).assumed, []);
});

test('a mesh of the data-parallel ranks is planned as it is, also beside tp', () => {
  const config = { model: GPT, batch: 4, parallel: { strategy: 'HYBRID_SHARD', tp: 2 } };
  const assumed = (mesh: object) =>
    planOf({ ...config, parallel: { ...config.parallel, mesh } }).assumed.find(
      ({ setting }) => setting === 'parallel.mesh',
    )?.says;
  assert.equal(assumed({ dpReplicate: 2, dpShard: 4 }), undefined);
  assert.match(assumed({ dpReplicate: 2, dpShard: 2 }) ?? '', /4 replicas of 2 ranks, on 16 GPUs/);
});
