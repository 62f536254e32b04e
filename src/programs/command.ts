import { ACCELERATE_LAUNCH } from './accelerate/accelerate';
import { readArguments } from './arguments';
import { SLURM, SLURM_SHORT, SLURM_WITH_LAUNCHER } from './launchers/environment';
import { DEEPSPEED_LAUNCHER, TORCHRUN } from './launchers/torchrun';
import { MEGATRON } from './megatron/megatron';
import { refusalOf, refusedScript, refusedSource } from './refused-commands';
import { type KeyRow, type KeyTable, none } from './rows/key-row';
import type { Dialect, LocatedKey, Source } from './rows/meant';
import { beginsWith, programOf } from './shell/program';
import type { Word } from './shell/word';
import { AXOLOTL } from './trainers/axolotl';
import { DEEPSPEED_ARGUMENTS } from './trainers/deepspeed-arguments';
import { LLAMA_FACTORY } from './trainers/llama-factory';
import { isMegatronDeepSpeed, MEGATRON_DEEPSPEED } from './trainers/megatron-deepspeed';
import { MEGATRON_SWIFT, MEGATRON_SWIFT_PT } from './trainers/megatron-swift';
import { SWIFT, SWIFT_PT } from './trainers/swift';
import { TORCHTITAN } from './trainers/torchtitan';
import { TRAINER_DEFAULTS, TRANSFORMERS } from './trainers/transformers';
import { TRL, TRL_SCRIPT } from './trainers/trl';
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

/** A launcher: the words that call it, and the dialect of its arguments. The words after the arguments belong to a script. */
interface Launcher {
  readonly words: readonly string[];
  readonly dialect: Dialect;
}

const LAUNCHERS: readonly Launcher[] = [
  { words: ['torchrun'], dialect: TORCHRUN },
  { words: ['python', '-m', 'torch.distributed.run'], dialect: TORCHRUN },
  { words: ['python', '-m', 'torch.distributed.launch'], dialect: TORCHRUN },
  { words: ['accelerate', 'launch'], dialect: ACCELERATE_LAUNCH },
  { words: ['accelerate-launch'], dialect: ACCELERATE_LAUNCH },
  { words: ['python', '-m', 'accelerate.commands.launch'], dialect: ACCELERATE_LAUNCH },
  { words: ['deepspeed'], dialect: DEEPSPEED_LAUNCHER },
];

/** Commands that train without a script. */
const TRAINERS: readonly Launcher[] = [
  { words: ['swift', 'sft'], dialect: SWIFT },
  { words: ['swift', 'pt'], dialect: SWIFT_PT },
  { words: ['megatron', 'sft'], dialect: MEGATRON_SWIFT },
  { words: ['megatron', 'pt'], dialect: MEGATRON_SWIFT_PT },
  { words: ['llamafactory-cli', 'train'], dialect: LLAMA_FACTORY },
  { words: ['axolotl', 'train'], dialect: AXOLOTL },
  { words: ['trl', 'sft'], dialect: TRL },
];

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
  /** Whether it is a command of swift, which chooses the number of its processes itself. */
  readonly isTrainer?: boolean;
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
  const trainer = TRAINERS.find((one) => beginsWith(words, one.words));
  if (trainer !== undefined) return trainerLaunch(words.slice(trainer.words.length), trainer.dialect, file);
  const refusal = refusalOf(words);
  if (refusal !== null) return { sources: [refusedSource(words, refusal, file)], hasLauncher: false };
  const launcher = LAUNCHERS.find((one) => beginsWith(words, one.words));
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

/** Returns the launch of a program that trains without a script; Axolotl gives the words after '--' to its launcher. */
function trainerLaunch(words: readonly Word[], dialect: Dialect, file: string): Launch {
  const at = words.findIndex(({ text }) => text === '--');
  const own = scriptSources(at < 0 ? words : words.slice(0, at), dialect, file);
  if (at < 0) return { sources: own, hasLauncher: false, isTrainer: /swift/.test(dialect.name) };
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
  const isPreferences = dialect === TRL_SCRIPT || /swift\/cli\//.test(first.text);
  const refusal = isPreferences ? refusedScript(first.text) : null;
  if (refusal !== null) return [refusedSource(words, refusal, file)];
  return [callsSource(first, file), ...scriptSources(rest, dialect, file)];
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
  if (dialect !== TORCHTITAN) return { dialect, entries };
  // TorchTitan's arguments name sections too: --training.steps.
  return { dialect, entries: entries.map((entry) => ({ ...entry, path: entry.path[0]?.split('.') ?? [] })) };
}

/** Whether an argument has a name like the arguments of TorchTitan: 'training.steps'. */
function isTorchTitan(name: string): boolean {
  const [section = '', key] = name.split('.');
  return key !== undefined && Object.hasOwn(TORCHTITAN.keys, section);
}

/** Returns the dialect of a script: by its name, by arguments that only one dialect has, or by the number of known arguments. */
function dialectOf(script: string, words: readonly Word[]): Dialect {
  if (/axolotl[./]cli[./]train/.test(script)) return AXOLOTL;
  if (/swift\/cli\/(_megatron\/)?(sft|pt|main)\.py$/.test(script))
    return script.includes('_megatron/') ? MEGATRON_SWIFT : SWIFT;
  const names = readArguments(words, { file: '', keys: {} }).entries.map(({ path }) => path[0] ?? '');
  const megatron = isMegatronDeepSpeed(names) ? MEGATRON_DEEPSPEED : MEGATRON;
  if (/pretrain_\w+\.py$/.test(script)) return megatron;
  const known = ({ keys }: { readonly keys: KeyTable }): number =>
    names.filter((name) => Object.hasOwn(keys, name)).length;
  if (/torchtitan[./]train/.test(script) || names.some((name) => isTorchTitan(name))) return TORCHTITAN;
  const isOf = (dialect: Dialect, ...marks: string[]): boolean =>
    marks.some((mark) => names.includes(mark) && Object.hasOwn(dialect.keys, mark));
  if (isOf(DIFFSYNTH, 'model_paths', 'model_id_with_origin_paths', 'dataset_base_path')) return DIFFSYNTH;
  if (isOf(WAN, 'dit_fsdp', 't5_fsdp', 'ulysses_size', 'ckpt_dir')) return WAN;
  if (isOf(LLAMA_FACTORY, 'finetuning_type', 'cutoff_len', 'lora_target', 'stage')) return LLAMA_FACTORY;
  if (/(^|\/)trl\//.test(script) || isOf(TRL, 'use_peft', 'assistant_only_loss', 'dataset_text_field'))
    return TRL_SCRIPT;
  // The dialect must know most of the arguments. The script is another one than Megatron-LM's, so it may have arguments of its own.
  return [{ ...megatron, hasOthers: true }, WAN, DIFFSYNTH].reduce<Dialect>(
    (best, one) => (known(one) > Math.max(known(best), names.length / 2) ? one : best),
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
