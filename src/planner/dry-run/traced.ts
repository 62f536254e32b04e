import type { DType } from '../../core';

/** The shape and type of a tensor that a kernel reads or writes; other types than float32 are bytes, which have the type bool. */
export interface TracedTensor {
  readonly shape: readonly number[];
  readonly dtype: Extract<DType, 'float32' | 'bool'>;
}

/** One kernel, under the name of PyTorch's operation, or of a kernel of this library that does the same work. */
export interface TracedKernel {
  readonly name: string;
  readonly inputs: readonly TracedTensor[];
  readonly outputs: readonly TracedTensor[];
  readonly attrs?: Readonly<Record<string, unknown>>;
}

/** Operations of a forward that follow each other in one module, and the operations of their backward. */
export interface TracedSegment {
  /** The parameters that the forward reads, by their index in `parameters`. */
  readonly params: readonly number[];
  /** The number of float32 values that the next segment gets as the input of a block; 0: the next segment begins no block. */
  readonly carried: number;
  /** Whether backward needs the values that the segment before it carried here. */
  readonly keepsInput: boolean;
  /** The float32 values, and the bytes of other types, that exist from here on until this segment's backward. */
  readonly savedFloats: number;
  readonly savedBytes: number;
  /** The most bytes that exist only while the segment's forward or backward runs. */
  readonly forwardBytes: number;
  readonly backwardBytes: number;
  readonly forward: readonly TracedKernel[];
  readonly backward: readonly TracedKernel[];
}

/** The steps of a call, in order: a segment by its index, or the call of a module. */
export type TracedStep = number | TracedCall;

interface TracedCall {
  readonly module: string;
  readonly steps: readonly TracedStep[];
}

/** What one microbatch of a model showed when it ran on shapes; a program in another language may have run it. */
export interface Traced {
  /** The modules and their classes, parents first; the model's name is ''. */
  readonly modules: readonly { readonly name: string; readonly kind: string }[];
  /** The model's blocks, which activation checkpointing runs again. */
  readonly blocks: readonly string[];
  /** The units that the config's wrap policy makes, without the model itself. */
  readonly units: readonly string[];
  /** A tied parameter has several names. */
  readonly parameters: readonly {
    readonly names: readonly string[];
    readonly shape: readonly number[];
    readonly trains: boolean;
  }[];
  readonly buffers: readonly {
    readonly name: string;
    readonly shape: readonly number[];
    readonly bytes: number;
    readonly isFloat: boolean;
  }[];
  /** The shape of the model's first input, and the bytes of the whole batch. */
  readonly batch: {
    readonly shape: readonly number[];
    readonly isTokens: boolean;
    readonly bytes: number;
  };
  readonly segments: readonly TracedSegment[];
  /** The call of the model, and then the steps of the loss. */
  readonly steps: readonly TracedStep[];
}
