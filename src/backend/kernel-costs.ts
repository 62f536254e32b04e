import type { DType, HalfDType } from '../core/dtypes';
import type { Seconds } from '../core/units';

/** A tensor as a kernel's cost depends on it. */
export interface KernelTensor {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** The type that a device would hold its values in; undefined: `dtype`. */
  readonly declared: HalfDType | undefined;
}

/** One run of a kernel on the main thread; kernels that it is made of are not told. */
export interface KernelCall {
  /** As tfjs and this library's engine register it, or as the engine's update in place is called: 'adamW', 'addInto'. */
  readonly name: string;
  readonly inputs: readonly KernelTensor[];
  readonly outputs: readonly KernelTensor[];
  readonly attrs: Readonly<Record<string, unknown>>;
  /** The type in which a device would compute: that of the unit that it belongs to; undefined: float32. */
  readonly declared: HalfDType | undefined;
  /** Full name of the module in whose forward or backward it runs; '' outside of all. */
  readonly module: string;
  /** Where it runs: updates of what lies on the host run there. */
  readonly place: 'device' | 'host';
}

/** How long a kernel takes. */
export type KernelCosts = (call: KernelCall) => Seconds;
