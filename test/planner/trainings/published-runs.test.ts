import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { accuracyOf } from '../../../src/planner/accuracy';
import {
  PUBLISHED_NAMES,
  type ReproducedRow,
  reproducedRows,
  sourceOf,
} from '../../../src/planner/measured/published-tables';
import { ROOT } from '../../project/sources';

/** A published time, by the title of its table. */
interface Judged extends ReproducedRow {
  readonly title: string;
}

/** Two pages of one project are one line of the table. */
const TITLES: Readonly<Record<string, string>> = {
  'torchtitan-h100': 'TorchTitan on H100 and H200',
  'torchtitan-h200': 'TorchTitan on H100 and H200',
  'ml-engineering': 'DeepSpeed',
};

const judged = PUBLISHED_NAMES.flatMap((name) =>
  reproducedRows(name)
    .filter(({ subject }) => subject === 'time')
    .map((row): Judged => ({ ...row, title: TITLES[name] ?? sourceOf(name).title })),
);
const stacks = ['megatron', 'fsdp2', 'deepspeed'] as const;
const ofStack = (stack: string): readonly Judged[] => judged.filter(({ layout }) => layout.stack === stack);

test('intervals contain at least 80% of the published runs of each framework', () => {
  for (const stack of stacks) {
    const share = insideShare(ofStack(stack));
    assert.ok(share >= 0.8, `${stack}: ${percent(share)}`);
  }
});

test('intervals contain at least 80% of the runs of every table; of both with ZeRO-3 between nodes together', () => {
  const isBetweenNodes = ({ layout }: Judged): boolean =>
    layout.stack === 'deepspeed' && layout.gpus > layout.hardware.gpusPerNode;
  const between = judged.filter(isBetweenNodes);
  assert.deepEqual([...new Set(between.map(({ layout }) => layout.strategy))], ['FULL_SHARD']);
  const within = tables().filter(([, , runs]) => !runs.some(isBetweenNodes));
  for (const [stack, table, runs] of [...within, ['deepspeed', 'ZeRO-3 between nodes', between] as const]) {
    assert.ok(insideShare(runs) >= 0.8, `${stack}, ${table}: ${percent(insideShare(runs))}`);
  }
});

test('no framework is predicted too fast or too slow by more than 5% in the median', () => {
  for (const stack of stacks) {
    const median = medianRatio(ofStack(stack));
    assert.ok(Math.abs(median - 1) < 0.05, `${stack}: ${median.toFixed(2)}`);
  }
});

test('docs/explanation/planner.md has the errors by framework and table as they are computed here', () => {
  const expected = [
    ...stacks.map((stack) => line(stack, 'all', ofStack(stack))),
    ...tables().map(([stack, table, runs]) => line(stack, table, runs)),
  ].join('\n');
  const docs = readFileSync(join(ROOT, 'docs', 'explanation', 'planner.md'), 'utf8');
  assert.ok(docs.includes(expected), `docs/explanation/planner.md lacks these lines:\n${expected}`);
});

/** Returns the runs of each framework by the table that published them. */
function tables(): readonly (readonly [stack: string, table: string, runs: readonly Judged[]])[] {
  return stacks.flatMap((stack) => {
    const runs = ofStack(stack);
    const titles = [...new Set(runs.map(({ title }) => title))];
    return titles.map((name) => [stack, name, runs.filter(({ title }) => title === name)] as const);
  });
}

function line(stack: string, table: string, runs: readonly Judged[]): string {
  const { count, mean } = accuracyOf(
    runs.map(({ predicted, published }) => ({ predicted, measured: published })),
  );
  const worst = ratios(runs).reduce((a, b) => (Math.abs(Math.log(b)) > Math.abs(Math.log(a)) ? b : a));
  const cells = [count, percent(mean, 1), medianRatio(runs).toFixed(2), worst.toFixed(2)];
  return `| ${[stack, table, ...cells, percent(insideShare(runs))].join(' | ')} |`;
}

function ratios(runs: readonly Judged[]): readonly number[] {
  return runs.map(({ ratio }) => ratio).sort((a, b) => a - b);
}

function medianRatio(runs: readonly Judged[]): number {
  const sorted = ratios(runs);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

function insideShare(runs: readonly Judged[]): number {
  return runs.filter(({ isInside }) => isInside).length / runs.length;
}

function percent(share: number, digits = 0): string {
  return `${(100 * share).toFixed(digits)}%`;
}
