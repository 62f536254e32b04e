import { nearest } from '../config';
import { ownValue } from '../core';
import { scalarOf } from './arguments';
import { isLaunch, type Launch, launchOf, slurmEntries } from './command';
import { ENVIRONMENT, SLURM, SLURM_WITH_LAUNCHER } from './launchers/environment';
import { type HandOver, handOverOf } from './registry/hand-over';
import { type KeyRow, none, place, warned } from './rows/key-row';
import type { Dialect, LocatedKey, Source } from './rows/meant';
import { requireFew } from './shell/limits';
import { programOf } from './shell/program';
import { readShell, type WrittenFile } from './shell/script';
import { NOTES } from './shell/statement';
import type { Variables, Word } from './shell/word';

/** A command of a script that trains, with the settings that come before it. */
export interface ScriptLaunch {
  readonly sources: readonly Source[];
  /** Whether the script trains nothing, but has a command that comes before or after a training: vllm serve. */
  readonly isHandOver?: boolean;
  /** The line of the command; null if the script only sets the environment. */
  readonly line: number | null;
  /** Files that the script writes before the command. */
  readonly written?: WrittenFiles;
}

/** Files that a script writes itself, by their names. */
export interface WrittenFiles {
  /** The name of the script that writes the files. */
  readonly by: string;
  readonly files: ReadonlyMap<string, WrittenFile>;
}

/** Returns the launches of a shell script: its commands that train, each with the environment and the Slurm options that it has. */
export function scriptLaunches(text: string, file: string): readonly ScriptLaunch[] {
  const script = readShell(text, file);
  const variables: Variables = new Map();
  const before: Source[] = [];
  const launches: ScriptLaunch[] = [];
  let isHandOver = false;
  const slurm = slurmEntries(script.slurm, file);
  for (const [name, value] of slurmVariables(slurm)) variables.set(name, [{ text: value, line: 1 }]);
  const read = (words: readonly Word[]): void => {
    const { environment, command } = withoutAssignments(words, variables, file);
    const isOther = handOverOf(command) !== undefined;
    isHandOver ||= isOther;
    const launch = isOther ? null : launchOf(command, file);
    if (launch === null) {
      for (const source of environment) before.push(source);
      if (command.length > 0) before.push(otherCommand(command, file, script.files));
      return;
    }
    const options =
      slurm.length === 0
        ? []
        : [{ dialect: launch.hasLauncher ? SLURM_WITH_LAUNCHER : SLURM, entries: slurm }];
    const { line = 1 } = words[0] ?? {};
    const sources = [
      ...options,
      ...before,
      ...environment,
      ...oneProcess(launch, [...before, ...environment]),
      ...launch.sources,
    ];
    requireFew(launches.length + 1, 'launches', `${file}: a script`, file);
    launches.push({ sources, line, written: { by: file, files: new Map(script.files) } });
  };
  for (let words = script.next(variables); words !== null; words = script.next(variables)) {
    const inner = innerCommands(words, variables, file);
    if (inner === null) read(words);
    else for (const command of inner) read(command);
  }
  if (launches.length > 0) return launches;
  const options = slurm.length === 0 ? [] : [{ dialect: SLURM, entries: slurm }];
  return [{ sources: [...options, ...before], line: null, isHandOver }];
}

/**
 * Returns the number of ranks of a trainer's command that sees one GPU and does not state a number of processes: swift then starts
 * one process. Source: ms-swift's swift/cli/main.py, which starts torchrun only with NPROC_PER_NODE or NNODES.
 */
function oneProcess(
  { choosesProcesses, sources }: Launch,
  environment: readonly Source[],
): readonly Source[] {
  const given = (name: string): unknown =>
    environment.flatMap(({ entries }) => entries).findLast(({ key }) => key === name)?.value;
  const [at] = sources;
  const isOne = /^\d+$/.test(String(given('CUDA_VISIBLE_DEVICES')));
  if (
    choosesProcesses !== true ||
    !isOne ||
    at === undefined ||
    given('NPROC_PER_NODE') !== undefined ||
    given('NNODES') !== undefined
  )
    return [];
  const { file = '', line = 1 } = at.entries[0] ?? at.at ?? {};
  const entry = { file, line, key: '(one visible GPU)', path: ['processes'], value: 1 };
  const row = place('one process, because one GPU is visible and NPROC_PER_NODE is not given', () => ({
    world: 1,
  }));
  return [{ dialect: { name: ENVIRONMENT.name, keys: { processes: row } }, entries: [entry] }];
}

/**
 * Returns the commands in the text of `bash -c 'COMMAND; COMMAND'` or `eval "COMMAND"`; null if the words have no such text. A
 * command that launches a training is returned with the words before bash (`srun --label`).
 */
function innerCommands(
  words: readonly Word[],
  variables: Variables,
  file: string,
): readonly (readonly Word[])[] | null {
  const [first, only, ...more] = words;
  if (first?.text === 'eval' && only !== undefined && isShellText(only, more)) {
    const text = [only, ...more].map((word) => word.text).join(' ');
    return innerCommands(
      [
        { ...first, text: 'bash' },
        { ...only, text: '-c' },
        { ...only, text },
      ],
      variables,
      file,
    );
  }
  const at = words.findIndex(
    ({ text }, index) =>
      /^(bash|sh|zsh)$/.test(programOf(text)) && /^-[a-z]*c$/.test(words[index + 1]?.text ?? ''),
  );
  const script = at < 0 ? undefined : words[at + 2];
  if (script === undefined) return null;
  const inner = readShell(script.text, file);
  const commands: (readonly Word[])[] = [];
  for (let each = inner.next(variables); each !== null; each = inner.next(variables)) {
    const own = each.map((word) => ({ ...word, line: script.line + word.line - 1 }));
    commands.push(isLaunch(own.map(({ text }) => text)) ? [...words.slice(0, at), ...own] : own);
  }
  return commands;
}

/** Whether the words of an `eval` are a text of several words, or have signs with which a shell ends or redirects a command. */
function isShellText(first: Word, more: readonly Word[]): boolean {
  return more.length === 0
    ? /\s/.test(first.text)
    : [first, ...more].some(({ text }) => /[;&|<>]/.test(text));
}

/** Returns the variables that Slurm sets in a job with these options. */
function slurmVariables(entries: readonly LocatedKey[]): readonly (readonly [string, string])[] {
  const given = (key: string): string | undefined => {
    const value = entries.find(({ path }) => path[0] === key)?.value;
    return value === undefined ? undefined : /\d+$/.exec(String(value))?.[0];
  };
  const names: Readonly<Record<string, string | undefined>> = {
    SLURM_NNODES: given('nodes'),
    SLURM_JOB_NUM_NODES: given('nodes'),
    SLURM_NTASKS_PER_NODE: given('ntasks_per_node'),
    SLURM_GPUS_ON_NODE: given('gpus_per_node') ?? given('gres'),
    SLURM_GPUS_PER_NODE: given('gpus_per_node') ?? given('gres'),
  };
  return Object.entries(names).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
}

/**
 * Removes assignments from a command, and stores the values. Assignments by `export` and before a command belong to the
 * environment.
 */
function withoutAssignments(words: readonly Word[], variables: Variables, file: string) {
  const isExport = words[0]?.text === 'export';
  const rest = isExport ? words.slice(1) : words;
  const end = rest.findIndex(({ text }) => !/^\w+\+?=/.test(text));
  const count = end < 0 ? rest.length : end;
  const assigned = rest.slice(0, isExport ? undefined : count);
  const command = isExport ? [] : rest.slice(count);
  const entries = assigned.flatMap(({ text, line }): LocatedKey[] => {
    const [, name = text, sign, given] = /^(\w+)(\+?)=([\s\S]*)$/.exec(text) ?? [];
    const before = variables
      .get(name)
      ?.map((word) => word.text)
      .join(' ');
    const value = sign === '+' ? `${before ?? ''}${given}` : given;
    const known = value ?? before;
    if (value !== undefined) variables.set(name, [{ text: value, line }]);
    const isSeen = isExport || command.length > 0;
    return isSeen && known !== undefined
      ? [{ file, line, key: name, path: [name], value: scalarOf(known) }]
      : [];
  });
  return { environment: entries.map((entry) => environmentSource(entry)), command };
}

/** Returns a variable as a source of its own. Unknown names belong to the script, unless they look misspelled. */
function environmentSource(entry: LocatedKey): Source {
  const { key } = entry;
  if (Object.hasOwn(ENVIRONMENT.keys, key)) return { dialect: ENVIRONMENT, entries: [entry] };
  const near = /^(NCCL|TORCH_NCCL|GLOO)_/.test(key) ? nearest(key, Object.keys(ENVIRONMENT.keys)) : undefined;
  const row =
    near === undefined ? none('a variable of the script') : warned(`is not known; did you mean ${near}?`);
  return { dialect: { name: ENVIRONMENT.name, keys: { [key]: row } }, entries: [entry] };
}

const SHELL_WHY =
  'does not launch a training, and is not run: only launches, exports and #SBATCH lines are settings';

/** Rows for parts of a script that are not commands, by the names in NOTES. */
const NOTE_ROWS: Readonly<Record<string, KeyRow>> = {
  [NOTES.branch]: none(
    'is also set by an earlier branch of the same if, whose condition is not known here; the first branch is read',
  ),
  [NOTES.condition]: none('compares known values, so only the branch that runs is read'),
  [NOTES.quote]: warned('is never closed, so all text after it is one word; close the quote'),
  [NOTES.continuation]: warned(
    'is followed by blanks, so the command ends here and its next line is not read; delete the blanks',
  ),
};

/** Returns a command that does not train. */
function otherCommand(words: readonly Word[], file: string, files: ReadonlyMap<string, WrittenFile>): Source {
  const handOver = handOverOf(words);
  if (handOver !== undefined) return handOverSource(words, handOver, file);
  const [first, second] = words;
  const name = first?.text ?? '';
  const called = calledScript(name, second?.text);
  const [made] = [...files].find(([, { line }]) => line === first?.line) ?? [];
  const why =
    made !== undefined
      ? `writes ${made}, which is read if a launch names it`
      : called === null
        ? SHELL_WHY
        : calledWhy(called);
  const row = ownValue(NOTE_ROWS, name) ?? none(why);
  const dialect: Dialect = { name: 'the shell', keys: { [name]: row } };
  return { dialect, entries: [commandEntry(words, 1, file)] };
}

/** Returns a command that comes before or after a training, with what its program needs of a training. */
function handOverSource(
  words: readonly Word[],
  { program, words: start, why }: HandOver,
  file: string,
): Source {
  const entry = commandEntry(words, start.length, file);
  const dialect: Dialect = { name: program, keys: { [entry.key]: none(why) } };
  return { dialect, entries: [entry] };
}

/** Returns a whole command as one key, its first `length` words, with the other words as the value. */
function commandEntry(words: readonly Word[], length: number, file: string): LocatedKey {
  const textOf = (part: readonly Word[]): string => part.map(({ text }) => text).join(' ');
  const key = textOf(words.slice(0, length));
  return { file, line: words[0]?.line ?? 1, key, path: [key], value: textOf(words.slice(length)) };
}

/** Returns the script that a command runs or reads; null if there is no such script. */
function calledScript(name: string, first: string | undefined): string | null {
  if (/\.(sh|bash)$/.test(name)) return name;
  const isShell = ['bash', 'sh', 'zsh', 'source', '.', 'sbatch'].includes(programOf(name));
  return isShell && first !== undefined && !first.startsWith('-') ? first : null;
}

function calledWhy(script: string): string {
  return `runs another script, which is not read; to read the launches of that script: shardlab read ${script}`;
}

/** Returns the scripts that a script calls. */
export function calledScripts(sources: readonly Source[]): readonly string[] {
  return sources.flatMap(({ entries }) =>
    entries.flatMap(({ key, value }) => calledScript(key, String(value).split(' ')[0]) ?? []),
  );
}
