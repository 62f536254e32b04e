import { FRAGMENTS, type Fragment, MODEL_PARTS, SETTING_ROWS } from '../../config';
import GLOSSARY from '../../config/terms.json';
import { KNOWN_GPUS, placeSchema } from '../../planner';
import { dialects, type Effect, placesOf, pythonCalls, rowOf } from '../../programs';

/** A name that a library, a program or a document uses. */
export interface Term {
  readonly name: string;
  /** Who has the name: 'torch.distributed.fsdp', 'DeepSpeed', 'shardlab', or a document. */
  readonly of: readonly string[];
  readonly says: string;
  /** What to write here, or why there is nothing to write. */
  readonly here: string;
  /** Code of a document, and how it ended on the original libraries. */
  readonly fragment?: Fragment;
}

/** Returns all names: those of the field, our settings, the documents' code, and the keys of the programs that are read. */
export function allTerms(): readonly Term[] {
  return [...glossary(), ...settings(), ...places(), ...FRAGMENTS.map(ofFragment), ...programs()];
}

/** Names of the field by who has them: meaning and what to write here, or another name of the same group with this meaning. */
type Glossary = Readonly<Record<string, Readonly<Record<string, readonly string[] | string>>>>;

function glossary(): Term[] {
  return Object.entries(GLOSSARY as Glossary).flatMap(([of, terms]) =>
    Object.entries(terms).map(([name, meaning]) => {
      const [says = '', here = ''] = typeof meaning === 'string' ? (terms[meaning] ?? []) : meaning;
      return { name, of: [of], says, here };
    }),
  );
}

/** Returns the keys of a plan's place, and the kinds of GPU. */
function places(): Term[] {
  const of = ['shardlab'];
  const keys = Object.keys(placeSchema.shape).map((name) => ({
    name,
    of,
    says: "a key of a plan's place: the GPUs, and how the programs there compute",
    here: `sl.plan(config, { ${name}: … }), or beside the config's keys`,
  }));
  const gpus = Object.entries(KNOWN_GPUS).flatMap(([name, { tflops, memoryGB }]) =>
    [...new Set([name, name.replace(/-.*/, '')])].map((word) => ({
      name: word,
      of,
      says: `a GPU with ${memoryGB} GB and ${tflops} TFLOP/s in 16 bits`,
      here: `sl.plan(config, { on: '${name}' })`,
    })),
  );
  return [...keys, ...gpus];
}

/** Returns our settings, and the names that PyTorch and FairScale have for them; the tables of programs have the programs' names. */
function settings(): Term[] {
  const parts = Object.entries(MODEL_PARTS).map(([key, part]) => ({ ...part, path: `model.${key}` }));
  const own = [...SETTING_ROWS, ...parts].map(({ path, says, form }) => ({
    name: path,
    of: ['shardlab'],
    says,
    here: form ?? `the setting ${path}`,
  }));
  const elsewhere = SETTING_ROWS.flatMap(({ path, says, names = {} }) =>
    Object.entries(CALLS).flatMap(([original, of]) =>
      [names[original as keyof typeof CALLS] ?? []]
        .flat()
        .map((name) => ({ name, of: [of], says, here: path })),
    ),
  );
  return [...own, ...elsewhere];
}

/** Places whose names of settings are arguments of calls, and whom they belong to. */
const CALLS = { torch: 'torch', fsdp: 'FSDP', fairScale: 'FairScale' } as const;

function ofFragment(fragment: Fragment): Term {
  const { name, document, asWritten, inTheOriginal, here } = fragment;
  return { name, of: [document], says: inTheOriginal === '' ? asWritten : inTheOriginal, here, fragment };
}

const EFFECTS: Readonly<Record<Exclude<Effect, 'error'>, string>> = {
  used: 'it is used',
  planned: 'only plans use it',
  exported: "it is for the program's own launcher",
  none: 'it has no effect',
  warning: 'it is read with a warning',
  refused: 'it is refused',
};

/** Returns the keys of all programs. Programs that give a key the same meaning share a term. */
function programs(): Term[] {
  const terms = new Map<string, Term>();
  for (const { name: program, keys } of dialects()) {
    for (const name of placesOf(keys)) {
      const row = rowOf(keys, name);
      if (row === null || row.parts !== undefined) continue;
      const [says, here] =
        row.effect === null || row.effect === 'error'
          ? [saysOf(row.says), row.says]
          : [row.says, EFFECTS[row.effect]];
      const own = keys === pythonCalls().keys ? argumentOf(name) : { name, of: program };
      const id = JSON.stringify([own.name, says, here]);
      terms.set(id, { name: own.name, of: [...(terms.get(id)?.of ?? []), own.of], says, here });
    }
  }
  return [...terms.values()];
}

/** Returns an argument of a call, 'TrainingArguments.learning_rate', as a name of the class or function. */
function argumentOf(path: string): { readonly name: string; readonly of: string } {
  const [call = '', ...argument] = path.split('.');
  return argument.length === 0 ? { name: call, of: 'Python' } : { name: argument.join('.'), of: call };
}

/** Returns the meaning of settings, which are given by their paths. */
function saysOf(paths: string): string {
  const row = SETTING_ROWS.find(({ path }) => path === paths);
  return row?.says ?? paths;
}
