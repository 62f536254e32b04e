import { type Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { nearest, PARALLEL, type ParallelConfig, SPLITS } from '../config';
import { ConfigError } from '../core';
import type { Table } from '../figures';
import type { LaunchOptions } from '../launch';
import { type Link, type LinkName, type LinkNumbers, linkOf } from '../wire';
import type { Output } from './io';

/** Returns a parser of an option's value: an integer of at least `least`. */
export function wholeNumber(least: number, most = Number.POSITIVE_INFINITY): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    const range = most === Number.POSITIVE_INFINITY ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`It must be an integer ${range}.`);
  };
}

/** Returns the option that changes settings of a config; it may be repeated. */
export function setOption(): Option {
  return new Option(
    '--set <key=value>',
    'changes a setting, such as parallel.strategy=ZERO_2; may be repeated',
  )
    .default([], 'none')
    .argParser((text, earlier: readonly string[]) => [...earlier, text]);
}

/** Returns the option that chooses the library for matmuls. */
export function blasOption(): Option {
  return new Option('--blas <choice>', 'the library for matmuls').choices(['auto', 'none']).default('auto');
}

/** The options that choose the engine, its Python and its BLAS. */
export interface EngineOptions {
  readonly engine: 'wasm' | 'torch';
  readonly python?: string;
  readonly blas: 'auto' | 'none';
}

/** Adds the options that choose the engine to a command. */
export function addEngineOptions(command: Command): Command {
  return command
    .addOption(new Option('--engine <name>', 'the compute engine').choices(['wasm', 'torch']).default('wasm'))
    .option(
      '--python <path>',
      "with --engine torch, the Python that has PyTorch (default: that of 'shardlab engine torch')",
    )
    .addOption(blasOption());
}

/** Returns the options of `launch` that choose the engine. `launch` refuses options that the engine does not have. */
export function engineOf({
  engine,
  python,
  blas,
}: EngineOptions): Pick<LaunchOptions, 'engine' | 'python' | 'blas'> {
  return { engine, ...(python === undefined ? {} : { python }), ...(blas === 'auto' ? {} : { blas }) };
}

/** The settings of `parallel` that commands have as options, such as --tp. */
const PARALLEL_OPTIONS = [
  'tp',
  'sequenceParallel',
  'cp',
  'cpKind',
  'ep',
  'pp',
  'schedule',
  'microbatches',
  'virtualStages',
  'stageSplit',
] as const satisfies readonly (keyof ParallelConfig)[];

/** The options for degrees and kinds of model parallelism, which the training commands accept. */
export type ParallelOptions = Partial<Pick<ParallelConfig, (typeof PARALLEL_OPTIONS)[number]>>;

/** Adds the options of model parallelism to a command. */
export function addParallelOptions(command: Command): Command {
  for (const key of PARALLEL_OPTIONS) command.addOption(optionOf(key));
  return command;
}

/** Returns the option of a setting; its values are those of the table of settings. */
function optionOf(key: (typeof PARALLEL_OPTIONS)[number]): Option {
  const { schema, says } = PARALLEL[key];
  const flag = `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const inner = valuesOf(schema);
  if (key === 'stageSplit')
    return new Option(`${flag} <split>`, `${says} (${SPLIT_FORMS})`).argParser(parseStageSplit);
  if (inner instanceof z.ZodBoolean) return new Option(flag, says);
  if (inner instanceof z.ZodEnum)
    return new Option(`${flag} <name>`, says).choices(inner.options.map(String));
  return new Option(`${flag} <n>`, says).argParser(wholeNumber(1));
}

function valuesOf(schema: z.core.$ZodType): z.core.$ZodType {
  return schema instanceof z.ZodDefault || schema instanceof z.ZodNullable
    ? valuesOf(schema.unwrap())
    : schema;
}

const SPLIT_FORMS = `${SPLITS.join(', ')}, numbers such as 3,2 or names such as blocks.3,blocks.6`;

/** Parses '--stage-split'. Throws: an error for commander to show. */
function parseStageSplit(text: string): ParallelConfig['stageSplit'] {
  const rule = SPLITS.find((name) => name === text);
  if (rule !== undefined) return rule;
  const parts = text.split(',').map((part) => part.trim());
  if (parts.every((part) => /^\d+$/.test(part))) return parts.map(Number);
  const near = nearest(text, SPLITS);
  if (near === undefined && parts.every((part) => /^[\w.]+$/.test(part))) return parts;
  const question = near === undefined ? '' : `Did you mean ${near}? `;
  throw new InvalidArgumentError(`${question}Give ${SPLIT_FORMS}.`);
}

/** Returns the settings of `parallel` that were given as options. */
export function parallelSettings(options: ParallelOptions): ParallelOptions {
  const entries = PARALLEL_OPTIONS.map((key) => [key, options[key]] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/** Parses an option's value as a number above 0, such as 1e9. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}

/** Parses '--link': a name such as 10GbE, or 'GBIT,MICROSECONDS'. Throws: an error for commander to show. */
export function parseLink(text: string): Link {
  const [, gbit, latencyUs] = /^([\d.]+),([\d.]+)$/.exec(text) ?? [];
  try {
    // `linkOf` throws for an unknown name, so the cast is safe.
    if (gbit === undefined) return linkOf(text as LinkName);
    return linkOf({ gbit: Number(gbit), latencyUs: Number(latencyUs) });
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

/** Returns a link in the numbers that `launch` accepts. */
export function linkNumbers({ bytesPerSecond, latencySeconds }: Link): LinkNumbers {
  return { gbit: (bytesPerSecond * 8) / 1e9, latencyUs: latencySeconds * 1e6 };
}

/** The options that print a command's table in another form. */
export interface TableOptions {
  readonly csv?: boolean;
  readonly latex?: boolean;
}

/** Adds the options that print a command's table in another form. */
export function addTableOptions(command: Command): Command {
  return command
    .option('--csv', 'prints the table as CSV, with unformatted numbers')
    .option('--latex', 'prints the table as a LaTeX tabular (package booktabs)');
}

/**
 * Returns the form in which a command prints its table; undefined: in its usual form. Throws: CONFIG for more than one of --csv, --latex and
 * --json.
 */
export function tableForm(
  { csv = false, latex = false }: TableOptions,
  { json }: Output,
): ((table: Table) => string) | undefined {
  const chosen = Object.entries({ '--csv': csv, '--latex': latex, '--json': json }).filter(([, is]) => is);
  if (chosen.length > 1)
    throw new ConfigError(`${chosen.map(([flag]) => flag).join(' and ')}: give only one of them`);
  if (csv) return (table) => table.toCsv();
  return latex ? (table) => table.toLatex() : undefined;
}
