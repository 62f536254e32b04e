import type { Target } from '../export/target';
import type { KeyTable } from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import type { Word } from '../shell/word';

/**
 * [Note: programs] A program whose settings are read, or for which exports are written. Code that reads and writes asks the registry, and
 * never names a program of `src/extras`: such a program registers itself when that folder is loaded (registry.ts).
 */
export interface Program {
  /** The program's name in messages. */
  readonly name: string;
  /** The place of the program's tables and calls among those of all programs: lower numbers come first. */
  readonly order: number;
  /** The tables of keys, each of which is a way in which the program writes its settings. */
  readonly keys: readonly Dialect[];
  /** The forms of its files. */
  readonly files?: readonly FileForm[];
  /** The commands that start its launcher or its trainer. */
  readonly commands?: readonly CommandForm[];
  /** The scripts that have its arguments. */
  readonly scripts?: readonly ScriptForm[];
  /** The calls in a script of Python that make its settings. */
  readonly calls?: CallForm;
  /** Returns a command that is not read, because it trains in a way that is not built here; null for other commands. */
  readonly refuses?: (words: readonly Word[]) => Refusal | null;
  /** The targets of exports by their names in `--to`. */
  readonly write?: Readonly<Record<string, Target>>;
}

/** A form of files of settings. The form that knows most of a file's keys reads the file. */
export interface FileForm {
  readonly dialect: Dialect;
  /** Of forms that know equally many keys of a file, the one with the lowest number reads the file. */
  readonly order: number;
  /** Whether the help of `shardlab read` names the program. */
  readonly isUsual?: boolean;
  /** Whether the program's files are TOML, which only such forms read. */
  readonly isToml?: boolean;
  /** Sections that no other program has at the top: a file with two of them is of this form. */
  readonly sections?: readonly string[];
  /** Keys of which a file must have one, because other kinds of files have the same keys for sizes. */
  readonly needs?: readonly string[];
}

/** A command of a launcher, whose arguments are followed by a script, or of a trainer, which has no script. */
export interface CommandForm {
  /** The words with which the command begins. */
  readonly words: readonly string[];
  readonly dialect: Dialect;
  readonly isLauncher?: boolean;
  /** Whether the command chooses the number of its processes itself. */
  readonly choosesProcesses?: boolean;
}

/** A form of scripts that are started by a launcher or by Python. */
export interface ScriptForm {
  /** The forms are tried in the order of these numbers. */
  readonly order: number;
  /** Returns the dialect of a script's arguments, of which `names` are the names, or why they are not read; null if the script is not of this form. */
  readonly fits: (script: string, names: readonly string[]) => Dialect | Refusal | null;
}

/** Calls that make a program's settings. */
export interface CallForm {
  /** The module that has the functions. */
  readonly module: string;
  /** A row per function; the first one stands for all in messages. */
  readonly functions: KeyTable;
}

/** A command for a kind of training that is not built here, and the reason; its arguments are not read one by one. */
export interface Refusal {
  /** The words with which the command begins. */
  readonly words: readonly string[];
  readonly why: string;
}
