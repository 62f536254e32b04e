import type { Command } from 'commander';
import { placeText } from '../../config';
import { ConfigError, isWhole } from '../../core';
import { addEngineOptions, type EngineOptions, engineOf, wholeNumber } from '../arguments';
import type { Io, Perform } from '../io';
import { flagsHelp, readFlags } from './flags';
import { type SftResult, trainSft } from './training';

interface SftCommandOptions extends EngineOptions {
  readonly nproc?: number;
}

/** `shardlab sft`: supervised fine-tuning with the arguments of ms-swift's `swift sft`. */
export function declareSft(command: Command, perform: Perform, io: Io): void {
  command
    .argument('[arguments...]', 'arguments of swift sft, listed below')
    .option('--nproc <n>', 'number of rank processes (default: NPROC_PER_NODE, or 1)', wholeNumber(1))
    .allowUnknownOption()
    .addHelpText('after', flagsHelp);
  addEngineOptions(command);
  perform<SftCommandOptions>(command, async (words, options, output) => {
    const flags = readFlags(words, io.cwd);
    const note = (line: string): void => output.note(line);
    const settings = { ...flags, ranks: ranksOf(options, io), cwd: io.cwd, note };
    const result = await trainSft(settings, engineOf(options), io);
    const report = sftReport(result);
    output.answer(report, () => asText(result));
    return 0;
  });
}

function ranksOf({ nproc }: SftCommandOptions, { env }: Io): number {
  const { NPROC_PER_NODE: nprocPerNode } = env;
  if (nproc !== undefined) return nproc;
  if (nprocPerNode === undefined || nprocPerNode === '') return 1;
  const ranks = Number(nprocPerNode);
  if (isWhole(ranks, 1)) return ranks;
  throw new ConfigError(`sft: NPROC_PER_NODE is ${nprocPerNode}; give an integer of at least 1`);
}

/** Returns the answer of --json. */
function sftReport({ run, examples, rows, steps, best, lastCheckpoint, folders, engine }: SftResult) {
  return {
    engine,
    strategy: run.config.parallel.strategy,
    world: run.world,
    params: run.numParams,
    examples,
    rows,
    steps,
    losses: run.losses,
    evaluations: run.evaluations,
    best: best ?? null,
    last_checkpoint: lastCheckpoint,
    folders,
  };
}

function asText(result: SftResult): string {
  const { run, best, lastCheckpoint, folders } = result;
  const { losses } = run;
  const trained =
    losses.length === 0
      ? 'no step is left to train'
      : `loss ${losses[0]?.toFixed(4)} → ${losses.at(-1)?.toFixed(4)} in ${losses.length} steps`;
  return [
    `${placeText(run)}, ${result.engine}, ${run.numParams} parameters`,
    trained,
    ...(best === undefined ? [] : [`best validation loss ${best.loss.toFixed(4)}, after step ${best.step}`]),
    ...(lastCheckpoint === null ? [] : [`checkpoint: ${lastCheckpoint}`]),
    ...Object.entries(folders).map(([name, path]) => `${name}: ${path}`),
  ].join('\n');
}
