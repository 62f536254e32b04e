import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { reproducedRows } from '../../src/planner/measured/published-tables';
import {
  estimateZero2ModelStates,
  estimateZero3ModelStates,
  type StatesEstimate,
} from '../support/formulas/deepspeed-estimators';
import {
  activationsOfFirstStage,
  activationsOutside,
  activationsPerLayer,
  type PaperGpt,
} from '../support/formulas/korthikanti';
import { testData } from '../support/paths';

const GIB = 1024 ** 3;

type Row = (column: string) => string;

function rowsOf(file: string): Row[] {
  const lines = readFileSync(testData(file), 'utf8').trim().split(/\r?\n/);
  const [header = '', ...rows] = lines.filter((line) => !line.startsWith('#'));
  const names = header.split(',');
  return rows.map((row) => (column) => row.split(',')[names.indexOf(column)] ?? '');
}

function estimateOf(row: Row): StatesEstimate {
  const asked = {
    totalParams: Number(row('total_params')),
    gpusPerNode: Number(row('gpus_per_node')),
    nodes: Number(row('nodes')),
    offloadsOptimizer: row('offload_optimizer') === 'cpu',
  };
  if (row('stage') === '2') return estimateZero2ModelStates(asked);
  return estimateZero3ModelStates({
    ...asked,
    largestLayerParams: Number(row('largest_layer_params')),
    offloadsParameters: row('offload_param') === 'cpu',
    shardsAtInit: row('zero_init') === '1',
  });
}

test("every line of DeepSpeed's documentation for t5-3b is reproduced to two decimals", () => {
  const rows = rowsOf('deepspeed_estimates.csv');
  for (const row of rows) {
    const { cpuBytes, gpuBytes } = estimateOf(row);
    const name = ['stage', 'asked', 'offload_param', 'offload_optimizer', 'zero_init'].map(row).join(' ');
    assert.equal((cpuBytes / GIB).toFixed(2), row('cpu_gb'), name);
    assert.equal((gpuBytes / GIB).toFixed(2), row('gpu_gb'), name);
  }
  assert.equal(rows.length, 16);
});

/** GPT-3 of the paper's table 3: 96 layers of 12288, 96 heads, 2048 tokens. */
const GPT3: PaperGpt = { s: 2048, b: 1, h: 12_288, a: 96, layers: 96, v: 51_200 };

test("Korthikanti's table 2 is reproduced: bytes per layer by technique", () => {
  const { s, b, h, a } = GPT3;
  for (const row of rowsOf('korthikanti_table2.csv')) {
    const t = row('tensor_parallel') === '1' ? 8 : 1;
    const expected =
      s * b * h * (Number(row('whole')) + (Number(row('cut')) + (Number(row('core')) * a * s) / h) / t);
    const recompute = row('recompute') as 'none' | 'selective' | 'full'; // the file's own words
    const saving = { t, sequenceParallel: row('sequence_parallel') === '1', recompute };
    assert.equal(activationsPerLayer(GPT3, saving), expected, row('technique'));
  }
});

test("without parallelism a layer holds sbh(34 + 5as/h) bytes, and attention's share is the paper's", () => {
  const { s, h, a } = GPT3;
  // "for GPT-3, 5as/h = 80", section 5.
  assert.equal((5 * a * s) / h, 80);
  const saving = { t: 1, sequenceParallel: false, recompute: 'none' } as const;
  assert.equal(activationsPerLayer(GPT3, saving), s * h * 114);
});

test('the first stage holds all layers under 1F1B, 1 + (p - 1)/(pm) of them if interleaved, and p embeddings', () => {
  const saving = { t: 8, sequenceParallel: true, recompute: 'selective' } as const;
  const perLayer = activationsPerLayer(GPT3, saving);
  const sbh = GPT3.s * GPT3.h;
  const outside = (sbh * 8) / 8;
  assert.equal(activationsOfFirstStage(GPT3, saving, { p: 8, m: 1 }), 96 * perLayer + outside);
  assert.equal(activationsOfFirstStage(GPT3, saving, { p: 8, m: 3 }), 96 * (1 + 7 / 24) * perLayer + outside);
  // Without a pipeline: sbhp/t + 4sbh/t (1 + v/h).
  assert.equal(activationsOutside(GPT3, 8, 1), sbh / 8 + ((4 * sbh) / 8) * (1 + 51_200 / 12_288));
});

test("the planner's table of states reproduces ZeRO's table 1 to one unit of the last printed digit", () => {
  const rows = reproducedRows('zero-table-1');
  assert.deepEqual([rows.length, rows.filter(({ isInside }) => isInside).length], [54, 54]);
});
