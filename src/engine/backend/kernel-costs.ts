import type { DType, HalfDType, Seconds } from '../../core';

/** The properties of a tensor on which a kernel's cost depends. */
export interface KernelTensor {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** The type in which a GPU would store the values; undefined if a GPU would use `dtype` too. */
  readonly declared: HalfDType | undefined;
}

/** One run of a kernel on the main thread. Kernels that this kernel calls are not reported. */
export interface KernelCall {
  /**
   * The kernel's name in tfjs's registry, or the name of an in-place update of the engine, such as 'adamW' or 'addInto'.
   */
  readonly name: string;
  readonly inputs: readonly KernelTensor[];
  readonly outputs: readonly KernelTensor[];
  readonly attrs: Readonly<Record<string, unknown>>;
  /** The type in which a GPU would compute: the type of the FSDP unit to which the kernel belongs. Undefined means float32. */
  readonly declared: HalfDType | undefined;
  /** Full name of the module in whose forward or backward the kernel runs; '' outside of all modules. */
  readonly module: string;
  /** Where the kernel runs: updates of host arrays run on the host. */
  readonly place: 'device' | 'host';
}

/** Returns the time that a kernel takes, in seconds. */
export type KernelCosts = (call: KernelCall) => Seconds;

/** The part of a tensor that identifies its buffer. */
interface Held {
  readonly dataId: object;
}

/** Kernels whose result may be a view of their input; making a view takes no time. */
const VIEWS: ReadonlySet<string> = new Set(['Cast', 'ExpandDims', 'Identity', 'Reshape', 'Transpose']);

/** Returns whether all outputs of a kernel are views of its input. */
export function isView(name: string, input: Held | undefined, outputs: readonly Held[]): boolean {
  return VIEWS.has(name) && outputs.every(({ dataId }) => input?.dataId === dataId);
}
