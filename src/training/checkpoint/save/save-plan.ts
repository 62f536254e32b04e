import { z } from 'zod';
import { anyValue, limitAbove, parseOptions, type ShapeOf } from '../../../config';
import { type Bytes, ConfigError } from '../../../core';
import { groupRates } from '../../../sharding';
import type { Json } from '../format/checkpoint-state';
import { encodeHeader } from '../format/safetensors-header';
import { type StoredDType, storedBytes } from '../format/stored-dtypes';
import { wholeShapeOf, wholeSizeOf } from '../state/parts';
import { heldRanges, sharePlacement } from '../state/placement';
import { VALUES } from '../state/state-access';
import {
  GRADIENT,
  hasStates,
  type SavedTraining,
  type StepCounts,
  stepCountsOf,
  storedLists,
} from '../state/training-state';
import type { CommitDocuments } from './commit';
import { ownersOf } from './owners';
import type { FileHead } from './part-writer';
import { type SavedArray, type StateDictType, saveLayout, type WriteTask } from './save-layout';

/** Options of a save. */
export interface SaveOptions {
  /**
   * SHARDED_STATE_DICT (the default): each rank writes its own file. FULL_STATE_DICT: files have whole tensors, like
   * Hugging Face's files.
   */
  readonly type?: StateDictType;
  /** Maximum bytes of a file of whole tensors. Default 5 GB. Source: Hugging Face's max_shard_size. */
  readonly maxShardBytes?: Bytes;
  /** Type of the stored parameters. A 16-bit type rounds the values, so loaded values differ. Default F32. */
  readonly dtype?: Exclude<StoredDType, 'I32' | 'I64'>;
  /** Plain JSON that rank 0 stores with the states. */
  readonly trainer?: Json;
}

/** The work of one rank in a save. */
export interface SavePlan {
  /** The text of each index file, by the file's name. */
  readonly indices: ReadonlyMap<string, string>;
  /** The headers that this rank writes. */
  readonly heads: readonly FileHead[];
  /** This rank's tasks; `position` is the position of a task's first byte in the file. */
  readonly tasks: readonly (WriteTask & { readonly position: Bytes })[];
  /** Number of bytes to copy from this rank's states. */
  readonly totalBytes: Bytes;
  /** The optimizer's counts of updates; null without an optimizer. */
  readonly counts: StepCounts | null;
}

/** Default of `maxShardBytes`. Source: huggingface_hub, MAX_SHARD_SIZE. */
const MAX_SHARD_BYTES = 5e9;
const ITEM_BYTES = 4;
const TYPES = ['FULL_STATE_DICT', 'SHARDED_STATE_DICT'] as const satisfies readonly StateDictType[];

const USED_TYPES = 'SHARDED_STATE_DICT or FULL_STATE_DICT';
const NO_LOCAL_TYPE =
  "LOCAL_STATE_DICT stores FSDP1's flat parameters as they are in memory, so no other world can load them";

/** The shape of the options of a save. */
export const SAVE_OPTIONS = {
  type: z.enum(TYPES).describe(`${USED_TYPES} (${NO_LOCAL_TYPE})`),
  maxShardBytes: limitAbove(0).describe('the largest size of a file in bytes, such as 5e9'),
  dtype: z.enum(['F32', 'BF16', 'F16']),
  trainer: anyValue<Json>(),
} satisfies ShapeOf<SaveOptions>;

/** Checks the options of a save. Throws: CONFIG for an unknown option, a type that cannot be saved, or an invalid size. */
export function checkSaveOptions(options: SaveOptions): void {
  parseOptions('a save', options, SAVE_OPTIONS);
}

/** Checks a type of state dict, because code in a cell may pass any text. Throws: CONFIG, with the known types. */
export function checkStateDictType(type: string): void {
  if (TYPES.some((known) => known === type)) return;
  const why = type === 'LOCAL_STATE_DICT' ? NO_LOCAL_TYPE : `there is no StateDictType ${type}`;
  throw new ConfigError(`${why}; use ${USED_TYPES}`);
}

/** Plans which rank writes which elements into which file. All ranks call this function, which is a collective. */
export function planSave(state: SavedTraining, options: SaveOptions): SavePlan {
  const { group, replicas = group, optimizer } = state;
  const counts = optimizer && stepCountsOf(state, 'saveCheckpoint()', optimizer);
  const named = state.model.namedState();
  const parameters = [...named.values()];
  // If ranks with the same parts have different values, the first rank's values are saved. Source: FSDP saves the ignored
  // parameters of rank 0.
  const held = heldRanges(parameters).filter(
    ({ parameter }) => replicas.rank === 0 || !parameters[parameter]?.state.isLocal,
  );
  const placement = sharePlacement(state, held, parameters.length);
  const described = [...named].map(([name, parameter]) => ({ name, size: wholeSizeOf(parameter) }));
  const layout = saveLayout(
    savedArrays(state, options, counts?.updatedFrozen ?? []),
    ownersOf(placement, described),
    {
      type: options.type ?? 'SHARDED_STATE_DICT',
      maxShardBytes: options.maxShardBytes ?? MAX_SHARD_BYTES,
      numRanks: group.size,
    },
  );
  const files = layout.files.map((file) => ({ ...file, ...encodeHeader(file.tensors, file.metadata) }));
  const headers = new Map(files.map(({ file, header }) => [file, header]));
  const tasks = layout.tasks
    .filter(({ rank }) => rank === group.rank)
    .map((task) => {
      const { dataStart = 0, tensors } = headers.get(task.file) ?? {};
      const from = tensors?.get(task.tensor)?.from ?? 0;
      return { ...task, position: dataStart + from + storedBytes(task.array.dtype) * task.at };
    });
  return {
    indices: layout.indices,
    heads: files.flatMap(({ file, rank, bytes, fileBytes }) => {
      return rank === group.rank ? [{ file, bytes, fileBytes }] : [];
    }),
    tasks,
    totalBytes: ITEM_BYTES * tasks.reduce((sum, { length }) => sum + length, 0),
    counts,
  };
}

/** Returns the checkpoint's description, which the first rank writes. */
export function describeSave(
  { group, optimizer }: SavedTraining,
  { counts }: Pick<SavePlan, 'counts'>,
  { type = 'SHARDED_STATE_DICT', trainer = null }: SaveOptions,
  id: string,
): CommitDocuments['state'] {
  return {
    format: 'shardlab checkpoint',
    version: 1,
    id,
    state_dict_type: type,
    world: group.size,
    optimizer:
      optimizer === null
        ? null
        : {
            steps: optimizer.steps,
            stepsLeftOut: counts?.stepsLeftOut,
            ...(counts && storedLists(counts)),
            lr: optimizer.lr,
            lrs: groupRates(optimizer),
            states: [...optimizer.stateNames],
          },
    trainer,
  };
}

function savedArrays(
  { model, optimizer }: SavedTraining,
  { dtype = 'F32' }: SaveOptions,
  updatedFrozen: readonly string[],
): SavedArray[] {
  return [...model.namedState()].flatMap(([name, namedParameter], parameter) => {
    const { dtype: own } = namedParameter;
    const shape = wholeShapeOf(namedParameter);
    const stored = own === 'int32' ? 'I32' : dtype;
    const values = { kind: 'model', name, parameter, state: VALUES, dtype: stored, shape } as const;
    const states = hasStates(namedParameter, updatedFrozen) ? (optimizer?.stateNames ?? []) : [];
    return [
      values,
      ...states.map((state): SavedArray => {
        return { kind: 'optimizer', name: stateKey(name, state), parameter, state, dtype: 'F32', shape };
      }),
    ];
  });
}

/** Returns the parameter of a key under which a save of `gradientStates` has a gradient. */
export function parameterOfGradient(key: string): string {
  return key.slice(0, -stateKey('', GRADIENT).length);
}

/** Returns the name under which a parameter's optimizer state is stored. */
export function stateKey(parameter: string, state: string): string {
  return `${parameter}.${state}`;
}
