import type { Layout } from '../../src/planner/layout';
import { vtrainLayouts } from '../../src/planner/measured/judged-runs';
import published from '../data/published-runs.json';
import titan from '../data/torchtitan-memory.json';
import { layoutOfLine } from './batch-lines';
import { mptLayouts, newerMptLayouts, torchtitanLayouts } from './fsdp-layouts';
import { megatronLayouts, secondsAtTflops } from './megatron-layouts';
import { trainingLayouts } from './training-layouts';

/** A training whose time somebody published, and the layout that was run. */
export interface PublishedRun {
  readonly table: string;
  readonly layout: Layout;
  readonly seconds: number;
}

/** Settings of a row, and one of three measured figures. `name` and `gib` are of the test of memory. */
interface Row {
  readonly name?: string;
  readonly gib?: number;
  readonly parallel?: object;
  readonly tokensPerGpu?: number;
  readonly seconds?: number;
  readonly tflops?: number;
}

/** Returns all runs by which the planner's times are judged; for mixtures of experts, only layouts that the planner knows. */
export function publishedRuns(): readonly PublishedRun[] {
  const of = (table: string, runs: readonly Omit<PublishedRun, 'table'>[]): readonly PublishedRun[] =>
    runs.map(({ layout, seconds }) => ({ table, layout, seconds }));
  const tables: Readonly<Record<string, { readonly common: object; readonly rows: readonly Row[] }>> =
    published.tables;
  const rows = Object.entries(tables).flatMap(([table, { common, rows }]) =>
    of(
      table,
      rows.map((row) => measured(row, common)),
    ),
  );
  const place = { attention: 'flash', parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' } };
  const h100 = { ...place, hardware: 'H100-96G-grand-teton', compileLoss: false };
  const h200 = { ...place, hardware: 'H200-141G' };
  return [
    ...of('vTrain', vtrainLayouts()),
    ...of('Megatron 2021, table 1', megatronLayouts()),
    ...of('MPT on A100-40G', mptLayouts()),
    ...newerMptLayouts().map(({ layout, seconds }) => ({
      table: `MPT on ${layout.hardware.name}`,
      layout,
      seconds,
    })),
    ...of('TorchTitan on A100', torchtitanLayouts()),
    ...of('TorchTitan on H100 and H200', [
      ...titan.rows.map((row) => measured(row, h100)),
      ...titan.otherAllocator.rows.map((row) => measured(row, h200)),
    ]),
    ...rows,
    ...trainingLayouts().map(({ id, layout, seconds }) => ({
      table: id.replace(/[ :].*/, ''),
      layout,
      seconds,
    })),
  ];
}

function measured(row: Row, common: Row): Omit<PublishedRun, 'table'> {
  const { tokensPerGpu, seconds, tflops, name: _name, gib: _gib, ...request } = row;
  const layout = layoutOfLine({ ...common, ...request, parallel: { ...common.parallel, ...row.parallel } });
  const { globalBatch, gpus, model } = layout;
  if (tflops !== undefined) return { layout, seconds: secondsAtTflops(layout, tflops) };
  if (seconds !== undefined) return { layout, seconds };
  return { layout, seconds: (globalBatch * model.seq) / gpus / (tokensPerGpu ?? Number.NaN) };
}
