import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';
import { isWhole } from '../../core';
import { predictions } from '../../session';
import type { Link } from '../../wire';
import { linkNumbers, parseLink, wholeNumber } from '../arguments';
import { processorName } from '../doctor/checks';
import { type Io, type Perform, progressOn } from '../io';

interface PredictionsOptions {
  readonly worlds: readonly number[];
  readonly rounds: number;
  readonly link?: Link;
  readonly sharedMemory: boolean;
  readonly modelParallel: boolean;
}

/**
 * `shardlab bench predictions`: predicts runs on this machine from measurements at one world size, then does these runs
 * at several world sizes and compares them with the predictions.
 */
export function addPredictionsBench(parent: Command, perform: Perform, io: Io): void {
  const command = parent
    .command('predictions')
    .description(
      "predicts this machine's runs from one job of two ranks, runs them, and compares; takes about 15 minutes",
    )
    .option('--worlds <list>', 'numbers of ranks, comma-separated', parseWorlds, [1, 2, 4])
    .option(
      '--rounds <k>',
      'rounds of three steps per run; only half of the steps count: those in which other programs used the CPU least',
      wholeNumber(1),
      5,
    )
    .option(
      '--link <name>',
      "the shaped wire: a name such as 10GbE, or 'GBIT,MICROSECONDS'; default 2,50",
      parseLink,
    )
    .option('--no-shared-memory', 'leaves out data-parallel runs on shared memory')
    .option('--no-model-parallel', 'leaves out runs with tp, pp and cp');
  perform<PredictionsOptions>(
    command,
    async (_, { worlds, rounds, link, sharedMemory, modelParallel }, output) => {
      const shaped = link === undefined ? { gbit: 2, latencyUs: 50 } : linkNumbers(link);
      const links = [shaped, ...(sharedMemory ? [null] : [])];
      const comparison = await predictions({ worlds, links, rounds, modelParallel }, progressOn(io));
      const { measured, runs, meanError, worstError, isExactInBytes } = comparison;
      const { kernels, ...calibration } = measured;
      const processor = processorName();
      const report = {
        processor,
        cores: measured.cores,
        calibration: { ...calibration, kernels: kernels.length },
        mean_error: meanError,
        worst_error: worstError,
        data_parallel_error: comparison.dataParallelError,
        model_parallel_error: comparison.modelParallelError,
        bytes_equal: isExactInBytes,
        rows: runs,
      };
      output.answer(report, () => `${processor}, ${measured.cores} cores\n${comparison}`);
      return isExactInBytes ? 0 : 1;
    },
  );
}

function parseWorlds(text: string): readonly number[] {
  const worlds = text.split(',').map(Number);
  if (worlds.every((world) => isWhole(world, 1))) return worlds;
  throw new InvalidArgumentError('Give integers of at least 1, separated by commas.');
}
