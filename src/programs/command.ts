import { ACCELERATE_LAUNCH } from './accelerate/accelerate';
import { readArguments } from './arguments';
import { SLURM, SLURM_SHORT, SLURM_WITH_LAUNCHER } from './launchers/environment';
import { TORCHRUN } from './launchers/torchrun';
import { MEGATRON } from './megatron/megatron';
import type { CommandForm, Refusal } from './registry/program';
import { commandForms, programs, scriptForms } from './registry/registry';
import { type KeyRow, type KeyTable, none, refused } from './rows/key-row';
import type { Dialect, LocatedKey, Source } from './rows/meant';
import { beginsWith, programOf } from './shell/program';
import type { Word } from './shell/word';
import { DEEPSPEED_ARGUMENTS } from './trainers/deepspeed-arguments';
import { isMegatronDeepSpeed, MEGATRON_DEEPSPEED } from './trainers/megatron-deepspeed';
import { TRAINER_DEFAULTS, TRANSFORMERS } from './trainers/transformers';
import { DIFFSYNTH } from './videos/diffsynth';
import { WAN } from './videos/wan';

/** The long names of launchers' one-letter options. */
const SHORT: Readonly<Record<string, string>> = {
  m: 'module',
  r: 'redirects',
  t: 'tee',
  h: 'help',
  q: 'quiet',
  H: 'hostfile',
  i: 'include',
  e: 'exclude',
};

/** Arguments that only scripts with transformers' Trainer have. */
const TRAINER_MARKS = [
  'per_device_train_batch_size',
  'per_device_eval_batch_size',
  'num_train_epochs',
  'max_steps',
  'lr_scheduler_type',
  'deepspeed',
  'fsdp',
];

/**
 * The dialect of an unknown script. Names of transformers' and DeepSpeed's arguments have their usual meaning; all other
 * arguments are the script's own.
 */
const OWN_SCRIPT: Dialect = {
  ...TRANSFORMERS,
  keys: { ...TRANSFORMERS.keys, ...DEEPSPEED_ARGUMENTS },
  hasOthers: true,
  usual: (other) =>
    TRAINER_MARKS.some((key) => other(key) !== undefined && !(key === 'deepspeed' && other(key) === true))
      ? TRAINER_DEFAULTS
      : null,
};

/** Words before a command that do not change what the command does. */
const PREFIXES = ['eval', 'exec', 'nohup', 'time', 'sudo', 'env', 'command'];

/** Programs that run the command after their own words: `uv run torchrun`, `timeout 1h torchrun`. */
const RUNNERS = [
  ...['uv', 'poetry', 'pdm', 'pixi', 'conda', 'mamba', 'micromamba', 'hatch'].map((name) => [name, 'run']),
  ...['timeout', 'nice', 'numactl', 'taskset', 'stdbuf', 'ionice', 'setsid', 'nsys', 'xvfb-run'].map(
    (name) => [name],
  ),
];

/** The parts of a command that trains. */
export interface Launch {
  /** The arguments of launchers and of the script. */
  readonly sources: readonly Source[];
  /** Whether a launcher on each machine starts the ranks. If so, Slurm's tasks are launchers, not ranks. */
  readonly hasLauncher: boolean;
  /** Whether the command chooses the number of its processes itself. */
  readonly choosesProcesses?: boolean;
}

/** Returns the parts of a command that trains; null if the command does not train. `file` is where its words were written. */
export function launchOf(command: readonly Word[], file: string): Launch | null {
  const words = withoutPythonFlags(command);
  const [first, ...others] = words;
  if (first === undefined) return null;
  const name = programOf(first.text);
  if (PREFIXES.includes(name) || /^\w+=/.test(first.text)) return launchOf(others, file);
  if (RUNNERS.some((start) => beginsWith(words, start))) return underRunner(others, file);
  if (name === 'srun' || name === 'mpirun' || name === 'mpiexec')
    return underScheduler(others, file, name === 'srun');
  const forms = commandForms();
  const refusal = refusalOf(words);
  if (refusal !== null) return { sources: [refusedSource(words, refusal, file)], hasLauncher: false };
  const trainer = forms.find((form) => form.isLauncher !== true && beginsWith(words, form.words));
  if (trainer !== undefined) return trainerLaunch(words.slice(trainer.words.length), trainer, file);
  const launcher = forms.find((form) => form.isLauncher === true && beginsWith(words, form.words));
  if (launcher !== undefined) {
    const { dialect } = launcher;
    const { entries, rest } = readArguments(words.slice(launcher.words.length), {
      file,
      keys: dialect.keys,
      short: SHORT,
      isLauncher: true,
      // Accelerate's parser forbids abbreviations.
      isAbbreviated: dialect !== ACCELERATE_LAUNCH,
    });
    const at = { file, line: first.line };
    return { sources: [{ dialect, entries, at }, ...scriptOf(rest, file)], hasLauncher: true };
  }
  if (!/^python[\d.]*$/.test(name) || !others.some(({ text }) => /\.py$/.test(text) || text === '-m'))
    return null;
  return { sources: scriptOf(others, file), hasLauncher: false };
}

/** Returns a command of Python without the interpreter's own options: python -u -m torch.distributed.launch. */
function withoutPythonFlags(words: readonly Word[]): readonly Word[] {
  const [first, ...others] = words;
  if (first === undefined || !/^python[\d.]*$/.test(programOf(first.text))) return words;
  const end = others.findIndex(({ text }) => !/^-[bBdEiIOPqsSuvx]+$/.test(text));
  return end <= 0 ? words : [first, ...others.slice(end)];
}

/** Returns the launch of a program that trains without a script; the words after '--' are for the launcher that the program starts. */
function trainerLaunch(
  words: readonly Word[],
  { dialect, choosesProcesses = false }: CommandForm,
  file: string,
): Launch {
  const at = words.findIndex(({ text }) => text === '--');
  const own = scriptSources(at < 0 ? words : words.slice(0, at), dialect, file);
  if (at < 0) return { sources: own, hasLauncher: false, choosesProcesses };
  const isAccelerate = words.slice(0, at).some(({ text }) => /^(--launcher=)?accelerate$/.test(text));
  const launcher = isAccelerate ? ACCELERATE_LAUNCH : TORCHRUN;
  const { entries } = readArguments(words.slice(at + 1), {
    file,
    keys: launcher.keys,
    short: SHORT,
    isLauncher: true,
  });
  const line = words[at]?.line ?? 1;
  return { sources: [{ dialect: launcher, entries, at: { file, line } }, ...own], hasLauncher: true };
}

/** Returns the launch that follows the words of another program; the launch begins at the first word that is a launcher. */
function underRunner(words: readonly Word[], file: string): Launch | null {
  const at = words.findIndex((_, index) => launchOf(words.slice(index), file) !== null);
  return at < 0 ? null : launchOf(words.slice(at), file);
}

function underScheduler(words: readonly Word[], file: string, isSlurm: boolean): Launch | null {
  const { entries, rest } = readArguments(words, {
    file,
    keys: SLURM.keys,
    short: SLURM_SHORT,
    isLauncher: true,
  });
  const launch = launchOf(rest, file);
  if (launch === null || !isSlurm) return launch;
  const dialect = launch.hasLauncher ? SLURM_WITH_LAUNCHER : SLURM;
  return { ...launch, sources: [{ dialect, entries }, ...launch.sources] };
}

/** Returns the arguments of a script; the script's name or its arguments decide the dialect. */
function scriptOf(words: readonly Word[], file: string): readonly Source[] {
  const [first, ...rest] = words;
  if (first === undefined) return [];
  if (WRONG_DASH.test(first.text)) return [wrongDash(first, file)];
  if (first.text === '-m') return scriptOf(rest, file);
  const dialect = dialectOf(first.text, rest);
  return 'why' in dialect
    ? [refusedSource(words, dialect, file)]
    : [callsSource(first, file), ...scriptSources(rest, dialect, file)];
}

/** Returns a script or a module as a source; its calls are read if the file exists. */
function callsSource({ text, line }: Word, file: string): Source {
  const script = text.endsWith('.py') ? text : `${text.replaceAll('.', '/')}.py`;
  const row: KeyRow = {
    ...none('a script of Python, whose calls are read too'),
    mean: () => ({ script, effect: 'used', why: 'its calls of PyTorch and Accelerate are read too' }),
  };
  const dialect: Dialect = { name: 'the command', keys: { [text]: row } };
  return { dialect, entries: [{ file, line, key: text, path: [text], value: text }] };
}

/** Dashes that editors put in place of hyphens. */
const WRONG_DASH = /^[\u2010-\u2015\u2212\uFF0D]/;

/** Returns a word with a typographic dash as an error: a launcher takes it for the name of the script. */
function wrongDash({ text, line }: Word, file: string): Source {
  const right = text.replace(/^[\u2010-\u2015\u2212\uFF0D-]+/, '--');
  const row: KeyRow = {
    ...none('a dash that is not a hyphen'),
    mean: () => ({
      effect: 'error',
      why: `begins with a dash that is not a hyphen, so the launcher takes it for the script's name, not for an argument; write ${right}`,
    }),
  };
  const dialect: Dialect = { name: 'the command', keys: { [text]: row } };
  return { dialect, entries: [{ file, line, key: text, path: [text], value: text }] };
}

/** Returns the arguments of a script. If the first argument is a file of settings, the file is a source of its own. */
function scriptSources(given: readonly Word[], dialect: Dialect, file: string): readonly Source[] {
  const words = given.filter(({ text }) => !PASSED.test(text));
  const [first, ...others] = words;
  const isFile = first !== undefined && /^[^-].*\.(ya?ml|json|toml)$/.test(first.text);
  const sources = isFile
    ? [fileSource(first, { file, isOwn: dialect === OWN_SCRIPT }), scriptSource(others, dialect, file)]
    : [scriptSource(words, dialect, file)];
  return [...sources.filter(({ entries }) => entries.length > 0), ...passedSources(given, file)];
}

/** Returns a file of settings as an argument. `isOwn` says that the script is unknown; its settings may be unknown too. */
function fileSource({ text, line }: Word, { file, isOwn }: { file: string; isOwn: boolean }): Source {
  const row: KeyRow = {
    ...none('a file of settings, which is read too'),
    mean: () => ({ file: text, effect: 'used', why: 'is read too', ...(isOwn && { unread: 'warning' }) }),
  };
  const dialect: Dialect = { name: 'the command', keys: { [text]: row } };
  return { dialect, entries: [{ file, line, key: text, path: [text], value: text }] };
}

/** The words with which a shell script passes its own arguments on. */
const PASSED = /^\$\{?[@*]/;

/** Returns the script's own arguments, which it passes on, as sources: their values are not in the script. */
function passedSources(words: readonly Word[], file: string): readonly Source[] {
  return words
    .filter(({ text }) => PASSED.test(text))
    .map(({ text, line }) => ({
      dialect: {
        name: 'the shell',
        keys: { [text]: none('passes on the arguments of this script, which are not known here') },
      },
      entries: [{ file, line, key: text, path: [text], value: null }],
    }));
}

function scriptSource(words: readonly Word[], dialect: Dialect, file: string): Source {
  const { entries } = readArguments(words, { file, keys: dialect.keys });
  if (dialect.namesSections !== true) return { dialect, entries };
  return { dialect, entries: entries.map((entry) => ({ ...entry, path: entry.path[0]?.split('.') ?? [] })) };
}

/**
 * Returns the dialect of a script's arguments, or why they are not read: by the forms of scripts, or else by the number of known
 * arguments.
 */
function dialectOf(script: string, words: readonly Word[]): Dialect | Refusal {
  const names = readArguments(words, { file: '', keys: {} }).entries.map(({ path }) => path[0] ?? '');
  for (const { fits } of scriptForms()) {
    const dialect = fits(script, names);
    if (dialect !== null) return dialect;
  }
  const megatron = isMegatronDeepSpeed(names) ? MEGATRON_DEEPSPEED : MEGATRON;
  const numKnown = ({ keys }: { readonly keys: KeyTable }): number =>
    names.filter((name) => Object.hasOwn(keys, name)).length;
  // The dialect must know most of the arguments. The script is another one than Megatron-LM's, so it may have arguments of its own.
  return [{ ...megatron, hasOthers: true }, WAN, DIFFSYNTH].reduce<Dialect>(
    (best, dialect) => (numKnown(dialect) > Math.max(numKnown(best), names.length / 2) ? dialect : best),
    OWN_SCRIPT,
  );
}

/** Whether words begin with a program that launches trainings. */
export function isLaunch(words: readonly string[]): boolean {
  return (
    launchOf(
      words.map((text) => ({ text, line: 1 })),
      '',
    ) !== null
  );
}

/** Returns the entries of Slurm's `#SBATCH` lines. */
export function slurmEntries(words: readonly Word[], file: string): readonly LocatedKey[] {
  return readArguments(words, { file, keys: SLURM.keys, short: SLURM_SHORT }).entries;
}

/** Returns why a command is refused; null if it is not refused. */
function refusalOf(words: readonly Word[]): Refusal | null {
  for (const { refuses } of programs()) {
    const refusal = refuses?.(words) ?? null;
    if (refusal !== null) return refusal;
  }
  return null;
}

/** Returns a source with one line, which says why a command is refused. */
function refusedSource(words: readonly Word[], { words: start, why }: Refusal, file: string): Source {
  const key = start.join(' ');
  const value = words
    .slice(start.length)
    .map(({ text }) => text)
    .join(' ');
  const line = words[0]?.line ?? 1;
  const dialect: Dialect = { name: key, keys: { [key]: refused(why, () => false) } };
  return { dialect, entries: [{ file, line, key, path: [key], value }] };
}
