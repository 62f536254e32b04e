import type { Command } from 'commander';
import type { Io, Perform } from '../io';
import { addCollectivesBench } from './collectives-command';
import { addGptBench } from './gpt-command';
import { addKernelBench } from './kernel-command';
import { addPlanBench } from './plan-command';
import { addPredictionsBench } from './predictions-command';
import { addSettingsBench } from './settings-command';

/** `shardlab bench`: one command for each benchmark. */
export function declareBench(bench: Command, perform: Perform, io: Io): void {
  addGptBench(bench, perform, io);
  addCollectivesBench(bench, perform, io);
  addKernelBench(bench, perform, io);
  addSettingsBench(bench, perform, io);
  addPlanBench(bench, perform, io);
  addPredictionsBench(bench, perform, io);
}
