import type { DType } from '../../core';
import type { TorchLayer } from '../../nn';

/*
 * [Note: traced programs] A model's forward and its loss as a list of operations, from which code in another language is written.
 * The operations are the kernels that the engine ran. They belong to calls of modules; a layer that PyTorch has too is a call without
 * operations. A program holds no functions and no tensors, so a rank can send it.
 */

/** A dim of a batch that may differ from that of the trace. */
export type FreeDim = 'batch' | 'sequence';

/** A number that depends on the batch: `factor` · batch^`batch` · sequence^`sequence` + `offset`. */
export interface Extent {
  readonly factor: number;
  readonly batch: number;
  readonly sequence: number;
  readonly offset: number;
}

/** A number of a program; for most of them, the batch does not matter. */
export type TracedNumber = number | Extent;

/** An attribute of an operation. */
export type Attribute =
  | TracedNumber
  | string
  | boolean
  | null
  | readonly Attribute[]
  | { readonly [name: string]: Attribute };

/** Where a tensor of a program comes from. */
export type ValueSource =
  /** A tensor of the batch, such as 'x' or 'inputs.0'. */
  | { readonly kind: 'input'; readonly name: string }
  | { readonly kind: 'parameter'; readonly name: string }
  | { readonly kind: 'number'; readonly value: TracedNumber }
  /** A tensor that the forward makes of values in the code; `name` is its name in the file of such tensors. */
  | { readonly kind: 'constant'; readonly name: string }
  | { readonly kind: 'result' };

/** A tensor of a program. Its id is its index in the program. */
export interface TracedValue {
  readonly dtype: DType;
  readonly shape: readonly TracedNumber[];
  readonly source: ValueSource;
}

/** An operation: a kernel of the engine, or an operation that library code names. */
export interface TracedOperation {
  readonly kind: 'operation';
  readonly name: string;
  readonly inputs: Readonly<Record<string, number>>;
  readonly attrs: Readonly<Record<string, Attribute>>;
  readonly outputs: readonly number[];
  /** The user's line that ran the operation; '' if it is not known. */
  readonly line: string;
  /** Whether no gradient flows through the operation. */
  readonly isDetached: boolean;
}

/** A call of a module. The tensors of inputs and outputs are in the order in which they are in arrays and objects. */
export interface TracedCall {
  readonly kind: 'call';
  /** The module's path in the model; '' for the model. */
  readonly module: string;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  /** What the forward does; empty for a layer of PyTorch. */
  readonly body: readonly TracedNode[];
  readonly line: string;
}

export type TracedNode = TracedOperation | TracedCall;

/** A parameter or a buffer of a module; `fullName` is its first name in the model. */
export interface TracedTensor {
  readonly name: string;
  readonly fullName: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly kind: 'parameter' | 'buffer' | 'constant buffer';
  readonly requiresGrad: boolean;
}

/** A module of a traced model. */
export interface TracedModule {
  readonly path: string;
  readonly className: string;
  readonly kind: 'layer' | 'list' | 'dict' | 'sequence' | 'module';
  readonly layer: TorchLayer | null;
  /** The names of the inputs in the source of forward. */
  readonly inputNames: readonly string[];
  /** The modules in this one by name, each with its first path in the model. */
  readonly children: readonly { readonly name: string; readonly path: string }[];
  readonly tensors: readonly TracedTensor[];
}

/** A traced model with its loss. */
export interface TracedProgram {
  readonly modules: readonly TracedModule[];
  readonly values: readonly TracedValue[];
  /** The call of the model, then the operations of the loss. */
  readonly body: readonly TracedNode[];
  /** The id of the loss. */
  readonly loss: number;
  /** The dims of a batch that may change. */
  readonly free: readonly FreeDim[];
  /** Why other dims may not change. */
  readonly fixed: readonly string[];
  /** The modules that FSDP gathers as units, inner modules first, without the model itself. */
  readonly units: readonly string[];
  /** Whether some parameter that trains gets no gradient: it is not read, or what reads it does not reach the loss. */
  readonly leavesParametersOut: boolean;
}

/** Whether a number depends on the batch. */
export function isExtent(value: unknown): value is Extent {
  return typeof value === 'object' && value !== null && 'factor' in value && 'sequence' in value;
}
