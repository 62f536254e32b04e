import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { either, fields, listOf, MODEL_NAMES, presetNamed, requireKind, text } from '../config';
import { ConfigError } from '../core';
import { assemble } from './assemble';
import { isLaunch } from './command';
import { isScriptName, readForeign, readReferred, writtenBy } from './read-file';
import type { Translation } from './rows/key-row';
import { hasOpenVariable, meantBy, type Source, type TranslatedEntry, valuesOf } from './rows/meant';
import type { Reading } from './rows/reading';
import { type ScriptLaunch, scriptLaunches, type WrittenFiles } from './script';

/** The user's settings: a file, 'file:line' of a script with several launches, or a command. */
export type Foreign = string | readonly string[];

/** What a reader gets in addition to the settings. */
export interface ReadOptions {
  /** The folder in which relative paths begin. */
  readonly cwd?: string;
  /** Number of ranks, if the settings do not give it. */
  readonly world?: number | undefined;
}

/** The file's name in lines that come from a command. */
const COMMAND_LINE = 'command line';

/**
 * Reads another program's settings: a file, a launch script, or a command as its words. Returns a reading per launch. Throws: CONFIG if
 * nothing there is a setting of a known program.
 */
export function readAll(foreign: Foreign, options: ReadOptions = {}): readonly Reading[] {
  const { cwd = '.' } = options;
  return launchesOf(foreign, cwd).map((launch) => readingOf(launch, { ...options, cwd }));
}

/** Reads settings that have one launch. Throws: CONFIG if there are several launches, with the lines of the launches. */
export function readConfig(foreign: Foreign, options: ReadOptions = {}): Reading {
  requireKind('readConfig', 'the settings', foreign, either(text, listOf(text)));
  requireKind('readConfig', 'the options', options, fields);
  const launches = launchesOf(foreign, options.cwd ?? '.');
  const [first, second] = launches;
  if (first === undefined) throw new ConfigError(`${String(foreign)} has no settings`);
  if (second !== undefined) {
    const lines = launches.map(({ line }) => `${String(foreign)}:${line}`).join(', ');
    throw new ConfigError(
      `${String(foreign)} launches ${launches.length} trainings; name one of them: ${lines}`,
    );
  }
  return readingOf(first, options);
}

function launchesOf(foreign: Foreign, cwd: string): readonly ScriptLaunch[] {
  if (typeof foreign !== 'string') return commandLaunches(foreign.map(quoted).join(' '));
  const [, file, line] = /^(.*):(\d+)$/.exec(foreign) ?? [];
  if (file !== undefined && line !== undefined && !existsSync(resolve(cwd, foreign))) {
    const launches = readForeign(file, cwd) ?? [];
    const found = launches.filter((launch) => launch.line === Number(line));
    if (found.length > 0) return found;
    const lines = launches.flatMap((launch) => (launch.line === null ? [] : [launch.line]));
    throw new ConfigError(
      `${foreign}: no training is launched on this line; lines with a launch: ${lines.join(', ') || 'none'}`,
    );
  }
  if (/\s/.test(foreign) && !existsSync(resolve(cwd, foreign))) return commandLaunches(foreign);
  const launches = readForeign(foreign, cwd);
  if (launches === null)
    throw new ConfigError(
      `${foreign} has settings of shardlab; shardlab run and shardlab plan take this file as it is`,
    );
  return launches;
}

function commandLaunches(text: string): readonly ScriptLaunch[] {
  const launches = scriptLaunches(text, COMMAND_LINE);
  if (launches.some(({ line, isHandOver }) => line !== null || isHandOver)) return launches;
  throw new ConfigError(
    `no training is launched by: ${text.slice(0, 200)}; give a command of torchrun, accelerate launch, deepspeed, swift sft, megatron sft, srun or python SCRIPT`,
  );
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Reads sources with the files to which they refer, and puts together what all lines say. */
function readingOf({ sources, written }: ScriptLaunch, { cwd = '.', world }: ReadOptions): Reading {
  return assemble(
    sources.flatMap((source) => withReferred(source, { cwd, written }, [])),
    world,
  );
}

/** Where a source's files are looked up: in a folder, or among the files that the script writes. */
interface Places {
  readonly cwd: string;
  readonly written: WrittenFiles | undefined;
}

/**
 * Returns the lines of the files to which a source refers, then the source's own, because arguments replace settings of files.
 */
function withReferred(source: Source, places: Places, above: readonly string[]): readonly TranslatedEntry[] {
  const { cwd, written } = places;
  const failures = new Map<string, string>();
  const empty = new Set<string>();
  const named = meantBy(source).flatMap(({ meaning: { file, script }, entry: { file: by } }) => {
    if (script !== undefined && isThere(placeOf(script, by, places), places)) return [{ file: script, by }];
    return file === undefined ? [] : [{ file, by }];
  });
  const files = named.map(({ file }) => file);
  const referred = named.flatMap(({ file, by }): readonly Source[] => {
    try {
      if (above.includes(file)) throw new ConfigError(`${file} refers to itself`);
      const sources = readReferred(placeOf(file, by, places), cwd, written);
      if (sources.length === 0) empty.add(file);
      return sources;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      failures.set(file, error.message);
      return [];
    }
  });
  const within = referred.flatMap((each) => withReferred(each, places, [...above, ...files]));
  const own = meantBy(source, (key) =>
    referred.map((each) => valuesOf(each)(key)).find((value) => value !== undefined),
  );
  return [
    ...within,
    ...own.flatMap((one): readonly TranslatedEntry[] => {
      const { file, script, unread = 'error' } = one.meaning;
      if (script !== undefined && !files.includes(script)) return []; // the user has not given the script's file
      const failure = failures.get(file ?? script ?? '');
      if (failure !== undefined && hasOpenVariable(file ?? '')) return [{ ...one, meaning: OPEN_NAME }];
      if (failure !== undefined) return [{ ...one, meaning: { effect: unread, why: failure } }];
      const isEmpty = script !== undefined && empty.has(script);
      return [
        isEmpty ? { ...one, meaning: { effect: 'none', why: 'makes no call that is read here' } } : one,
      ];
    }),
  ];
}

const OPEN_NAME: Translation = {
  effect: 'warning',
  why: 'depends on a variable that these lines do not set, so it is not read',
};

/** Returns the path of a file that the file `by` names: from the current folder, or else from the folder of `by`. */
function placeOf(file: string, by: string, places: Places): string {
  const beside = join(dirname(by), file);
  return !isThere(file, places) && isThere(beside, places) ? beside : file;
}

function isThere(file: string, { cwd, written }: Places): boolean {
  return writtenBy(written, file) !== undefined || existsSync(resolve(cwd, file));
}

/** Returns another program's settings that a command names, by one word or by the words of a launch; null if the words name no such settings. */
export function foreignOf(words: readonly string[], cwd: string): Foreign | null {
  const [first = '', second] = words;
  const isHere = existsSync(resolve(cwd, first.replace(/:\d+$/, '')));
  if (second !== undefined) return !isHere && isLaunch(words) ? words : null;
  if (presetNamed(first) !== undefined || MODEL_NAMES.some((model) => model === first)) return null;
  if (isHere) return isForeignFile(first.replace(/:\d+$/, ''), cwd) ? first : null;
  return isLaunch(first.split(/\s+/)) ? first : null;
}

/** Whether a file has settings of another program; false if the file cannot be read, which the reader of configs then reports. */
function isForeignFile(name: string, cwd: string): boolean {
  try {
    return readForeign(name, cwd) !== null;
  } catch (error) {
    if (error instanceof ConfigError) return isScriptName(name);
    throw error;
  }
}
