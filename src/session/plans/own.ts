import { requirePlain, type TrainConfigInput } from '../../config';
import { ConfigError } from '../../core';
import type { Tensor } from '../../core/tf';
import type { OwnFunctions, OwnSources, RankScope, RankVariables, Shipped, UserFunction } from '../../launch';
import type { Module } from '../../nn';
import type { FileBatch } from '../../training';

/** A model of the user's own: a function that makes it, or its class. Functions are sent to ranks as source code. */
export type OwnModel<Net> = ((scope: RankScope & RankVariables) => Net | Promise<Net>) | (new () => Net);

/** Makes the batches of a training; `index` counts a rank's microbatches from 0. */
export type OwnData<Batch> = (scope: RankScope & RankVariables, index: number) => Batch;

/** Functions that make the batches of a training and of its validation. */
export interface OwnBatches<Batch> {
  readonly train: OwnData<Batch>;
  /**
   * Makes the batches that are never trained on; returns undefined after the last one. `index` counts the batches of all
   * ranks: rank r of w evaluates batches r, r + w, and so on, so each batch counts once.
   */
  readonly validation: (scope: RankScope & RankVariables, index: number) => Batch | undefined;
}

/** Returns the loss of a batch, a float32 scalar. */
export type OwnLoss<Net, Batch> = (
  output: OutputOf<Net>,
  batch: TensorsOf<Batch>,
  scope: RankScope & RankVariables,
) => Tensor;

/** The type of a model's output. */
type OutputOf<Net> = Net extends { forward(...inputs: never[]): infer Output } ? Output : Tensor;

/** A batch with tensors in place of arrays of numbers. */
export type TensorsOf<Batch> = {
  readonly [Key in keyof Batch]: Batch[Key] extends ArrayBufferView | Numbers ? Tensor : Batch[Key];
};

type Numbers = readonly number[] | readonly Numbers[];

/** A config, or a config whose model, data or loss is the user's own. */
export type TrainInput<Net = Module, Batch = FileBatch> = Omit<
  TrainConfigInput,
  'model' | 'data' | 'loss'
> & {
  /** A built-in model; a function or class of your own; or an export of a file: './net.ts#Net'. */
  readonly model?: TrainConfigInput['model'] | OwnModel<Net> | FileExport;
  /** Built-in data, files, arrays, or a function that makes batches. */
  readonly data?: TrainConfigInput['data'] | OwnData<Batch> | OwnBatches<Batch>;
  /** Returns the loss of the model's output; or an export of a file: './net.ts#loss'. Default: the output is the loss. */
  readonly loss?: TrainConfigInput['loss'] | OwnLoss<Net, Batch> | FileExport;
};

/** A file and its export. Relative paths begin in the notebook's folder. */
export type FileExport = `${string}#${string}`;

/** The functions of a run, and the form in which ranks get them. */
export interface OwnWork {
  readonly sources: OwnSources;
  /** Null if a function is the export of a file, because only ranks load files. */
  readonly functions: OwnFunctions | null;
}

/** A config without functions, and the functions. */
export interface SplitInput {
  readonly config: TrainConfigInput;
  readonly own: OwnWork | undefined;
}

/** Takes the functions out of a config. Throws: CONFIG for a function that cannot be sent and a wrong name of an export. */
export function splitInput(input: object): SplitInput {
  requirePlain(input);
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    return { config: input as TrainConfigInput, own: undefined }; // the parser refuses it
  const { model, data, loss, ...rest } = input as Readonly<Record<string, unknown>>; // the parser checks it
  const functions = { model: functionOf(model), loss: functionOf(loss), ...batchFunctions(data) };
  const sources = {
    model: exportOf('model', model) ?? shipped(functions.model),
    loss: exportOf('loss', loss) ?? shipped(functions.loss),
    data: shipped(functions.data),
    validation: shipped(functions.validation),
  };
  const all = Object.values(sources);
  if (all.every((one) => one === null)) {
    return { config: input as TrainConfigInput, own: undefined }; // the config contains no function
  }
  const config = {
    ...rest,
    model: sources.model === null ? model : { kind: 'own' },
    ...(data === undefined ? {} : { data: sources.data === null ? data : 'function' }),
    ...(loss === undefined ? {} : { loss: sources.loss === null ? loss : 'function' }),
  } as TrainConfigInput; // the parser checks it
  const isInFile = all.some((one) => one !== null && 'file' in one);
  return { config, own: { sources, functions: isInFile ? null : functions } };
}

/** Returns the functions that make batches. Throws: CONFIG if an object has `train`, but not two functions. */
function batchFunctions(data: unknown): Pick<OwnFunctions, 'data' | 'validation'> {
  const parts = typeof data === 'object' && data !== null && 'train' in data ? data : { train: data };
  const { train, validation = null, ...others } = parts as Readonly<Record<string, unknown>>;
  const functions = { data: functionOf(train), validation: functionOf(validation) };
  const isWhole =
    functions.data !== null && functions.validation !== null && Object.keys(others).length === 0;
  if (parts !== data || isWhole) return functions;
  throw new ConfigError(
    'data: { train, validation } takes two functions, as data: { train: (scope, index) => ({ x, y }), validation: (scope, index) ' +
      '=> index >= 10 ? undefined : { x, y } }; for files, write { path, validation }',
  );
}

function functionOf(value: unknown): UserFunction | null {
  return typeof value === 'function' ? (value as UserFunction) : null; // a function takes any arguments
}

function exportOf(key: 'model' | 'loss', text: unknown): Shipped | null {
  if (typeof text !== 'string' || !text.includes('#')) return null;
  const [file = '', exported = '', ...rest] = text.split('#');
  if (file !== '' && exported !== '' && rest.length === 0) return { file, exported };
  throw new ConfigError(
    `${key} is '${text}'; name a file and its export, as './net.ts#${key === 'model' ? 'Net' : 'loss'}'`,
  );
}

function shipped(own: UserFunction | null): Shipped | null {
  return own === null ? null : { source: String(own) };
}

/** Returns the error for a user's functions in a job on PyTorch. */
export function ownOnTorch(): ConfigError {
  return new ConfigError(
    "engine 'torch' trains built-in models: a model, loss or data function of your own is JavaScript, which its ranks do not run; " +
      "train it with engine 'wasm', or write the model in Python, as model: { python: './net.py', class: 'Net', seq: 128 }",
  );
}
