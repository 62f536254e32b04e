import type { TrainConfigInput } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import type { Tensor } from '../../core/tf';
import type { Module } from '../../nn/module';
import type { OwnSources, Shipped } from '../control/messages';
import type { OwnFunctions, UserFunction } from '../rank/own-parts';
import type { RankScope } from '../rank/scope';
import type { RankVariables } from './variables';

/** A model of the user's own: a function that makes it, or its class. Functions are sent to ranks as source code. */
export type OwnModel<Net> = ((scope: RankScope & RankVariables) => Net | Promise<Net>) | (new () => Net);

/** Makes the batches of a training; `index` counts a rank's microbatches from 0. */
export type OwnData<Batch> = (scope: RankScope & RankVariables, index: number) => Batch;

/** Returns the loss of a batch, a float32 scalar. */
export type OwnLoss<Net, Batch> = (
  output: OutputOf<Net>,
  batch: TensorsOf<Batch>,
  scope: RankScope & RankVariables,
) => Tensor;

/** What a model returns. */
type OutputOf<Net> = Net extends { forward(...inputs: never[]): infer Output } ? Output : Tensor;

/** A batch with tensors in place of arrays of numbers. */
export type TensorsOf<Batch> = {
  readonly [Key in keyof Batch]: Batch[Key] extends ArrayBufferView | Numbers ? Tensor : Batch[Key];
};

type Numbers = readonly number[] | readonly Numbers[];

/** The batches of files and arrays. */
export interface FileBatch {
  readonly x: Tensor;
  readonly y: Tensor;
}

/** A config, or a config whose model, data or loss is the user's own. */
export type TrainInput<Net = Module, Batch = FileBatch> = Omit<
  TrainConfigInput,
  'model' | 'data' | 'loss'
> & {
  /** A built-in model; a function or class of your own; or an export of a file: './net.ts#Net'. */
  readonly model?: TrainConfigInput['model'] | OwnModel<Net> | ModelFile;
  /** Built-in data, files, arrays, or a function that makes batches. */
  readonly data?: TrainConfigInput['data'] | OwnData<Batch>;
  /** Returns the loss of the model's output; without it, the output is the loss. */
  readonly loss?: TrainConfigInput['loss'] | OwnLoss<Net, Batch>;
};

/** A file and its export. Relative paths begin at the notebook. */
export type ModelFile = `${string}#${string}`;

/** The functions of a run, and the form in which ranks get them. */
export interface OwnWork {
  readonly sources: OwnSources;
  /** Null: a file's export, which only ranks load. */
  readonly functions: OwnFunctions | null;
}

/** A config without functions, and the functions. */
export interface SplitInput {
  readonly config: TrainConfigInput;
  readonly own: OwnWork | undefined;
}

/** Takes the functions out of a config. Throws: CONFIG for a function that cannot be sent and a wrong name of an export. */
export function splitInput(input: object): SplitInput {
  const { model, data, loss, ...rest } = input as Readonly<Record<string, unknown>>; // the parser checks it
  const functions = { model: functionOf(model), data: functionOf(data), loss: functionOf(loss) };
  const file = typeof model === 'string' && model.includes('#') ? exportOf(model) : null;
  if (file === null && Object.values(functions).every((one) => one === null)) {
    return { config: input as TrainConfigInput, own: undefined }; // nothing in it is a function
  }
  const config = {
    ...rest,
    ...(file === null && functions.model === null ? { model } : { model: { kind: 'own' } }),
    ...(data === undefined ? {} : { data: functions.data === null ? data : 'function' }),
    ...(loss === undefined ? {} : { loss: functions.loss === null ? loss : 'function' }),
  } as TrainConfigInput; // as the parser checks
  const sources = {
    model: file ?? shipped(functions.model),
    data: shipped(functions.data),
    loss: shipped(functions.loss),
  };
  return { config, own: { sources, functions: file === null ? functions : null } };
}

function functionOf(value: unknown): UserFunction | null {
  return typeof value === 'function' ? (value as UserFunction) : null; // a function takes any arguments
}

function exportOf(text: string): Shipped {
  const [file = '', exported = '', ...rest] = text.split('#');
  if (file !== '' && exported !== '' && rest.length === 0) return { file, exported };
  throw new ConfigError(`model is '${text}'; name a file and its export, as './net.ts#Net'`);
}

function shipped(own: UserFunction | null): Shipped | null {
  return own === null ? null : { source: String(own) };
}
