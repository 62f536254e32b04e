import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numberOf } from '../../src/claims/finding';
import { claims } from '../../src/claims/notebook/claims';
import { LIGHT } from '../../src/figures/grammar/ink';
import { comparePlans } from '../../src/figures/plans/compare-plans';
import { compare } from '../../src/session/notebook/compare';
import { quietPlan as plan, whatIf } from '../../src/session/plans/plan';
import { loadPlotly, problemsOf } from './plotly-validate';
import { textFaults } from './svg-texts';

const LLAMA = {
  model: 'llama3-8b',
  hardware: 'A100-80G',
  gpus: 16,
  activationCheckpointing: 'full',
  accumulation: 4,
} as const;

const whatIfs = whatIf(LLAMA, {
  microBatch: [1, 2, 3],
  tp: [1, 2, 8, 16],
  recompute: ['none', 'full'],
  nicGbit: [25, 200],
});
const plotly = loadPlotly();

const FIGURES = {
  whatIf: whatIfs,
  scaling: compare(
    { 'NIC 200 Gbit/s': plan(LLAMA), 'NIC 25 Gbit/s': plan(LLAMA, { nicGbit: 25 }) },
    'scaling',
    { counts: [8, 16, 64, 128], quantity: 'tokensPerSecond', batch: { perGpu: 4 } },
  ),
  efficiency: plan(LLAMA).scaling({
    counts: [1, 4, 32],
    countedIn: 'nodes',
    documented: [{ count: 32, value: 85, relation: '>', id: 'x' }],
  }),
  times: comparePlans({ one: plan(LLAMA), two: plan(LLAMA, { parallel: { tp: 8 } }) }),
  memory: comparePlans(
    { FULL_SHARD: plan(LLAMA), NO_SHARD: plan(LLAMA, { parallel: { strategy: 'NO_SHARD' } }) },
    'memory',
  ),
  'memory on two kinds of GPU': comparePlans(
    { A100: plan(LLAMA, { hardware: 'A100-40G' }), H200: plan(LLAMA, { hardware: 'H200-141G' }) },
    'memory',
  ),
};

for (const [name, figure] of Object.entries(FIGURES)) {
  test(`${name} of real plans: plotly accepts it, no text is misplaced, the title has at most 75 characters`, () => {
    assert.deepEqual(problemsOf(plotly, figure.toPlotly()), []);
    assert.deepEqual(textFaults(figure.toSvg(LIGHT)), []);
    assert.ok(figure.title.length > 0 && figure.title.length <= 75, figure.title);
  });
}

test("a what-if replaces one key at a time, marks the plan's own value and names illegal values", () => {
  const { rows } = whatIfs.table;
  const settings = rows.map(({ knob, setting, isBase }) => `${knob} ${setting}${isBase === true ? '*' : ''}`);
  assert.deepEqual(settings, [
    'microbatch 1*',
    'microbatch 2',
    'tp 1*',
    'tp 2',
    'tp 8',
    'tp 16',
    'recompute none',
    'recompute full*',
    'NIC, Gbit/s 25',
    'NIC, Gbit/s 200*',
  ]);
  assert.match(whatIfs.subtitle, /Not legal: microbatch 3\./);
  const tp2 = rows.find(({ knob, setting }) => knob === 'tp' && setting === '2');
  assert.equal(tp2?.seconds, plan(LLAMA, { parallel: { tp: 2 }, accumulation: 8 }).seconds.value);
});

test("knobs also have the config's words", () => {
  const words = {
    batch: [1, 2],
    'parallel.tp': [1, 2],
    on: ['H100-80G'],
    activationCheckpointing: ['full'],
  } as const;
  const names = { microBatch: [1, 2], tp: [1, 2], hardware: ['H100-80G'], recompute: ['full'] } as const;
  assert.deepEqual(whatIf(LLAMA, words).table.rows, whatIf(LLAMA, names).table.rows);
});

test('GPUs of one size have a line at the usable memory; GPUs of several sizes have no common line', () => {
  const shapesOf = (figure: { readonly layout: { readonly shapes?: readonly object[] } }) =>
    figure.layout.shapes?.length ?? 0;
  const { memory, 'memory on two kinds of GPU': mixed } = FIGURES;
  assert.match(memory.title, /fit \d.*B/);
  assert.match(mixed.title, /fit their GPUs/);
  assert.equal(shapesOf(memory), shapesOf(mixed) + 1);
});

test('the error of an unknown knob names the existing knobs', () => {
  assert.throws(() => whatIf(LLAMA, { microbatch: [1] } as object), {
    code: 'CONFIG',
    message: /no knob 'microbatch'; choose one of microBatch/,
  });
});

test('values of a knob that are not a list, and a comparison that does not exist, are refused', () => {
  for (const tried of [4, undefined]) {
    assert.throws(() => whatIf(LLAMA, { tp: tried } as object), { code: 'CONFIG', message: /give a list/ });
  }
  assert.throws(() => comparePlans({ one: plan(LLAMA) }, 'memry' as 'memory'), {
    code: 'CONFIG',
    message: /"memry"; choose one of 'memory', 'time', 'scaling'/,
  });
});

test('if no value of a knob is legal, the error says why', () => {
  assert.throws(() => whatIf(LLAMA, { tp: [3, 5] }), {
    code: 'CONFIG',
    message: /no value is legal; tp 3: gpus \(16\) must be a multiple of tp\(3\)/,
  });
});

test('an option of scaling that does not exist is refused, and so is an unknown quantity or count', () => {
  for (const [options, message] of [
    [{ countdIn: 'nodes' }, /no argument countdIn; did you mean countedIn/],
    [{ countedIn: 'node' }, /countedIn is "node", but must be 'GPUs' or 'nodes'; did you mean 'nodes'/],
    [{ quantity: 'speed' }, /quantity is "speed", but must be 'efficiency'/],
  ] as const) {
    assert.throws(() => plan(LLAMA).scaling({ counts: [8], ...options } as never), {
      code: 'CONFIG',
      message,
    });
  }
});

test('a request that is wrong at every value is an error, not an empty figure', () => {
  assert.throws(() => whatIf({ ...LLAMA, model: 'lama' }, { tp: [1] }), { code: 'CONFIG' });
});

test('efficiency is 100% at the first count and does not rise with the number of nodes', () => {
  const values = FIGURES.efficiency.table.rows.map(({ predicted }) => Number(predicted));
  assert.equal(Math.round((values[0] ?? 0) * 1e9), 100e9);
  assert.deepEqual(
    values,
    [...values].sort((a, b) => b - a),
  );
});

test('the batch can be set per GPU or in total', () => {
  const at = (batch: { perGpu: number } | { global: number }) =>
    plan(LLAMA)
      .scaling({ counts: [16, 32], quantity: 'tokensPerSecond', batch })
      .table.rows.map(({ predicted }) => Number(predicted));
  const one = plan(LLAMA, { gpus: 32, accumulation: 2 });
  const relative = (at({ global: 64 })[1] ?? 0) / (one.tokensPerSecondPerGpu * 32);
  assert.ok(Math.abs(relative - 1) < 1e-9, String(relative));
  assert.equal(at({ global: 64 })[0], at({ perGpu: 4 })[0]);
});

const DESCRIBED = { like: 'wan2.2-a14b', params: 27e9, name: 'Wan as described' } as const;
const RUN = { parallel: { cp: 8 }, activationCheckpointing: 'full', batch: 1, accumulation: 8 } as const;

test("a document's bytes are drawn beside the predicted bytes, which are the numbers that its claims find", () => {
  const wan = claims('wan.mem.*');
  const described = plan({ ...RUN, model: DESCRIBED }, { on: 'A100-80G', gpus: 8 });
  const { title, table } = described.memory({ documented: wan });
  assert.match(title, /^The document has 62\.0 GB without gradients; predicted: 62\.\d GB$/);
  const of = (cause: string) => table.rows.find((row) => row.cause === cause);
  assert.equal(of('param.shard')?.documentedBytes, 12.8e9);
  assert.equal(of('grad.shard')?.documentedBytes, null);
  for (const id of ['wan.mem.params', 'wan.mem.optimizer'] as const) {
    const { claim, finding } = wan.results.find((one) => one.claim.id === id) ?? assert.fail(id);
    assert.equal(of(claim.cause ?? '')?.predictedBytes, (numberOf(finding) ?? 0) * 1e9);
  }
  const names = JSON.stringify(comparePlans({ described }, 'memory', { documented: wan }).layout);
  assert.match(names, /documented.*described/);
  assert.equal(described.memory().table.rows[0]?.documentedBytes, undefined);
});

test('documented bytes that are no claims, or no parts of memory, are refused', () => {
  const one = plan(LLAMA);
  for (const [documented, message] of [
    [12.8e9, /documented is .*, but must be claims, such as sl\.claims\('wan\.mem\.\*'\)/],
    [claims('guide.mem.*'), /documented has no claim about a part of a GPU's memory/],
  ] as const) {
    assert.throws(() => one.memory({ documented } as never), { code: 'CONFIG', message });
    assert.throws(() => comparePlans({ one }, 'memory', { documented } as never), {
      code: 'CONFIG',
      message,
    });
  }
});
