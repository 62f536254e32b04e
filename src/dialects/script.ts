import { nearest } from '../config/nearest';
import { scalarOf } from './arguments';
import { launchOf, slurmEntries } from './command';
import { ENVIRONMENT, SLURM, SLURM_WITH_LAUNCHER } from './launchers/environment';
import { type KeyTable, none, warned } from './rows/key-row';
import type { Dialect, LocatedKey, Source } from './rows/meant';
import { readShell } from './shell/script';
import type { Variables, Word } from './shell/word';

/** A command of a script that trains, with all that comes before it. */
export interface ScriptLaunch {
  readonly sources: readonly Source[];
  /** The line of the command; null: the script only sets the environment. */
  readonly line: number | null;
}

/** Returns the launches of a shell script: its commands that train, each with the environment and the Slurm options that it has. */
export function scriptLaunches(text: string, file: string): readonly ScriptLaunch[] {
  const script = readShell(text);
  const variables: Variables = new Map();
  const before: Source[] = [];
  const launches: ScriptLaunch[] = [];
  const slurm = slurmEntries(script.slurm, file);
  for (const [name, value] of slurmVariables(slurm)) variables.set(name, [{ text: value, line: 1 }]);
  for (let words = script.next(variables); words !== null; words = script.next(variables)) {
    const [first] = words;
    if (first === undefined) continue;
    const { environment, command } = withoutAssignments(words, variables, file);
    const launch = launchOf(command, file);
    if (launch === null) {
      before.push(...environment);
      if (command.length > 0) before.push(otherCommand(command, file));
      continue;
    }
    const options =
      slurm.length === 0
        ? []
        : [{ dialect: launch.hasLauncher ? SLURM_WITH_LAUNCHER : SLURM, entries: slurm }];
    launches.push({ sources: [...options, ...before, ...environment, ...launch.sources], line: first.line });
  }
  if (launches.length > 0) return launches;
  return [
    { sources: [...(slurm.length === 0 ? [] : [{ dialect: SLURM, entries: slurm }]), ...before], line: null },
  ];
}

/** The variables that Slurm sets in a job, from its options. */
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

/** Takes assignments off a command, and stores them: those of `export` and those before a command are the environment's. */
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

/** Returns a variable as a source of its own: names that nobody knows are the script's own, unless they look misspelled. */
function environmentSource(entry: LocatedKey): Source {
  const { key } = entry;
  if (Object.hasOwn(ENVIRONMENT.keys, key)) return { dialect: ENVIRONMENT, entries: [entry] };
  const near = /^(NCCL|TORCH_NCCL|GLOO)_/.test(key) ? nearest(key, Object.keys(ENVIRONMENT.keys)) : undefined;
  const row =
    near === undefined ? none('a variable of the script') : warned(`is not known; did you mean ${near}?`);
  return { dialect: { name: ENVIRONMENT.name, keys: { [key]: row } }, entries: [entry] };
}

const SHELL_WHY = "is the shell's own, and is not run: only launches, exports and #SBATCH lines are settings";
const BRANCH_WHY =
  'is set by an earlier branch of the same if, too; conditions are not evaluated, and the first one is read';

/** Returns a command that does not train. */
function otherCommand(words: readonly Word[], file: string): Source {
  const [first] = words;
  const name = first?.text ?? '';
  const keys: KeyTable = { [name]: none(name === 'else' ? BRANCH_WHY : SHELL_WHY) };
  const value = words
    .slice(1)
    .map(({ text }) => text)
    .join(' ');
  const dialect: Dialect = { name: 'the shell', keys };
  return { dialect, entries: [{ file, line: first?.line ?? 1, key: name, path: [name], value }] };
}
