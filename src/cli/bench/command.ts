import type { Command } from 'commander';
import type { Io, Perform } from '../io';
import { addCollectivesBench } from './collectives-command';
import { addGptBench } from './gpt-command';
import { addKernelBench } from './kernel-command';
import { addPlanBench } from './plan-command';
import { addPredictionsBench } from './predictions-command';
import { addSettingsBench } from './settings-command';

/** `shardlab bench`: benchmarks, optionally against PyTorch or other kernels. */
export function addBench(program: Command, perform: Perform, io: Io): void {
  const bench = program
    .command('bench')
    .description('runs benchmarks, optionally against PyTorch or other kernels');
  addGptBench(bench, perform, io);
  addCollectivesBench(bench, perform, io);
  addKernelBench(bench, perform, io);
  addSettingsBench(bench, perform, io);
  addPlanBench(bench, perform);
  addPredictionsBench(bench, perform);
}
