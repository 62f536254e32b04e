import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accuracyOf } from '../../../src/planner/accuracy';
import { publishedRows, reproducedRows } from '../../../src/planner/measured/published-tables';
import { layoutOfLine } from '../../support/batch-lines';

/** Errors above this need a named cause. */
const FAR = 0.2;

const NAMES = ['megatron-bridge', 'internevo', 'nemo', 'ml-engineering'] as const;

const known = NAMES.flatMap((name) => reproducedRows(name)).map((run) => ({
  ...run,
  kind: run.layout.model.moe === null ? 'dense' : 'MoE',
  measured: run.published,
}));

test('published trainings that the planner says it knows are within 12% in the mean, dense and MoE alike', (context) => {
  const ofKind = (kind: string) => known.filter((run) => run.kind === kind);
  const groups = { all: known, dense: ofKind('dense'), MoE: ofKind('MoE') };
  for (const [name, group] of Object.entries(groups)) {
    const { count, mean, median, worst, bias } = accuracyOf(group);
    const told = [mean, median, worst, bias].map((share) => `${(100 * share).toFixed(1)}%`);
    context.diagnostic(
      `${name}: ${count} runs, mean ${told[0]}, median ${told[1]}, worst ${told[2]}, bias ${told[3]}`,
    );
    assert.ok(mean <= 0.12, `${name}: ${told[0]}`);
  }
  assert.deepEqual([groups.dense.length, groups.MoE.length], [148, 80]);
});

test('every published training that is more than 20% from its prediction has a named cause', () => {
  for (const { row, ratio, cause } of known) {
    const error = ratio - 1;
    assert.ok(Math.abs(error) <= FAR || cause !== undefined, `${row}: ${(100 * error).toFixed(0)}%`);
  }
});

test('a plan says which published trainings it does not know', () => {
  assert.equal(NAMES.flatMap((name) => publishedRows(name)).length - known.length, 5);
  const request = (model: string, changes: object) => () =>
    layoutOfLine({ model, hardware: 'H100-80G', gpus: 256, batch: { micro: 1, global: 2048 }, ...changes });
  const megatron = { stack: 'megatron', strategy: 'ZERO_1' };
  const refused: readonly (readonly [run: () => unknown, says: RegExp])[] = [
    [request('GPT-OSS-120B', {}), /'GPT-OSS-120B' is not known/],
    [request('Llama-3-70B', { precision: 'nvfp4' }), /mixedPrecision\.paramDtype: .*"nvfp4"/],
    [
      request('Qwen3-235B-A22B', { parallel: { ...megatron, tp: 2, pp: 8, ep: 32 } }),
      /ep \(32\) must divide/,
    ],
    [
      request('Llama-3.1-405B', { parallel: { ...megatron, tp: 4, pp: 16 }, virtualStages: 8 }),
      /126 layers cannot be divided into 16 x 8 stages/,
    ],
    [request('Qwen3-30B-A3B', { parallel: { ...megatron, ep: 8, capacityFactor: 1 } }), /capacityFactor/],
  ];
  for (const [run, says] of refused) assert.throws(run, { code: 'CONFIG', message: says });
});
