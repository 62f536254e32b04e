import { dirname, normalize, resolve } from 'node:path';
import { type AST, getStaticTOMLValue, ParseError, parseTOML } from 'toml-eslint-parser';
import { knownKeys, LONGEST_PATH, type LocatedText, locatedText, requireShort } from '../config';
import { ConfigError, MOST_CONFIG_BYTES, readRegularFile, shown } from '../core';
import { HOSTFILE } from './launchers/torchrun';
import { pythonSources } from './read-python';
import type { FileForm } from './registry/program';
import { fileForms, programs } from './registry/registry';
import type { KeyTable } from './rows/key-row';
import type { Dialect, LocatedKey, Source } from './rows/meant';
import { calledScripts, type ScriptLaunch, scriptLaunches, type WrittenFiles } from './script';
import { requireFew } from './shell/limits';
import type { WrittenFile } from './shell/script';
import { MODEL_PATHS } from './videos/diffsynth';

/** The launches of another program's file, each with its sources; a file of settings counts as one launch. */
export type ForeignFile = readonly ScriptLaunch[];

/**
 * Reads a file of another program; null if the file is a config of this library. `name` is the file's name in messages. Throws: CONFIG if the
 * file cannot be read, or if it is no file of a known program.
 */
export function readForeign(name: string, cwd: string): ForeignFile | null {
  const text = textOf(name, cwd);
  if (isHostfile(name, text)) return [{ sources: [hostfile(text, name)], line: null }];
  if (isScriptName(name) || text.startsWith('#!')) return scriptFile(text, name);
  if (name.endsWith('.py')) return [{ sources: callsOf(text, name), line: null }];
  const source = sourceOf(text, name);
  return source === null ? null : [{ sources: [source], line: null }];
}

/** Whether a file lists hosts, by its name or its lines: 'node1 slots=8'. */
function isHostfile(name: string, text: string): boolean {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  return (
    /(^|\/)hostfile/.test(name) ||
    (lines.length > 0 && lines.every((line) => /^\S+\s+slots=\d+\s*$/.test(line)))
  );
}

/** Whether a file's name is that of a shell script, or of a file with exports. */
export function isScriptName(name: string): boolean {
  return /\.(sh|bash|slurm|sbatch|env|txt)$/.test(name);
}

/** Returns the launches of a script. Throws: CONFIG if the script launches nothing and has no other settings. */
function scriptFile(text: string, name: string): ForeignFile {
  const launches = scriptLaunches(text, name);
  const [first] = launches;
  if (first === undefined || first.line !== null) return launches;
  if (first.sources.some(({ dialect }) => dialect.name !== 'the shell')) return launches;
  const called = calledScripts(first.sources);
  const instead =
    called.length === 0
      ? 'name a script with a command of torchrun, accelerate launch, deepspeed, swift sft, megatron sft, srun or python SCRIPT'
      : `it runs ${called.join(', ')}; name that script`;
  throw new ConfigError(`${name} launches no training and exports no variable; ${instead}`, { file: name });
}

/** Returns a file that a script writes itself; undefined if the script does not write this file. */
export function writtenBy(written: WrittenFiles | undefined, name: string): WrittenFile | undefined {
  return written?.files.get(normalize(name));
}

/**
 * Reads a file to which a line of another file refers, in the dialect that fits. If the script writes the file itself, lines
 * are counted in the script. Throws: CONFIG if the file cannot be read.
 */
export function readReferred(name: string, cwd: string, written?: WrittenFiles): readonly Source[] {
  const made = writtenBy(written, name);
  const text = made?.text ?? textOf(name, cwd);
  const file = made === undefined ? name : (written?.by ?? name);
  if (isHostfile(name, text)) return [hostfile(text, file)];
  if (name.endsWith('.py')) return pythonSources(text, file);
  const source = sourceOf(text, file, name);
  if (source === null) throw new ConfigError(`${name} has settings of shardlab, not of another program`);
  return [source];
}

/** Returns the known calls of a Python script. Throws: CONFIG if the script has no known call. */
function callsOf(text: string, file: string): readonly Source[] {
  const sources = pythonSources(text, file);
  if (sources.length > 0) return sources;
  const trainers = programs().flatMap(({ calls }) => Object.keys(calls?.functions ?? {})[0] ?? []);
  throw new ConfigError(
    `${file} makes no call that is read: FullyShardedDataParallel, fully_shard, DistributedDataParallel, init_device_mesh, ` +
      `MixedPrecision, CPUOffload, Accelerator and its plugins, ${trainers.join(', ')} or LoraConfig; name the file that does`,
    { file },
  );
}

function textOf(name: string, cwd: string): string {
  if (name.length > LONGEST_PATH) throw new ConfigError(`there is no file ${shown(name)}`);
  const text = readText(name, cwd).replace(/^\uFEFF/, '');
  requireShort(text, name);
  if (!text.includes('\0')) return text;
  throw new ConfigError(`${name} is no text: it has bytes of value 0; name a file of settings or a script`, {
    file: name,
  });
}

function readText(name: string, cwd: string): string {
  const path = resolve(cwd, name);
  try {
    return readRegularFile(path, MOST_CONFIG_BYTES);
  } catch (error) {
    const isAbsent = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    const reason = error instanceof Error ? error.message : String(error);
    const message = isAbsent
      ? `there is no file ${name}${path === name ? '' : ` (${path})`}; correct its path`
      : `${name} cannot be read (${reason})`;
    throw new ConfigError(message, { file: name });
  }
}

/** A file of settings has at most this number of keys for each key that its program knows; other files only share a word with it. */
const LEAST_KNOWN = 4;

/**
 * Returns a file's entries in the dialect that knows most of the file's keys; null if these are settings of this library. `file` is where the
 * text was written. Throws: CONFIG if no dialect knows a key.
 */
function sourceOf(text: string, file: string, name = file): Source | null {
  const isToml = name.endsWith('.toml');
  const located = isToml ? locatedToml(text, file) : locatedText(text, file);
  const { input } = located;
  if (Array.isArray(input)) return modelPathsSource(located, file);
  if (typeof input !== 'object' || input === null) throw unknownFile(file);
  const keys = Object.keys(input);
  const known = (names: readonly string[]): number => keys.filter((key) => names.includes(key)).length;
  if (keys.includes('architectures'))
    throw new ConfigError(
      `${file} has the sizes of a model, and no settings of a training; write model: { from: '${dirname(name)}' }`,
      { file },
    );
  const { forms, isSure } = formsOf(isToml, known);
  const [best = null] = forms
    .map(({ dialect }) => ({ dialect, score: known(namesOf(dialect)) }))
    .toSorted((a, b) => b.score - a.score);
  const ours = known([...knownKeys(''), 'hardware', 'gpus']);
  const most = Math.max(best?.score ?? 0, ours);
  if (best === null || most * LEAST_KNOWN < keys.length || most === 0) throw unknownFile(file);
  if (best.score <= ours && !isSure) return null;
  return {
    dialect: best.dialect,
    entries: entriesOf(input, best.dialect.keys, {
      located,
      isYaml: /\.ya?ml$/.test(name),
      file,
      dialect: best.dialect,
      path: [],
      written: [],
    }),
  };
}

/** Returns the forms that a file can have, and whether its sections are those of one program, although settings of ours have the same names. */
function formsOf(
  isToml: boolean,
  known: (names: readonly string[]) => number,
): { readonly forms: readonly FileForm[]; readonly isSure: boolean } {
  const all = fileForms();
  if (isToml) return { forms: all.filter((form) => form.isToml === true), isSure: false };
  const sure = all.filter(({ sections = [] }) => known(sections) > 1);
  if (sure.length > 0) return { forms: sure, isSure: true };
  const forms = all.filter(
    (form) => form.isToml !== true && (form.needs === undefined || known(form.needs) > 0),
  );
  return { forms, isSure: false };
}

/** Returns the names of a dialect's keys at the top of a file, with and without the beginning that may be left out. */
function namesOf({ keys, prefixes }: Dialect): readonly string[] {
  const prefix = prefixes?.[''] ?? '';
  return Object.keys(keys).flatMap((key) => (prefix === '' ? [key] : [key, key.replace(prefix, '')]));
}

interface At {
  readonly located: Located;
  /** Whether words such as yes and off are truth values, as in YAML 1.1. */
  readonly isYaml: boolean;
  readonly file: string;
  readonly dialect: Dialect;
  /** The names of the enclosing sections: `path` as in the dialect's table, `written` as in the file. */
  readonly path: readonly string[];
  readonly written: readonly string[];
}

/** Returns one entry per key; in place of a section, the entries are those of its keys. */
function entriesOf(input: object, keys: KeyTable, at: At): readonly LocatedKey[] {
  const { located, isYaml, file, dialect } = at;
  const prefix = dialect.prefixes?.[at.path.at(-1) ?? ''] ?? '';
  requireFew(Object.keys(input).length, 'settings', `${file}: a file`, file);
  return Object.entries(input).flatMap(([key, value]): readonly LocatedKey[] => {
    const name =
      !Object.hasOwn(keys, key) && Object.hasOwn(keys, `${prefix}${key}`) ? `${prefix}${key}` : key;
    const [path, written] = [
      [...at.path, name],
      [...at.written, key],
    ];
    const parts = Object.hasOwn(keys, name) ? keys[name]?.parts : undefined;
    if (parts !== undefined && isFilled(value)) return entriesOf(value, parts, { ...at, path, written });
    const entry = { file, line: located.lineOf(written), key: written.join('.'), path, value };
    const meant = isYaml ? TRUTH_VALUES[located.plainOf?.(written)?.toLowerCase() ?? ''] : undefined;
    return [meant === undefined ? entry : { ...entry, meant }];
  });
}

/** Words without quotes that the YAML reader of other programs takes for truth values, as in YAML 1.1. Source: PyYAML's resolver. */
const TRUTH_VALUES: Readonly<Record<string, boolean>> = { yes: true, on: true, no: false, off: false };

/** Whether a value is a section with keys. */
function isFilled(value: unknown): value is object {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
  );
}

function modelPathsSource(located: Located, file: string): Source {
  const items = located.input as readonly unknown[]; // the caller has checked that this is a list
  requireFew(items.length, 'settings', `${file}: a file`, file);
  const entries = items.map((value, index) => ({
    file,
    line: located.lineOf([index]),
    key: `[${index}]`,
    path: ['model_paths'],
    value,
  }));
  return { dialect: MODEL_PATHS, entries };
}

/** Reads lines of a hostfile: 'machine-0 slots=8'. */
function hostfile(text: string, file: string): Source {
  const lines = text.split('\n').map((line) => line.replace(/#.*/, '').trim());
  const value = lines.filter((line) => line !== '');
  const line = lines.findIndex((each) => each !== '') + 1;
  return { dialect: HOSTFILE, entries: [{ file, line, key: 'hosts', path: ['hosts'], value }] };
}

function unknownFile(file: string): ConfigError {
  const forms = fileForms().filter(({ needs }) => needs === undefined);
  const names = forms.map(({ dialect }) => dialect.name).join(', ');
  return new ConfigError(
    `${file} has no settings of this library, ${names}, and it launches no training; name a file of one of these programs`,
    { file },
  );
}

/** A file's settings, and the lines of its keys. */
export type Located = Pick<LocatedText, 'input' | 'lineOf'> & Partial<Pick<LocatedText, 'plainOf'>>;

/** Reads TOML. Throws: CONFIG with file, line and column if the text is not TOML, and for a text that is nested too deep. */
function locatedToml(text: string, file: string): Located {
  try {
    return located(text, file);
  } catch (error) {
    // The parser and its readers are recursive, and the stack ends before a config does.
    if (!(error instanceof RangeError)) throw error;
    throw new ConfigError(`${file}: nested too deep; a config has fewer than 10 levels`, { file });
  }
}

function located(text: string, file: string): Located {
  const program = parsed(text, file);
  const [root] = program.body;
  const lines = new Map(root.body.flatMap((item) => linesOf(item, [])));
  return {
    input: getStaticTOMLValue(program),
    lineOf(path) {
      const key = path.join('.');
      const [, within] = [...lines].find(([name]) => name.startsWith(`${key}.`)) ?? [];
      return lines.get(key) ?? within ?? 1;
    },
  };
}

function parsed(text: string, file: string): AST.TOMLProgram {
  try {
    return parseTOML(text);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw new ConfigError(`${file}:${error.lineNumber}:${error.column + 1}: ${error.message}`, { file });
  }
}

/** Returns each key of a table or of a line, with the sections that contain the key, and the line number. */
function linesOf(
  item: AST.TOMLTable | AST.TOMLKeyValue,
  base: readonly string[],
): readonly (readonly [string, number])[] {
  const names = item.key.keys.map((key) => (key.type === 'TOMLBare' ? key.name : key.value));
  const path = [...base, ...names];
  const own = [path.join('.'), item.loc.start.line] as const;
  if (item.type === 'TOMLTable') return [own, ...item.body.flatMap((each) => linesOf(each, path))];
  const { value } = item;
  return value.type === 'TOMLInlineTable'
    ? [own, ...value.body.flatMap((each) => linesOf(each, path))]
    : [own];
}
