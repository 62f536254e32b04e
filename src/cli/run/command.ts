import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { configNamed, PRESETS, placeText, withSettings } from '../../config';
import { ConfigError, formatBytes, shown } from '../../core';
import { toyConfig } from '../../programs';
import { skippedText } from '../../session';
import {
  addEngineOptions,
  addParallelOptions,
  type EngineOptions,
  engineOf,
  type ParallelOptions,
  parallelSettings,
  setOption,
  wholeNumber,
} from '../arguments';
import type { Io, Output, Perform } from '../io';
import { foreignReading, ranksHere } from '../read/foreign';
import { trainHeadless } from './headless';
import { type RunReport, runReport } from './report';

interface RunCommandOptions extends EngineOptions, ParallelOptions {
  readonly ranks?: number;
  readonly steps?: number;
  readonly data?: string;
  readonly set: readonly string[];
  readonly init?: string;
  readonly events?: string;
  readonly save?: string;
  readonly resume?: string;
}

/** `shardlab run CONFIG`: trains a config without a notebook. */
export function declareRun(command: Command, perform: Perform, io: Io): void {
  command
    .argument(
      '<config...>',
      `a YAML or JSON file, a preset (${Object.keys(PRESETS).join(', ')}), a model's name, a file of another program (shardlab read), or, after --, a command that launches a training`,
    )
    .option(
      '--ranks <n>',
      "number of rank processes (default: 2, or as another program's settings say, but at most 8)",
      wholeNumber(1),
    )
    .option('--steps <k>', "number of steps (default: the config's)", wholeNumber(1))
    .option('--data <path>', "a file or folder of text to train on (default: the config's data)")
    .addOption(setOption())
    .option('--init <file>', 'initial parameters (safetensors)')
    .option('--save <folder>', 'writes a checkpoint after the last step')
    .option('--resume <folder>', "continues from a checkpoint; --steps includes the checkpoint's steps")
    .option(
      '--events <file>',
      'writes the events of every step into this file, which `shardlab trace` converts',
    );
  addEngineOptions(command);
  addParallelOptions(command);
  perform<RunCommandOptions>(command, async (words, options, output) => {
    const data = options.data === undefined ? [] : [`data.path=${JSON.stringify(options.data)}`];
    const degrees = Object.entries(parallelSettings(options)).map(
      ([key, value]) => `parallel.${key}=${JSON.stringify(value)}`,
    );
    const sets = [...data, ...degrees, ...options.set];
    const { config, ranks } = askedTraining(words, { sets, options, io, output });
    if (options.init !== undefined && options.resume !== undefined) {
      throw new ConfigError('--init and --resume both define the initial parameters; give one of them');
    }
    const path = (option: 'init' | 'events' | 'save' | 'resume'): string | undefined => {
      const value = options[option];
      if (value === '') throw new ConfigError(`--${option} needs a path, not an empty text`);
      return value && resolve(io.cwd, value);
    };
    const source = (option: 'init' | 'resume'): string | undefined => {
      const at = path(option);
      if (at === undefined || existsSync(at)) return at;
      const kind = option === 'init' ? 'file' : 'folder';
      throw new ConfigError(`--${option}: there is no ${kind} ${shown(at)}; correct its path`);
    };
    const [init, events] = [source('init'), path('events')];
    const [save, resume] = [path('save'), source('resume')];
    const run = await trainHeadless({ ...engineOf(options), config, ranks, init, events, save, resume }, io);
    const report = runReport(run);
    output.answer(report, () => asText(placeText(run), report));
    const numSkipped = run.results.filter(({ skipped }) => skipped).length;
    const skipped = skippedText(numSkipped, run.results.length);
    if (skipped !== null) output.note(skipped);
    if (run.eventsFailure === undefined) return 0;
    output.note(`shardlab: ${run.eventsFailure.message}`);
    return 1;
  });
}

interface TrainingAsked {
  readonly sets: readonly string[];
  readonly options: RunCommandOptions;
  readonly io: Io;
  readonly output: Output;
}

/** Returns the config and the number of ranks; settings of another program may train in a smaller form. */
function askedTraining(words: readonly string[], { sets, options, io, output }: TrainingAsked) {
  const { steps } = options;
  const reading = foreignReading(words, { io, output, world: options.ranks });
  if (reading === null) {
    const [name = '', ...more] = words;
    if (more.length > 0)
      throw new ConfigError(`run takes one config, not ${words.length}: ${words.join(', ')}`);
    const named = withSettings(configNamed(name, io.cwd), sets);
    return { config: steps === undefined ? named : { ...named, steps }, ranks: options.ranks ?? 2 };
  }
  const ranks = options.ranks ?? ranksHere(reading, output);
  const settings = withSettings(reading.config, sets);
  const { config, notes } = toyConfig(settings, { steps, ranks, isScaled: ranks !== reading.world });
  for (const note of notes) output.note(note);
  return { config, ranks };
}

function asText(place: string, report: RunReport): string {
  const { losses } = report;
  return [
    `${place}, ${report.engine} (BLAS: ${report.blas}), ${report.params} parameters`,
    ...(losses.length === 0 ? ['no step is left to train'] : trainedText(report)),
  ].join('\n');
}

function trainedText({ losses, memory, comm, ...report }: RunReport): string[] {
  return [
    `loss ${losses[0]} → ${losses.at(-1)} in ${losses.length} steps`,
    `${report.tokens_per_s} tokens/s, ${report.step_ms} ms per step, ${report.rss_mb_max} MiB per process`,
    `peak ${formatBytes(memory.peak_bytes)} per rank; each rank receives ${formatBytes(comm.wire_bytes)} per step and waits ${comm.exposed_ms} ms`,
  ];
}
