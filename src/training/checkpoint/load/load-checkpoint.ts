import fs from 'node:fs';
import { join } from 'node:path';
import { type Bytes, errorJson, linkTarget, readRegularFile, ShardlabError } from '../../../core';
import type { Parameter } from '../../../nn';
import { requireGroups, setRates } from '../../../sharding';
import { folderToRead } from '../format/checkpoint-folder';
import { markIn, STATE_FILE } from '../format/checkpoint-mark';
import { type CheckpointState, NOTHING_WRITTEN, parseCheckpointState } from '../format/checkpoint-state';
import { fileError } from '../format/file-system';
import { stateKey } from '../save/save-plan';
import { agree, exchange, type RankFailure, requireSuccess } from '../state/agreement';
import { wholeShapeOf } from '../state/parts';
import { buffersOf, heldRanges } from '../state/placement';
import { asStored, VALUES } from '../state/state-access';
import { accessOf, hasStates, type TrainingState } from '../state/training-state';
import { type Catalog, openCatalog } from './catalog';
import { type FitFacts, requireFit } from './fit';
import { checksumsOf, type ReadTally, StretchReader } from './stretch-reader';

/** The result of a load. */
export interface LoadedCheckpoint extends ReadTally {
  /** The folder that was read: the requested folder, or a complete checkpoint that a killed save left beside it. */
  readonly folder: string;
  /** The checkpoint's description; null if shardlab did not save the checkpoint. */
  readonly state: CheckpointState | null;
}

const NAME = 'loadCheckpoint()';

/** Bytes of one value in memory. */
const ITEM_BYTES = 4;

/** Functions that a load calls while it runs. */
export interface LoadListener {
  /** Gets the checkpoint's description; may throw to refuse the checkpoint. */
  readonly accept?: (saved: CheckpointState | null) => void;
  /** Gets the number of bytes that this rank has loaded so far, and the total. */
  readonly progress?: (done: Bytes, total: Bytes) => void;
}

/** A checkpoint whose arrays fit the model and the optimizer; no values are loaded yet. */
interface Fitting {
  readonly folder: string;
  readonly saved: CheckpointState | null;
  readonly model: Catalog;
  readonly moments: Catalog | null;
  /** The parameters that were frozen at the save and of which the checkpoint has optimizer states. */
  readonly updatedFrozen: readonly string[];
  readonly reader: StretchReader;
}

/**
 * Loads a checkpoint into a model and its optimizer; any world and strategy may have saved it. All ranks call this function.
 * Each rank reads only its own ranges, block by block. Throws the error of one rank on every rank: IO, with file, tensor and
 * offset; SHAPE, with every parameter that does not fit. No rank changes its state before all ranks know that the checkpoint
 * fits; errors up to this point have `nothingWritten` in their details. If a load finds a damaged block after this point, a
 * part of the state is already new.
 */
export function loadCheckpoint(
  state: TrainingState,
  source: string,
  { accept, progress }: LoadListener = {},
): LoadedCheckpoint {
  const catalogs: Catalog[] = [];
  const open = (folder: string): Fitting => {
    for (const catalog of catalogs.splice(0)) catalog.close();
    const fitting = findFitting(state, folder, (catalog) => {
      catalogs.push(catalog);
      return catalog;
    });
    accept?.(fitting.saved);
    return fitting;
  };
  try {
    const fitting = openSame(state, linkTarget(source), open);
    const { value, outcome } = attempt(() => take(state, fitting, progress));
    agree(state, NAME, outcome);
    return required(value);
  } finally {
    for (const catalog of catalogs) catalog.close();
  }
}

/** The most attempts to open a checkpoint that other processes replace meanwhile. */
const MOST_ATTEMPTS = 20;

/**
 * [Note: a checkpoint that is replaced while it is read] Another process may save into the folder between two files that a rank
 * opens, or between two ranks. So a rank reads the checkpoint's id before it opens the files and again after it. If the ids of
 * all ranks are equal, all files are of one checkpoint, and open files do not change. Otherwise, all ranks open the files again.
 */
function openSame(state: TrainingState, folder: string, open: (folder: string) => Fitting): Fitting {
  for (let attempts = 0; attempts < MOST_ATTEMPTS; attempts++) {
    const before = idIn(folder);
    const { value, outcome } = attempt(() => open(folder));
    const after = idIn(folder);
    const all = exchange(state, NAME, { outcome, ids: [before, after] });
    if (new Set(all.flatMap(({ ids }) => ids)).size > 1) continue;
    requireSuccess(
      state,
      all.map(({ outcome: met }) => met && { ...met, details: { ...met.details, [NOTHING_WRITTEN]: true } }),
    );
    return required(value);
  }
  throw new ShardlabError(
    'IO',
    `the ranks found different checkpoints in ${folder} each time: another program saves there, so wait for its end, or the ranks do not see the same files`,
    { details: { file: folder, [NOTHING_WRITTEN]: true } },
  );
}

/** Returns the id of the checkpoint in a folder; null if there is none, or a checkpoint of another program. */
function idIn(folder: string): string | null {
  try {
    return markIn(folderToRead(fs, folder))?.id ?? null;
  } catch {
    return null;
  }
}

/** Runs `work`; returns its value, or its error as an outcome. */
function attempt<T>(work: () => T): { readonly value?: T; readonly outcome: RankFailure } {
  try {
    return { value: work(), outcome: null };
  } catch (error) {
    return { outcome: errorJson(error) };
  }
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new ShardlabError('INTERNAL', `${NAME} has no result and no error`);
  return value;
}

/** Opens a checkpoint and checks that its names and shapes equal those of the model and the optimizer. Throws: IO, SHAPE. */
function findFitting(state: TrainingState, source: string, opened: (catalog: Catalog) => Catalog): Fitting {
  const folder = folderToRead(fs, source);
  const saved = savedState(folder);
  const { optimizer } = state;
  const named = [...state.model.namedState()];
  const model = opened(openCatalog(folder, 'model'));
  const shapes = named.map(([name, parameter]) => [name, wholeShapeOf(parameter)] as const);
  requireFit(`${folder} does not fit the model`, new Map(shapes), model.arrays, factsOf(model));
  const states = optimizer?.stateNames ?? [];
  if (optimizer !== null && saved?.optimizer == null) {
    throw fileError(
      `${folder} has no optimizer states, so training cannot continue from it; load it without an optimizer (parameters only)`,
      { file: folder },
    );
  }
  if (optimizer !== null) requireGroups(optimizer.paramGroups.length, saved?.optimizer?.lrs?.length ?? 1);
  const moments = states.length === 0 ? null : opened(openCatalog(folder, 'optimizer'));
  const updatedFrozen = saved?.optimizer?.updatedFrozen ?? [];
  if (moments !== null) {
    const stateShapes = named.flatMap(([name, parameter]) =>
      hasStates(parameter, updatedFrozen)
        ? states.map((each) => [stateKey(name, each), wholeShapeOf(parameter)] as const)
        : [],
    );
    const head = `the optimizer states of ${folder} do not fit`;
    requireFit(head, new Map(stateShapes), moments.arrays, factsOf(moments));
  }
  const reader = new StretchReader(checksumsOf(folder));
  reader.checkHeaders(model);
  if (moments !== null) reader.checkHeaders(moments);
  return { folder, saved, model, moments, updatedFrozen, reader };
}

function take(state: TrainingState, fitting: Fitting, progress: LoadListener['progress']): LoadedCheckpoint {
  const { optimizer } = state;
  const { folder, saved, updatedFrozen, reader } = fitting;
  fill(state, fitting, progress);
  if (optimizer !== null && saved?.optimizer != null) {
    const { steps, stepsLeftOut, leftOutNext, lr, lrs } = saved.optimizer;
    setRates(optimizer, lr, lrs);
    optimizer.restore(steps, stepsLeftOut, updatedFrozen, leftOutNext);
  }
  return { folder, state: saved, ...reader.tally };
}

/** Loads this rank's elements, parameter by parameter. */
function fill(
  state: TrainingState,
  { reader, model, moments, updatedFrozen }: Fitting,
  progress: LoadListener['progress'],
): void {
  const access = accessOf(state);
  const named = [...state.model.namedState()];
  const parameters = named.map(([, parameter]) => parameter);
  const statesOf = (parameter: Parameter | undefined): readonly string[] =>
    parameter !== undefined && hasStates(parameter, updatedFrozen) && moments !== null
      ? (state.optimizer?.stateNames ?? [])
      : [];
  const ranges = heldRanges(parameters);
  let done = 0;
  const total = ranges.reduce((sum, { parameter, length }) => {
    const numArrays = 1 + statesOf(parameters[parameter]).length;
    return sum + ITEM_BYTES * numArrays * length;
  }, 0);
  for (const { parameter, ...range } of ranges) {
    const entry = named[parameter];
    if (entry === undefined) throw new ShardlabError('INTERNAL', `there is no parameter ${parameter}`);
    const [name, namedParameter] = entry;
    const { dtype } = namedParameter;
    for (const kind of [VALUES, ...statesOf(namedParameter)]) {
      const array = kind === VALUES ? model.arrays.get(name) : moments?.arrays.get(stateKey(name, kind));
      if (array === undefined) continue;
      reader.read(array, range, (values, start) => {
        access.write({ parameter, state: kind }, { start, length: values.length }, asStored(dtype, values));
        done += ITEM_BYTES * values.length;
        progress?.(done, total);
      });
    }
  }
  for (const buffer of buffersOf(parameters)) buffer.updated();
}

function savedState(folder: string): CheckpointState | null {
  const file = join(folder, STATE_FILE);
  return fs.existsSync(file) ? parseCheckpointState(readRegularFile(file), file) : null;
}

/** Returns facts about a catalog for messages: the files of each array, and the arrays that cannot be read. */
function factsOf({ arrays, unread }: Catalog): FitFacts {
  const where = (name: string): string => {
    const files = arrays.get(name)?.pieces.map(({ file }) => file.file) ?? [];
    return ` in ${[...new Set(files)].join(', ')}`;
  };
  return { where, unread };
}
